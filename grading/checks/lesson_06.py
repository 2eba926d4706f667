"""Exercise 6: what a decode step reads, the weights and everybody's KV."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from grading.exercise import Exercise, Property, calls, equals, run_function

SEED = 6
TOKEN, STEP, CROSSOVER = "kv_bytes_per_token", "decode_bytes", "crossover_context"


def kv_bytes_per_token(
    num_layers: int, num_heads: int, num_kv_heads: int, head_dim: int, element_bytes: float
) -> float:
    """Bytes of one token's keys and values in all layers."""
    return 2 * num_layers * num_kv_heads * head_dim * element_bytes


def decode_bytes(weight_bytes: int, token_bytes: int, contexts: Sequence[int]) -> int:
    """Bytes that one decode step reads for sequences with so many tokens of context each."""
    return weight_bytes + token_bytes * sum(contexts)


def crossover_context(weight_bytes: int, token_bytes: int) -> int:
    """The fewest tokens of context, all together, whose KV is at least as large as the weights."""
    return -(-weight_bytes // token_bytes)


def random_models(seed: int, count: int) -> list[tuple]:
    """Models with one query head a KV head, some, or all on one."""
    chance = random.Random(seed)
    return [
        (chance.randint(1, 90), heads * group, heads, chance.choice([64, 80, 128, 256]),
         chance.choice([1, 2, 4]))
        for _ in range(count)
        for heads, group in [(chance.choice([1, 2, 3, 8, 16]), chance.choice([1, 2, 4, 7, 8]))]
    ]  # fmt: skip


def random_batches(seed: int, count: int, most: int) -> list[tuple[int, int, list[int]]]:
    """Weights, KV a token and contexts, some of them equal."""
    chance = random.Random(seed)
    return [
        (chance.randint(1, 10**10), chance.randint(1, 10**6),
         [chance.choice([1, 512, chance.randint(1, 9000)]) for _ in range(chance.randint(1, most))])
        for _ in range(count)
    ]  # fmt: skip


def random_crossovers(seed: int, count: int) -> list[tuple[int, int]]:
    """Weights that are a whole number of tokens' KV, one byte less, one more, or any."""
    chance = random.Random(seed)
    drawn = []
    for number in range(count):
        token = chance.randint(2, 400_000)
        weights = token * chance.randint(1, 200_000)
        drawn.append((max(1, weights + (0, -1, 1, chance.randint(0, token))[number % 4]), token))
    return drawn


def of(function: str, right: Callable[..., object]) -> Callable[..., Property]:
    """Properties of one function: property(name, points, hint, arguments)."""

    def make(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
        return Property(name, points, hint, calls(function, arguments), equals(right), (function,))

    return make


token, step = of(TOKEN, kv_bytes_per_token), of(STEP, decode_bytes)
crossover = of(CROSSOVER, crossover_context)

EXERCISE = Exercise(
    "lesson_06",
    run_function,
    (
        token(
            "a key and a value in every layer", 1,
            "What is kept of a token in one layer, and in how many layers?",
            [(1, 1, 1, 1, 1), (2, 1, 1, 1, 1), (1, 1, 1, 64, 1), (3, 2, 2, 4, 1)],
        ),
        token(
            "GQA: heads that share keys and values keep them once", 2,
            "How many heads have keys of their own: the query heads, or fewer?",
            [(1, 2, 1, 1, 1), (1, 4, 2, 1, 1), (2, 9, 3, 64, 2), (32, 32, 8, 128, 2),
             (32, 32, 32, 128, 2)],
        ),
        token(
            "any model, in any number format", 1,
            "How many bytes has one number of the KV cache?",
            [(1, 1, 1, 1, 2), (1, 1, 1, 1, 4), (32, 32, 8, 128, 1), (4, 8, 2, 16, 0.5),
             *random_models(SEED, 24)],
        ),
        step(
            "the weights are read once, however many sequences there are", 2,
            "For whom are the weights read: for each sequence, or for the step?",
            [(10, 1, [1]), (10, 1, [1, 1]), (1000, 1, [1, 1, 1, 1]), (15_000_000_000, 131072, [1])],
        ),
        step(
            "each sequence's own context is read, and only that", 1,
            "Can a sequence use another one's keys, or skip a part of its own?",
            [(1, 1, [2]), (1, 2, [3, 5]), (1, 1, [1, 9]), (5, 3, [4, 4]), (10, 2, [3, 1, 2])],
        ),
        step(
            "any batch, and the list is left as it was", 1,
            "Which of the two properties above breaks on longer lists?",
            random_batches(SEED, 24, 9),
        ),
        crossover(
            "as many bytes of KV as of weights", 1,
            "How many tokens' KV is as large as the weights?",
            [(1, 1), (10, 5), (131072, 131072), (131072 * 1000, 131072)],
        ),
        crossover(
            "whole tokens: the first with which the KV is not smaller", 1,
            "With one token less, would the KV still be smaller than the weights?",
            [(1, 2), (3, 2), (4, 3), (10, 3), (15_009_316_864, 131072),
             *random_crossovers(SEED, 24)],
        ),
    ),
)  # fmt: skip
