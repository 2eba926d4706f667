"""Requests for the simulator: when they come, how long they are, which prefix they share.

A simulated prompt is a row of *segments*. A segment's tokens depend on its key and place alone,
so two prompts that begin with the same segments have the same token ids there, and the engine's
own prefix cache finds them. Everything random takes a seed and is the same on every machine and
under every PYTHONHASHSEED. Lengths in tokens, times in seconds, rates in requests a second.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from minillm.core import Arrival, SamplingParams

OWN, BLOCK, TENANT = 0, 1, 2  # kinds of segments: a request's own text, a trace's block, a prefix
ARRIVALS = ("poisson", "gamma", "constant")

_BASE = 30_000  # a segment's number is written in its first tokens to this base
_FIRST = 1_000  # ids of simulated prompts are 1,000 … 30,999: below every usual vocabulary
_HEADER = 3


class Segment(NamedTuple):
    """`length` tokens whose ids follow from (kind, number)."""

    kind: int
    number: int
    length: int


@dataclass(frozen=True, slots=True)
class SimRequest:
    """One request to come. output_len: the tokens it will be given, no more and no fewer."""

    request_id: str
    time: float
    segments: tuple[Segment, ...]
    output_len: int

    @property
    def input_len(self) -> int:
        return sum(segment.length for segment in self.segments)

    def prompt_token_ids(self) -> tuple[int, ...]:
        """The prompt's token ids, made anew on each call: a long trace need not hold them all."""
        ids: list[int] = []
        for segment in self.segments:
            ids.extend(segment_ids(segment))
        return tuple(ids)

    def params(self) -> SamplingParams:
        return SamplingParams(max_tokens=self.output_len, ignore_eos=True)

    def arrival(self) -> Arrival:
        """The same as the core's driver takes it."""
        return Arrival(self.request_id, self.prompt_token_ids(), self.params(), self.time)


def own_request(index: int, time: float, input_len: int, output_len: int) -> SimRequest:
    """A request that shares no prefix with any other."""
    return SimRequest(f"r{index}", time, (Segment(OWN, index, input_len),), output_len)


def segment_ids(segment: Segment) -> tuple[int, ...]:
    """Number and kind in the first three tokens, then always the same filler.

    A KV block's hash covers all tokens before it, so three telling tokens make a whole segment
    its own; the filler is sliced, which costs nearly nothing. A longer segment of the same key
    begins with the shorter one.
    """
    kind, number, length = segment
    if not 0 <= number < _BASE * _BASE:
        raise ValueError(f"A segment's number must lie in 0 … {_BASE * _BASE - 1}, got {number}.")
    header = (_FIRST + number % _BASE, _FIRST + number // _BASE, _FIRST + kind)
    if length <= _HEADER:
        return header[:length]
    size = 1 << (length - _HEADER).bit_length()
    return header + _filler(size)[: length - _HEADER]


@lru_cache(maxsize=32)
def _filler(size: int) -> tuple[int, ...]:
    """Ids from a linear congruential generator; the start of a longer filler is the same."""
    state, ids = 1, []
    for _ in range(size):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        ids.append(_FIRST + (state >> 8) % _BASE)
    return tuple(ids)


# ── lengths and arrival times ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always `value` tokens."""

    value: int

    def __post_init__(self) -> None:
        _check_count("A fixed length", self.value)

    def draw(self, rng: random.Random) -> int:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every length from low to high tokens alike."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_count("The shortest length", self.low)
        if self.high < self.low:
            raise ValueError(f"Lengths must not end ({self.high}) before they begin ({self.low}).")

    def draw(self, rng: random.Random) -> int:
        return rng.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """ln(length) is normal around ln(median) with standard deviation sigma; cut to low … high."""

    median: float
    sigma: float = 1.0
    low: int = 1
    high: int = 100_000

    def __post_init__(self) -> None:
        if not (math.isfinite(self.median) and self.median > 0):
            raise ValueError(f"The median length must be > 0 tokens, got {self.median!r}.")
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise ValueError(f"sigma must be a number ≥ 0, got {self.sigma!r}.")
        Uniform(self.low, self.high)

    def draw(self, rng: random.Random) -> int:
        length = round(rng.lognormvariate(math.log(self.median), self.sigma))
        return min(max(length, self.low), self.high)


Lengths = Fixed | Uniform | Lognormal


def check_rate(rate: object) -> float:
    """A rate > 0 as a float; ValueError in one sentence for anything else."""
    number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not (number and math.isfinite(rate) and rate > 0):
        raise ValueError(f"The rate must be a number of requests a second > 0, got {rate!r}.")
    return float(rate)


def arrival_times(
    count: int, rate: float, seed: int, kind: str = "poisson", cv: float = 2.0
) -> list[float]:
    """`count` times from the first gap on, at `rate` requests a second in the mean.

    poisson: exponential gaps, independent users. gamma: gaps of coefficient of variation cv
    (cv > 1: bursts; cv = 1 is Poisson). constant: every 1/rate seconds.
    """
    _check_count("The number of requests", count)
    rate = check_rate(rate)
    rng = random.Random(f"{seed}/arrivals")
    if kind == "poisson":
        gaps = [rng.expovariate(rate) for _ in range(count)]
    elif kind == "gamma":
        if not (math.isfinite(cv) and cv > 0):
            raise ValueError(f"The coefficient of variation must be > 0, got {cv!r}.")
        gaps = [rng.gammavariate(1 / cv**2, cv**2 / rate) for _ in range(count)]
    elif kind == "constant":
        gaps = [1 / rate] * count
    else:
        raise ValueError(f"Unknown arrivals {kind!r}: choose one of {', '.join(ARRIVALS)}.")
    times, now = [], 0.0
    for gap in gaps:
        now += gap
        times.append(now)
    return times


# ── whole workloads ─────────────────────────────────────────────────────────────────────────


def synthetic(
    count: int,
    rate: float,
    seed: int = 0,
    *,
    inputs: Lengths | None = None,
    outputs: Lengths | None = None,
    arrivals: str = "poisson",
    cv: float = 2.0,
) -> list[SimRequest]:
    """Requests without a shared prefix. Times, inputs and outputs have a generator each, so that
    another rate changes no length. Default lengths resemble chat: medians 512 and 128 tokens."""
    inputs = inputs or Lognormal(512, 0.8, 8, 16_000)
    outputs = outputs or Lognormal(128, 0.8, 1, 2_000)
    times = arrival_times(count, rate, seed, arrivals, cv)
    draw_in, draw_out = random.Random(f"{seed}/inputs"), random.Random(f"{seed}/outputs")
    return [
        own_request(i, when, inputs.draw(draw_in), outputs.draw(draw_out))
        for i, when in enumerate(times)
    ]


def with_documents(
    requests: Sequence[SimRequest], share: float, lengths: Lengths | None = None, seed: int = 0
) -> list[SimRequest]:
    """The same requests, but each is with probability `share` about a document of its own
    (default: 12,000 to 24,000 tokens) in place of its prompt."""
    if not 0 <= share <= 1:
        raise ValueError(f"The share of documents must lie between 0 and 1, got {share!r}.")
    lengths = lengths or Uniform(12_000, 24_000)
    rng = random.Random(f"{seed}/documents")
    mixed = []
    for i, request in enumerate(requests):
        document, length = rng.random() < share, lengths.draw(rng)
        segments = (Segment(OWN, i, length),) if document else request.segments
        mixed.append(replace(request, segments=segments))
    return mixed


def with_tenants(
    requests: Sequence[SimRequest], tenants: int, prefix_len: int, seed: int = 0
) -> list[SimRequest]:
    """The same requests, each behind the system prompt of one of `tenants` tenants, drawn evenly:
    `prefix_len` tokens that all requests of the tenant begin with."""
    _check_count("The number of tenants", tenants)
    _check_count("The length of a shared prefix", prefix_len)
    rng = random.Random(f"{seed}/tenants")
    return [
        replace(r, segments=(Segment(TENANT, rng.randrange(tenants), prefix_len), *r.segments))
        for r in requests
    ]


def retime(requests: Iterable[SimRequest], times: Iterable[float]) -> list[SimRequest]:
    """The same requests at other times, in order."""
    return [replace(r, time=when) for r, when in zip(requests, times, strict=True)]


def scale_rate(requests: Sequence[SimRequest], rate: float) -> list[SimRequest]:
    """Stretch or shrink all gaps alike, so that the mean rate is `rate`: bursts stay bursts.

    The first request comes at 0. The rate of n requests is (n − 1) ÷ (last − first arrival).
    """
    rate = check_rate(rate)
    if not requests:
        return []
    first, last = requests[0].time, requests[-1].time
    if last <= first:
        if len(requests) > 1:
            raise ValueError(
                f"All {len(requests)} requests come at once: there is no rate to scale; "
                f"ask for Poisson arrivals instead."
            )
        return retime(requests, [0.0])
    factor = (len(requests) - 1) / rate / (last - first)
    return retime(requests, [(r.time - first) * factor for r in requests])


def _check_count(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{what} must be an integer ≥ 1, got {value!r}.")
