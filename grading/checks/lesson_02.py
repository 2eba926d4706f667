"""Exercise 2: waiting times of a queue, and Little's law on a sample."""

from __future__ import annotations

import random
from collections.abc import Sequence

from grading.exercise import Exercise, Finding, Property, calls, equals, run_function, same, show

SEED = 2


def fifo_waits(arrivals: Sequence[float], services: Sequence[float]) -> list[float]:
    """How long each request waits for one server that takes them first come, first served."""
    waits, free_at = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i]):  # stable: ties in order
        start = max(free_at, arrivals[i])
        waits[i] = start - arrivals[i]
        free_at = start + services[i]
    return waits


def littles_law(arrivals: Sequence[float], departures: Sequence[float]) -> list[float]:
    """Rate, mean time in the system, mean number in the system, first arrival to last departure."""
    count, span = len(arrivals), max(departures) - min(arrivals)
    total = sum(departures) - sum(arrivals)
    return [count / span, total / count, total / span]


def random_queues(seed: int, count: int, longest: int) -> list[tuple[list[float], list[float]]]:
    """Arrivals (unsorted, some at the same time, some after a pause) and service times."""
    chance = random.Random(seed)
    drawn = []
    for number in range(count):
        size = chance.randint(2, longest)
        arrivals = [float(chance.randint(0, size * (1 + number % 3))) for _ in range(size)]
        services = [chance.choice([0.0, 0.5, 1.0, 2.0, 3.5]) for _ in range(size)]
        drawn.append((arrivals, services))
    return drawn


def random_samples(seed: int, count: int, longest: int) -> list[tuple[list[float], list[float]]]:
    """Arrivals and departures of a system in which anybody may leave first."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        arrivals = [chance.randint(0, 40) / 4 for _ in range(chance.randint(1, longest))]
        departures = [arrival + chance.randint(1, 30) / 4 for arrival in arrivals]
        drawn.append((arrivals, departures))
    return drawn


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def law_holds(args: dict, answer: object) -> Finding:
    """Its three numbers fit together: rate · time = number."""
    numbers = answer["value"]
    if not (isinstance(numbers, list) and len(numbers) == 3 and all(map(is_number, numbers))):
        return "three numbers: rate, mean time, mean number", show(numbers)
    rate, time, number = numbers
    if same(rate * time, number):
        return None
    return f"mean number = rate · mean time = {show(rate * time)}", show(number)


WAITS = "fifo_waits"
LAW = "littles_law"
SAMPLES = (([0.0], [2.0]), ([3.0], [5.0]), ([0.0, 0.0], [1.0, 2.0]), ([1.0, 4.0], [2.0, 9.0]))

EXERCISE = Exercise(
    "lesson_02",
    run_function,
    (
        Property(
            "who comes to an idle server is served at once", 1,
            "When is the server free again, and when does the next one come?",
            calls(WAITS, [([0.0], [1.0]), ([5.0], [1.0]), ([0.0, 10.0], [1.0, 1.0]),
                          ([0.0, 1.0], [1.0, 1.0]), ([0.0, 3.0, 3.5], [2.0, 1.0, 1.0])]),
            equals(fifo_waits), (WAITS,),
        ),
        Property(
            "who comes to a busy server waits until it is free", 2,
            "Whose service must be over before this one can start?",
            calls(WAITS, [([0.0, 0.0], [1.0, 1.0]), ([0.0, 0.5], [1.0, 1.0]),
                          ([0.0, 1.0, 2.0], [2.0, 2.0, 2.0]), ([0.0, 0.0, 0.0], [3.0, 0.0, 1.0]),
                          ([0.0] * 100, [0.5] * 100)]),
            equals(fifo_waits), (WAITS,),
        ),
        Property(
            "first come, first served, in whatever order they are listed", 2,
            "In which order are they served, and in which order do you give their waits?",
            calls(WAITS, [([1.0, 0.0], [1.0, 2.0]), ([2.0, 0.0, 1.0], [1.0, 2.0, 3.0]),
                          ([0.0, 0.0], [2.0, 1.0]), ([3.0, 3.0, 0.0], [5.0, 1.0, 4.0])]),
            equals(fifo_waits), (WAITS,),
        ),
        Property(
            "any queue", 2, "What happens after a pause in which nobody came?",
            calls(WAITS, [([], []), *random_queues(SEED, 24, 9)]), equals(fifo_waits), (WAITS,),
        ),
        Property(
            "rate, mean time and mean number of a small sample", 2,
            "From when to when is the sample, and what is summed over it?",
            calls(LAW, SAMPLES), equals(littles_law), (LAW,),
        ),
        Property(
            "the three numbers obey Little's law", 1, "Which of the three is out of line?",
            calls(LAW, [*SAMPLES, *random_samples(SEED, 12, 8)]), law_holds, (LAW,),
        ),
        Property(
            "any sample, whoever leaves first", 2,
            "Does the last one to come also leave last?",
            calls(LAW, random_samples(SEED + 1, 24, 8)), equals(littles_law), (LAW,),
        ),
    ),
)  # fmt: skip
