"""Exercise 12: Poisson arrivals, and a configuration that serves a thousand users within an SLO.

The configuration is tried on a simulated cluster and a virtual clock: the machine's speed does not
count. A thousand users who each send a request a minute are 1000/60 requests a second.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from grading.exercise import Call, Exercise, Finding, Property, calls, equals, run_function, show
from minillm.core.metrics import goodput
from minillm.sim.cluster_spec import ReplicaSpec
from minillm.sim.simulate import EngineOptions, make_workload, run_cluster

SEED = 12
ARRIVALS, CONFIG = "poisson_arrivals", "serving_config"
GPU, RATE, REQUESTS = "A100-80GB-SXM", 1000 / 60, 300
TTFT_S, TPOT_S = 0.5, 0.05
LIMITS = {"replicas": (1, 8), "max_num_seqs": (1, 1024), "max_num_batched_tokens": (16, 32768)}


def poisson_arrivals(rate: float, draws: Sequence[float]) -> list[float]:
    """Times in seconds: gaps −ln(1 − u)/rate for numbers u drawn evenly from 0 ≤ u < 1."""
    times, now = [], 0.0
    for u in draws:
        now -= math.log(1 - u) / rate
        times.append(now)
    return times


def random_draws(seed: int, count: int) -> list[tuple[float, list[float]]]:
    """(rate, draws) with slow and fast rates."""
    chance = random.Random(seed)
    return [
        (chance.choice([0.25, 1.0, 2.0, 16.5, 300.0]),
         [round(chance.random(), 6) for _ in range(chance.randint(1, 9))])
        for _ in range(count)
    ]  # fmt: skip


# ── the configuration ───────────────────────────────────────────────────────────────────────


def fault(config: object) -> str:
    """What is wrong with a configuration, an empty text if nothing."""
    if not isinstance(config, dict) or set(config) != set(LIMITS):
        return f"a dict with {', '.join(LIMITS)}"
    for name, (low, high) in LIMITS.items():
        value = config[name]
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            return f"{name}: a whole number from {low} to {high}"
    if config["max_num_batched_tokens"] < config["max_num_seqs"]:
        return "max_num_batched_tokens at least max_num_seqs, a token for each sequence"
    return ""


@lru_cache(maxsize=128)
def share_within(replicas: int, slots: int, budget: int, arrivals: str, seed: int) -> float:
    """The share of requests that keep the SLO, behind least_conn."""
    load = make_workload(rate=RATE, requests=REQUESTS, arrivals=arrivals, seed=seed)
    options = EngineOptions(max_num_seqs=slots, max_num_batched_tokens=budget)
    specs = [ReplicaSpec(GPU)] * replicas
    _, run, _ = run_cluster(specs, load, options, router="least_conn", keep_traces=False)
    return goodput(run.requests, 1.0, ttft_s=TTFT_S, tpot_s=TPOT_S) / len(load)


def serves(share: float, most_gpus: int, arrivals: str = "trace", seed: int = 0) -> object:
    """A finding: at least that share within the SLO, with at most so many GPUs."""

    def finding(args: dict, answer: object) -> Finding:
        config = answer["value"]
        wrong = fault(config)
        if wrong:
            return wrong, show(config)
        if config["replicas"] > most_gpus:
            return f"at most {most_gpus} GPUs", f"{config['replicas']}"
        got = share_within(*(config[name] for name in LIMITS), arrivals, seed)
        if got >= share:
            return None
        return f"at least {share:.0%} of the requests within the SLO", f"{got:.1%}"

    return finding


def served(name: str, points: float, hint: str, finding: object) -> Property:
    call = Call(f"{CONFIG}()", {"name": CONFIG, "args": []})
    return Property(name, points, hint, (call,), finding, (CONFIG,))


def arrival(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
    found = equals(poisson_arrivals)
    return Property(name, points, hint, calls(ARRIVALS, arguments), found, (ARRIVALS,))


def run(objects: Mapping[str, object], args: dict) -> object:
    return run_function(objects, args)


EXERCISE = Exercise(
    "lesson_12",
    run,
    (
        arrival(
            "the first gap follows from the first draw", 1,
            "Which u gives a gap of 0, and which a long one?",
            [(1.0, [0.5]), (1.0, [0.0]), (1.0, [0.9]), (1.0, [0.25])],
        ),
        arrival(
            "twice the rate, half the gaps", 1, "In which unit is a rate, and in which a gap?",
            [(2.0, [0.5]), (4.0, [0.5, 0.5]), (0.5, [0.1])],
        ),
        arrival(
            "times add up, one for each draw", 2, "When does the second request come?",
            [(1.0, [0.5, 0.5]), (1.0, [0.9, 0.1, 0.5]), (1.0, []), *random_draws(SEED, 20)],
        ),
        served(
            "half of the requests within the SLO, on 8 GPUs or fewer", 1,
            "What do most requests miss: the TTFT or the TPOT?", serves(0.5, 8),
        ),
        served(
            "95 % of the requests within the SLO, on 8 GPUs or fewer", 2,
            "Does anybody wait for a slot? Which knob has slots?", serves(0.95, 8),
        ),
        served(
            "95 % on as few GPUs as do it: 3", 3,
            "With one GPU less, which limit is broken first, and which knob moves it?",
            serves(0.95, 3),
        ),
    ),
)  # fmt: skip
