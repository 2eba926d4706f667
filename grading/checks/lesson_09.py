"""Exercise 9: TTFT, ITL, TPOT, percentiles and goodput, defined as minillm.core.metrics does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from grading.exercise import Exercise, Property, calls, equals, run_function
from minillm.core.metrics import percentile

SEED = 9
TTFT, ITL, TPOT, PERCENTILE, GOODPUT = "ttft", "itl", "tpot", "percentile", "goodput"
Served = tuple[float | None, float | None, bool]  # TTFT, TPOT (seconds), completed


def ttft(arrival: float, token_times: Sequence[float]) -> float | None:
    """Seconds from the arrival to the first token; None without one."""
    return token_times[0] - arrival if token_times else None


def itl(token_times: Sequence[float]) -> list[float]:
    """Seconds between each token and the next."""
    return [after - before for before, after in pairwise(token_times)]


def tpot(token_times: Sequence[float]) -> float | None:
    """Mean seconds per token after the first; None for fewer than two."""
    if len(token_times) < 2:
        return None
    return (token_times[-1] - token_times[0]) / (len(token_times) - 1)


def goodput(
    requests: Sequence[Served],
    duration: float,
    ttft_limit: float | None,
    tpot_limit: float | None,
) -> float | None:
    """Completed requests a second that keep both limits; None without a duration."""
    if not duration > 0:
        return None
    good = 0
    for first, per_token, completed in requests:
        pairs = ((first, ttft_limit), (per_token, tpot_limit))
        kept = all(value is None or limit is None or value <= limit for value, limit in pairs)
        good += completed and kept
    return good / duration


# ── inputs: quarters of a second, which are exact ───────────────────────────────────────────


def random_times(seed: int, count: int, longest: int = 12) -> list[list[float]]:
    """Rising times of tokens, several at the same instant now and then."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        now, times = chance.randint(0, 40) / 4, []
        for _ in range(chance.randint(1, longest)):
            now += chance.choice([0, 1, 1, 2, 9]) / 4
            times.append(now)
        drawn.append(times)
    return drawn


def random_arrivals(seed: int, count: int) -> list[tuple]:
    """An arrival before each of such lists."""
    chance = random.Random(seed + 1)
    return [(times[0] - chance.randint(0, 20) / 4, times) for times in random_times(seed, count)]


def random_samples(seed: int, count: int, longest: int = 12) -> list[tuple]:
    """Values in no order, some of them twice, and a percentile."""
    chance = random.Random(seed)
    qs = (0, 5, 25, 50, 75, 90, 95, 99, 99.9, 100)
    return [
        ([chance.randint(0, 60) / 4 for _ in range(chance.randint(1, longest))], chance.choice(qs))
        for _ in range(count)
    ]


def random_services(seed: int, count: int, longest: int = 8) -> list[tuple]:
    """Requests at, below and above the limits, some failed, some of a single token."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        requests = [
            (chance.randint(0, 8) / 8, chance.choice([None, 0.03125, 0.0625, 0.125]),
             chance.random() < 0.8)
            for _ in range(chance.randint(0, longest))
        ]  # fmt: skip
        limits = (chance.choice([None, 0.25, 0.5]), chance.choice([None, 0.0625]))
        drawn.append((requests, chance.randint(1, 8) / 2, *limits))
    return drawn


# ── what must hold ──────────────────────────────────────────────────────────────────────────

RIGHT: dict[str, Callable] = {
    TTFT: ttft, ITL: itl, TPOT: tpot, PERCENTILE: percentile, GOODPUT: goodput,
}  # fmt: skip


def about(
    function: str, points: float, name: str, hint: str, arguments: Iterable[tuple]
) -> Property:
    """The function gives what the right one gives for each of these arguments."""
    found = equals(RIGHT[function])
    return Property(name, points, hint, calls(function, arguments), found, (function,))


def lists(times: Iterable[list[float]]) -> list[tuple]:
    return [(each,) for each in times]


EXERCISE = Exercise(
    "lesson_09",
    run_function,
    (
        about(
            TTFT, 1, "TTFT counts from the arrival to the first token",
            "Which of the two moments is the arrival, and which token is the first?",
            [(0, [1]), (2, [5]), (2, [5, 6, 9]), (3, [3, 4]), *random_arrivals(SEED, 12)],
        ),
        about(
            TTFT, 1, "no token, no TTFT; and a TTFT of 0 is one",
            "What does 0 say that None does not?",
            [(1, []), (4, [4]), (0, []), (2, [2.5])],
        ),
        about(
            ITL, 2, "ITL: one gap between each token and the next",
            "How many gaps have three tokens, and how many has one?",
            [([1, 2],), ([5],), ([],), ([1, 2, 4],), *lists(random_times(SEED, 12))],
        ),
        about(
            TPOT, 2, "TPOT: the time after the first token, shared by the tokens after the first",
            "Is the first token's own time in TPOT? And how many tokens came after it?",
            [([1, 3],), ([0, 1, 4],), ([2, 2, 2],),
             *lists(t for t in random_times(SEED + 1, 16) if len(t) > 1)],
        ),
        about(
            TPOT, 1, "one token has no TPOT",
            "With one token, between which two tokens would you measure?",
            [([5],), ([],), ([5, 6],)],
        ),
        about(
            PERCENTILE, 1, "the least, the middle, the greatest",
            "Where does p0 lie in the sorted values, where p100?",
            [([1, 2], 0), ([1, 2], 100), ([1, 2, 3], 50), ([1, 2, 4, 8, 16], 75)],
        ),
        about(
            PERCENTILE, 2, "between two values, in proportion",
            "p lies at place (n − 1) · p ÷ 100, counted from 0. What if that is 1.25?",
            [([0, 4], 50), ([0, 4], 25), ([1, 2, 3, 9], 50), ([1, 2, 3, 9], 99),
             ([float(n) for n in range(20)], 95)],
        ),
        about(
            PERCENTILE, 1, "one value, and none",
            "What are p50 and p99 of a single value? And of nothing?",
            [([7], 99), ([7], 0), ([], 50), ([], 99)],
        ),
        about(
            PERCENTILE, 1, "in whatever order they come, and the list left as it is",
            "Does your function change the list that it is given?",
            [([2, 1], 0), ([3, 1, 2], 50), ([9, 9, 1], 50), *random_samples(SEED, 30)],
        ),
        about(
            GOODPUT, 1, "who keeps both limits counts; at the limit it is still kept",
            "Must a good request keep one of the limits, or both? Is 0.5 within 0.5?",
            [([(0.25, 0.125, True)], 1, 0.5, 0.25), ([(0.5, 0.25, True)], 1, 0.5, 0.25),
             ([(0.75, 0.125, True), (0.25, 0.125, True)], 1, 0.5, 0.25),
             ([(0.25, 0.5, True), (0.25, 0.125, True)], 1, 0.5, 0.25)],
        ),
        about(
            GOODPUT, 1, "a failed request is never good",
            "Does a request that failed fast help anybody?",
            [([(0.25, 0.125, False), (0.25, 0.125, True)], 1, 0.5, 0.25),
             ([(None, None, False), (0.25, 0.125, True)], 1, 0.5, 0.25)],
        ),
        about(
            GOODPUT, 1, "a single token keeps any TPOT; no limit, nothing to break",
            "Which limit can a request of one token break?",
            [([(0.25, None, True)], 1, 0.5, 0.25), ([(0.75, 0.125, True)], 1, None, 0.25),
             ([(0.25, 0.5, True)], 1, 0.5, None), ([(9, 9, True)], 1, None, None)],
        ),
        about(
            GOODPUT, 1, "per second; and nothing lasts no time",
            "What is a rate over 0 seconds?",
            [([(0.25, 0.125, True)] * 4, 2, 0.5, 0.25), ([(0.25, 0.125, True)], 0.5, 0.5, 0.25),
             ([(0.25, 0.125, True)], 0, 0.5, 0.25), ([], 2, 0.5, 0.25)],
        ),
        about(
            GOODPUT, 2, "any run",
            "Which of the properties above breaks when they come together?",
            random_services(SEED, 40),
        ),
    ),
)  # fmt: skip
