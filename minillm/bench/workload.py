"""Seeded workloads: real prompts, lognormal output lengths, Poisson arrivals.

The same seed gives the same requests on every machine; prompts, lengths and arrivals are drawn
from three generators, so that changing the rate changes no length. Lengths in tokens, times in
seconds.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from importlib.resources import files

from minillm.core import Arrival, SamplingParams

MEDIAN, SIGMA = 24, 1.0  # of the output lengths: ln(length) is normal around ln(MEDIAN)
SHORTEST, LONGEST = 4, 160


def read_prompts() -> list[str]:
    """The prompts of our own, 64 of 5 to 120 tokens (minillm/data/prompts.json)."""
    file = files("minillm") / "data" / "prompts.json"
    return json.loads(file.read_text(encoding="utf-8"))["prompts"]


def output_lengths(num_requests: int, seed: int) -> list[int]:
    """Output lengths: lognormal (median 24, sigma 1), cut to 4 … 160 tokens."""
    rng = random.Random(f"{seed}/lengths")
    draws = (rng.lognormvariate(math.log(MEDIAN), SIGMA) for _ in range(num_requests))
    return [min(max(round(draw), SHORTEST), LONGEST) for draw in draws]


def poisson_arrivals(num_requests: int, rate: float | None, seed: int) -> list[float]:
    """Arrival times at `rate` requests a second, exponential gaps; None: all at time 0."""
    if rate is None:
        return [0.0] * num_requests
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"The rate must be a number of requests a second > 0, got {rate!r}.")
    rng = random.Random(f"{seed}/arrivals")
    times, now = [], 0.0
    for _ in range(num_requests):
        now += rng.expovariate(rate)
        times.append(now)
    return times


def mixed_workload(
    encode: Callable[[str], Sequence[int]],
    num_requests: int = 24,
    seed: int = 0,
    rate: float | None = None,
) -> list[Arrival]:
    """The workload of `minillm compare`: each request runs to its length (EOS is ignored).

    encode: text → token ids. More requests than prompts: prompts come again.
    """
    if num_requests < 1:
        raise ValueError(f"The number of requests must be at least 1, got {num_requests}.")
    prompts = read_prompts()
    random.Random(f"{seed}/prompts").shuffle(prompts)
    lengths = output_lengths(num_requests, seed)
    times = poisson_arrivals(num_requests, rate, seed)
    arrivals = []
    for i, (length, when) in enumerate(zip(lengths, times, strict=True)):
        prompt = prompts[i % len(prompts)]
        params = SamplingParams(max_tokens=length, ignore_eos=True)
        ids = tuple(encode(prompt))
        arrivals.append(Arrival(f"r{i}", ids, params, when, prompt_preview=prompt))
    return arrivals
