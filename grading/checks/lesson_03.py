"""Exercise 3: the schedule of static batches, and what it wastes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from grading.exercise import Exercise, Finding, Pictures, Property, calls, run_function, same, show
from grading.picture import strips
from minillm.core.trace import letter

SEED = 3
SCHEDULE = "static_schedule"


def static_schedule(outputs: Sequence[int], batch_size: int) -> tuple[list[int], int]:
    """The step after which each request's slot is free, and the dead rows of all batches."""
    finish, waste, end = [], 0, 0
    for first in range(0, len(outputs), batch_size):
        batch = outputs[first : first + batch_size]
        end += max(batch)
        finish += [end] * len(batch)
        waste += sum(max(batch) - output for output in batch)
    return finish, waste


def random_batches(seed: int, count: int, most: int, longest: int) -> list[tuple[list[int], int]]:
    """Outputs (tokens) and batch sizes, full batches and ragged ones, sometimes one too large."""
    chance = random.Random(seed)
    return [
        ([chance.randint(1, longest) for _ in range(chance.randint(1, most))], chance.randint(1, 6))
        for _ in range(count)
    ]


def part(judge: Callable[[Sequence[int], int, list, object], Finding]) -> Callable:
    """A finding about (finish, waste): judge(outputs, batch_size, finish, waste)."""

    def finding(args: dict, answer: object) -> Finding:
        value = answer["value"]
        if answer["changed"]:
            return "the arguments left as they were", "a changed argument"
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], list)):
            return "a list of finish steps and the waste: (finish, waste)", show(value)
        return judge(*args["args"], *value)

    return finding


def finish_steps(outputs: Sequence[int], batch_size: int, finish: list, waste: object) -> Finding:
    right = static_schedule(outputs, batch_size)[0]
    return None if same(right, finish) else (f"finish {show(right)}", show(finish))


def dead_rows(outputs: Sequence[int], batch_size: int, finish: list, waste: object) -> Finding:
    right = static_schedule(outputs, batch_size)[1]
    return None if same(right, waste) else (f"waste {right}", show(waste))


def both(outputs: Sequence[int], batch_size: int, finish: list, waste: object) -> Finding:
    found = finish_steps(outputs, batch_size, finish, waste)
    return found or dead_rows(outputs, batch_size, finish, waste)


def pictures(args: dict, answer: object) -> Pictures:
    """The right batches and the student's, a column a step."""
    outputs, batch_size = args["args"]
    right = static_schedule(outputs, batch_size)[0]
    value = answer["value"]
    given = value[0] if isinstance(value, list) and value and isinstance(value[0], list) else []
    longest = max([*right, *(end for end in given if isinstance(end, int))], default=1)
    return tuple(
        (title, _picture(outputs, finish, starts, longest))
        for title, finish, starts in (
            ("A right one", right, _starts(right, batch_size)),
            ("Yours", given, _starts(given, batch_size)),
        )
    )


def _starts(finish: Sequence[object], batch_size: int) -> list[int]:
    """When each request's batch begins: where the batch before it ends."""
    ends = [end if isinstance(end, int) and end > 0 else 0 for end in finish]
    return [
        max(ends[first - batch_size : first], default=0) if first else 0
        for first in (i // batch_size * batch_size for i in range(len(ends)))
    ]


def _picture(
    outputs: Sequence[int], finish: Sequence[object], starts: Sequence[int], columns: int
) -> str:
    rows, words = [], []
    for index, output in enumerate(outputs):
        end = finish[index] if index < len(finish) else None
        marks = ""
        if isinstance(end, int) and end > starts[index]:
            computed = "p" + "d" * (output - 1) + "x" * (end - starts[index] - output)
            marks = "·" * starts[index] + computed[: end - starts[index]]
        rows.append((letter(index), marks))
        words.append(f"{letter(index)} {marks or 'never scheduled'}")
    return strips(rows, columns, "; ".join(words))


def property_(
    name: str, points: float, hint: str, arguments: Sequence[tuple], judge: Callable
) -> Property:
    return Property(
        name, points, hint, calls(SCHEDULE, arguments), part(judge), (SCHEDULE,), pictures=pictures
    )


EXERCISE = Exercise(
    "lesson_03",
    run_function,
    (
        property_(
            "everyone in a batch leaves when its longest output ends", 2,
            "Who is the last to get a token, and whose slots are free before that?",
            [([1], 1), ([3], 1), ([1, 2], 2), ([3, 1], 2), ([2, 2], 2), ([4, 1, 2], 3),
             ([100, 50, 150, 30], 4)],
            finish_steps,
        ),
        property_(
            "the next batch starts when the one before it has ended", 2,
            "From which step on do the slots of the first batch belong to the second?",
            [([1, 1], 1), ([2, 1], 1), ([1, 2, 3, 4], 2), ([4, 3, 2, 1], 2), ([5, 1, 1, 5], 2)],
            finish_steps,
        ),
        property_(
            "waste is the sum of the distances to the longest output", 2,
            "For how many steps does each finished request stay in its batch?",
            [([1, 2], 2), ([3, 1], 2), ([1, 1, 4], 3), ([2, 1, 1, 5], 2), ([100, 50, 150, 30], 4)],
            dead_rows,
        ),
        property_(
            "every request finishes, also in a ragged last batch", 2,
            "How many batches do three requests need, two at a time?",
            [([1, 1, 1], 2), ([2, 1, 3], 2), ([3, 1, 2, 4, 1], 3), ([2, 1], 5), ([], 2)],
            both,
        ),
        property_(
            "batch size 1 wastes nothing, and is a plain queue", 1,
            "What is the longest output in a batch of one?",
            [([3, 1], 1), ([1, 2, 3], 1), ([5, 1, 4, 1], 1)],
            both,
        ),
        property_(
            "any outputs, any batch size, and the input is left as it was", 1,
            "Which of the properties above breaks on longer lists?",
            random_batches(SEED, 40, 12, 12),
            both,
        ),
    ),
)  # fmt: skip
