"""Exercise 1: the roofline of a product, as FLOP per byte and as seconds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from grading.curves import curves
from grading.exercise import (
    Call,
    Exercise,
    Finding,
    Pictures,
    Property,
    calls,
    equals,
    run_function,
    same,
    show,
)

SEED = 1
INTENSITY, TIME = "arithmetic_intensity", "step_time"
ACTIVATION_BYTES = 2


def cost(batch: int, n_in: int, n_out: int, weight_bytes: float) -> tuple[float, float]:
    """(FLOP, bytes moved) of [batch, n_in] · [n_in, n_out]."""
    moved = weight_bytes * n_in * n_out + ACTIVATION_BYTES * batch * (n_in + n_out)
    return 2 * batch * n_in * n_out, moved


def arithmetic_intensity(batch: int, n_in: int, n_out: int, weight_bytes: float) -> float:
    """FLOP per byte moved."""
    flop, moved = cost(batch, n_in, n_out, weight_bytes)
    return flop / moved


def step_time(
    batch: int, n_in: int, n_out: int, weight_bytes: float, peak_flops: float, bandwidth: float
) -> float:
    """Seconds: whichever of FLOP and bytes takes longer."""
    flop, moved = cost(batch, n_in, n_out, weight_bytes)
    return max(flop / peak_flops, moved / bandwidth)


# ── inputs ──────────────────────────────────────────────────────────────────────────────────


def over_batches(batches: Sequence[int], *others: float) -> Call:
    """step_time at each of these batches, the other arguments being the same."""
    text = f"[step_time(b, {', '.join(map(repr, others))}) for b in {list(batches)}]"
    return Call(text, {"name": TIME, "batches": list(batches), "args": list(others)})


def random_products(seed: int, count: int) -> list[tuple]:
    """Batches, sizes (mostly not square) and number formats."""
    chance = random.Random(seed)
    return [
        (chance.randint(1, 600), chance.randint(1, 5000), chance.randint(1, 5000),
         chance.choice([0.5, 1, 2, 4]))
        for _ in range(count)
    ]  # fmt: skip


def random_steps(seed: int, count: int) -> list[tuple]:
    """Products on devices with ridges from 1 to 400 FLOP per byte."""
    chance = random.Random(seed + 1)
    return [
        (*product, bandwidth * chance.randint(1, 400), bandwidth)
        for product in random_products(seed, count)
        for bandwidth in [float(chance.randint(1, 4000)) * 1e9]
    ]


def around_the_ridge(seed: int, count: int) -> list[Call]:
    """Batches on both sides of a ridge, sizes and formats drawn."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        n_in, n_out = chance.randint(200, 3000), chance.randint(200, 3000)
        weight_bytes, corner = chance.choice([0.5, 1, 2, 4]), chance.randint(2, 40)
        ridge = arithmetic_intensity(corner, n_in, n_out, weight_bytes)
        batches = sorted({1, corner - 1, corner, corner + 1, 2 * corner, 8 * corner})
        drawn.append(over_batches(batches, n_in, n_out, weight_bytes, ridge * 1e9, 1e9))
    return drawn


# ── what is called, and what must hold ──────────────────────────────────────────────────────


def run(objects: Mapping[str, object], args: dict) -> object:
    """One call, or one for each of `batches`."""
    if "batches" not in args:
        return run_function(objects, args)
    values = [
        run_function(objects, {"name": args["name"], "args": [batch, *args["args"]]})["value"]
        for batch in args["batches"]
    ]
    return {"value": values, "changed": False}


def right_times(args: dict) -> list[float]:
    """The right step_time at each of args' batches."""
    return [step_time(batch, *args["args"]) for batch in args["batches"]]


def curve_is_right(args: dict, answer: object) -> Finding:
    right = right_times(args)
    return None if same(right, answer["value"]) else (show(right), show(answer["value"]))


def never_less(args: dict, answer: object) -> Finding:
    """More rows never take less time, and none less than its FLOP or its bytes alone."""
    times = answer["value"]
    if not all(isinstance(time, int | float) and not isinstance(time, bool) for time in times):
        return "a number of seconds for each batch", show(times)
    for batch, before, after in zip(args["batches"][1:], times, times[1:], strict=False):
        if after < before * (1 - 1e-9):
            return f"at batch {batch} at least {show(float(before))}", show(float(after))
    for batch, time, least in zip(args["batches"], times, right_times(args), strict=True):
        if time < least * (1 - 1e-9):
            return f"at batch {batch} at least {show(least)}", show(float(time))
    return None


def pictures(args: dict, answer: object) -> Pictures:
    """The right curve over the batch, and the student's."""
    return curves(args["batches"], right_times(args), answer["value"], "seconds over the batch")


def intensity(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
    found = equals(arithmetic_intensity)
    return Property(name, points, hint, calls(INTENSITY, arguments), found, (INTENSITY,))


def time(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
    return Property(name, points, hint, calls(TIME, arguments), equals(step_time), (TIME,))


SMALL_CURVES = [
    over_batches([1, 2, 3], 4, 4, 2, 1e3, 1e3),
    over_batches([1, 2, 4, 8, 16, 32], 64, 64, 2, 8e3, 1e3),
    over_batches([1, 2, 4, 8, 16, 32, 64], 64, 256, 1, 16e3, 1e3),
]
A100 = (312e12, 2039e9)
EXERCISE = Exercise(
    "lesson_01",
    run,
    (
        intensity(
            "one row in 16 bits: not even one FLOP per byte", 1,
            "How many FLOP does each weight take part in, and how many bytes has it?",
            [(1, 1, 1, 2), (1, 2, 2, 2), (1, 64, 64, 2), (1, 8192, 8192, 2)],
        ),
        intensity(
            "rows share the weights, and each brings its own input and output", 2,
            "Which of the three matrices grow with the batch?",
            [(2, 1, 1, 2), (2, 2, 2, 2), (4, 8, 8, 2), (32, 64, 64, 2), (128, 8192, 8192, 2)],
        ),
        intensity(
            "matrices that are not square", 1,
            "How many numbers does a row of the input have, and how many one of the output?",
            [(1, 1, 2, 2), (1, 2, 1, 2), (3, 1, 5, 2), (8, 4096, 14336, 2), (8, 14336, 4096, 2)],
        ),
        intensity(
            "weights in another number format", 1,
            "Which bytes change when the weights are stored in fewer bits, and which do not?",
            [(1, 1, 1, 1), (1, 2, 2, 4), (1, 4, 4, 0.5), (4, 8, 2, 1), *random_products(SEED, 12)],
        ),
        time(
            "batch 1 takes as long as its bytes", 2,
            "At batch 1, which takes longer: the arithmetic or the reading?",
            [(1, 1, 1, 2, 1e3, 1.0), (1, 2, 4, 2, 1e3, 10.0), (1, 64, 64, 1, 1e9, 1e6),
             (1, 8192, 8192, 2, *A100), (1, 4096, 14336, 0.5, *A100)],
        ),
        time(
            "far above the ridge it takes as long as its FLOP", 1,
            "With very many rows, what is each byte of weights used for, and how often?",
            [(8, 2, 2, 2, 1.0, 1e3), (100, 8, 4, 1, 10.0, 1e3), (4096, 8192, 8192, 2, *A100)],
        ),
        Property(
            "flat before the ridge, proportional to the batch after it, with a kink between", 2,
            "Reading and computing go on at the same time: which of the two is over last?",
            (*SMALL_CURVES, *around_the_ridge(SEED, 12)), curve_is_right, (TIME,),
            pictures=pictures,
        ),
        Property(
            "more rows never take less time, nor less than either limit allows", 1,
            "Which of the two limits decides, the one that needs more time or the one that needs "
            "less?",
            (*SMALL_CURVES, *around_the_ridge(SEED + 1, 6)), never_less, (TIME,),
            pictures=pictures,
        ),
        time(
            "any product on any device", 1,
            "Which of the properties above breaks on other sizes?", random_steps(SEED, 30),
        ),
    ),
)  # fmt: skip
