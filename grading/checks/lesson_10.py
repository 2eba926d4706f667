"""Exercise 10: the points worth having, the batch to choose, and what a million tokens cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from grading.exercise import Exercise, Property, calls, equals, run_function

SEED = 10
FRONT, BEST, COST = "pareto_front", "best_batch", "cost_per_million_tokens"
Point = tuple[float, float]  # ms per token, tokens a second
Row = tuple[int, float, float]  # batch, ms per token, tokens a second


def pareto_front(points: Sequence[Point]) -> list[Point]:
    """The points that none dominates, by rising ms; equal points all stay."""

    def dominated(point: Point) -> bool:
        return any(
            other[0] <= point[0] and other[1] >= point[1] and other != point for other in points
        )

    return sorted(point for point in points if not dominated(point))


def best_batch(rows: Sequence[Row], limit_ms: float) -> int | None:
    """The batch of most tokens a second within the limit, of equals the smallest; None: none."""
    good = [row for row in rows if row[1] <= limit_ms]
    return max(good, key=lambda row: (row[2], -row[0]))[0] if good else None


def cost_per_million_tokens(price_per_hour: float, gpus: int, tok_s: float) -> float | None:
    """Of a node's price, one GPU's share for a million tokens; None when it gives none."""
    return price_per_hour / gpus / (tok_s * 3600) * 1e6 if tok_s > 0 else None


# ── inputs ──────────────────────────────────────────────────────────────────────────────────


def random_points(seed: int, count: int, most: int = 9) -> list[tuple]:
    """Points on a coarse grid, so that they often share a coordinate."""
    chance = random.Random(seed)
    return [
        ([(chance.randint(1, 9), chance.randint(1, 9) * 10)
          for _ in range(chance.randint(1, most))],)
        for _ in range(count)
    ]  # fmt: skip


def random_rows(seed: int, count: int, most: int = 8) -> list[tuple]:
    """Batches in any order, with ties and with limits that some of them just keep."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        batches = chance.sample([1, 2, 4, 8, 16, 32, 64, 128, 256], chance.randint(1, most))
        rows = [(batch, chance.randint(2, 12) * 5, chance.randint(1, 6) * 100) for batch in batches]
        drawn.append((rows, chance.randint(1, 12) * 5))
    return drawn


def random_prices(seed: int, count: int) -> list[tuple]:
    """Prices of nodes with 1 to 8 GPUs."""
    chance = random.Random(seed)
    return [
        (chance.randint(1, 100), chance.choice([1, 2, 4, 8]), chance.randint(0, 5) * 500)
        for _ in range(count)
    ]


# ── what must hold ──────────────────────────────────────────────────────────────────────────

RIGHT: dict[str, Callable] = {
    FRONT: pareto_front, BEST: best_batch, COST: cost_per_million_tokens,
}  # fmt: skip


def about(
    function: str, points: float, name: str, hint: str, arguments: Iterable[tuple]
) -> Property:
    """The function gives what the right one gives for each of these arguments."""
    found = equals(RIGHT[function])
    return Property(name, points, hint, calls(function, arguments), found, (function,))


EXERCISE = Exercise(
    "lesson_10",
    run_function,
    (
        about(
            FRONT, 2, "a point that is worse in both is not on the front, and no other is left out",
            "Is there a point that is at least as quick and gives at least as much?",
            [([(1, 10)],), ([(1, 20), (2, 10)],), ([(1, 10), (2, 20)],),
             ([(1, 10), (2, 30), (3, 20)],)],
        ),
        about(
            FRONT, 2, "equal in one, worse in the other: dominated; equal in both: both stay",
            "Two points with the same ms: would you ever choose the one with fewer tokens?",
            [([(1, 10), (1, 20)],), ([(1, 10), (2, 10)],), ([(1, 10), (1, 10)],),
             ([(2, 20), (1, 10), (2, 20), (2, 10)],)],
        ),
        about(
            FRONT, 2, "in whatever order they come, by rising ms; the list left as it is",
            "Do you rely on the order of the points, or change it?",
            [([(2, 20), (1, 10)],), ([(3, 20), (2, 30), (1, 10)],), ([],),
             *random_points(SEED, 30)],
        ),
        about(
            BEST, 2, "the most tokens a second within the limit; at the limit is within",
            "Is 20 ms within a limit of 20 ms? Is the largest batch always the best?",
            [([(1, 10, 100)], 20), ([(1, 10, 100), (8, 20, 400)], 20),
             ([(1, 10, 100), (8, 20, 400), (16, 30, 500)], 20),
             ([(1, 10, 100), (8, 20, 400), (16, 20, 300)], 20)],
        ),
        about(
            BEST, 1, "no batch within the limit: None",
            "What is the answer when even the smallest batch is too slow?",
            [([(1, 10, 100)], 5), ([], 20), ([(1, 10, 100)], 10), ([(1, 30, 9), (2, 40, 8)], 20)],
        ),
        about(
            BEST, 1, "the same throughput twice: the smaller batch",
            "Two batches give the same. Which leaves more memory, and more speed for each user?",
            [([(8, 10, 400), (4, 10, 400)], 20), ([(4, 10, 400), (8, 15, 400)], 20),
             ([(1, 5, 100), (16, 20, 400), (8, 20, 400)], 20)],
        ),
        about(
            BEST, 1, "rows in any order",
            "Which of the properties above breaks when the rows are not sorted?",
            random_rows(SEED, 40),
        ),
        about(
            COST, 2, "one GPU's share of the price, over the tokens of an hour",
            "How many tokens come in an hour, and whose price is it: the node's or the GPU's?",
            [(3.6, 1, 1000), (36, 1, 1), (8, 8, 1000), (32.77, 8, 93.8), *random_prices(SEED, 10)],
        ),
        about(
            COST, 1, "no tokens: no price per token",
            "What does a million tokens cost where none ever comes?",
            [(4, 1, 0), (4, 1, 0.5), (32, 8, 0)],
        ),
    ),
)  # fmt: skip
