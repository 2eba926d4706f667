"""Exercise 4: which batches a window makes of arrivals, in front of an engine that is free."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from grading.exercise import Exercise, Finding, Pictures, Property, calls, run_function, same, show
from grading.picture import strips
from minillm.core.trace import letter

SEED = 4
FORM = "form_batches"
COLUMNS = 28  # of a picture
Batches = list[tuple[int, list[int]]]


def form_batches(arrivals: Sequence[int], max_batch: int, window: int) -> Batches:
    """(sent at, requests) of each batch, times in ms; arrivals ascending."""
    batches, first = [], 0
    while first < len(arrivals):
        due = arrivals[first] + window
        members = [i for i in range(first, len(arrivals)) if arrivals[i] <= due][:max_batch]
        full = len(members) == max_batch
        batches.append((arrivals[members[-1]] if full else due, members))
        first += len(members)
    return batches


def random_arrivals(seed: int, count: int, most: int) -> list[tuple[list[int], int, int]]:
    """Arrivals with pauses, bursts and ties; windows from 0 to longer than everything."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        size = chance.randint(1, most)
        span = chance.choice([0, size, 4 * size, 12 * size])
        arrivals = sorted(chance.randint(0, span) for _ in range(size))
        drawn.append((arrivals, chance.randint(1, 5), chance.choice([0, 1, 3, 5, 10, 50])))
    return drawn


# ── the properties: judge(arrivals, max_batch, window, batches) ─────────────────────────────


def about(judge: Callable[..., Finding]) -> Callable:
    """A finding about batches, once what came back has the form of batches at all."""

    def finding(args: dict, answer: object) -> Finding:
        value = answer["value"]
        if answer["changed"]:
            return "the arguments left as they were", "a changed argument"
        if not is_batches(value, len(args["args"][0])):
            return "a list of (sent, [requests, by their place in arrivals])", show(value)
        return judge(*args["args"], value)

    return finding


def is_batches(value: object, count: int) -> bool:
    """A list of (number, [places below count, at least one])."""
    return isinstance(value, list) and all(
        isinstance(batch, list)
        and len(batch) == 2
        and isinstance(batch[0], int | float)
        and not isinstance(batch[0], bool)
        and isinstance(batch[1], list)
        and batch[1]
        and all(type(i) is int and 0 <= i < count for i in batch[1])
        for batch in value
    )


def each_once(arrivals: Sequence[int], max_batch: int, window: int, batches: list) -> Finding:
    sent, right = [i for _, members in batches for i in members], list(range(len(arrivals)))
    return None if sent == right else (f"sent in the order {show(right)}", show(sent))


def within_the_window(
    arrivals: Sequence[int], max_batch: int, window: int, batches: list
) -> Finding:
    for sent, members in batches:
        for i in members:
            came = arrivals[i]
            if not came <= sent <= came + window:
                expected = f"{letter(i)}, who came at {came}, leaves from {came} to {came + window}"
                return expected, f"at {show(sent)}"
    return None


def full_leaves_at_once(
    arrivals: Sequence[int], max_batch: int, window: int, batches: list
) -> Finding:
    for sent, members in batches:
        if len(members) > max_batch:
            return f"at most {max_batch} in a batch", f"{len(members)} at {show(sent)}"
        oldest = arrivals[members[0]]
        later = arrivals[members[0] + max_batch - 1 :][:1]  # who fills it up
        if later and later[0] <= oldest + window and (len(members), sent) != (max_batch, later[0]):
            return (
                f"{letter(members[0])}'s batch leaves full, at {later[0]}",
                f"{len(members)} of {max_batch} at {show(sent)}",
            )
    return None


def waits_the_whole_window(
    arrivals: Sequence[int], max_batch: int, window: int, batches: list
) -> Finding:
    for sent, members in batches:
        due = arrivals[members[0]] + window
        if len(members) < max_batch and sent != due:
            return f"{letter(members[0])}'s batch is not full: it leaves at {due}", show(sent)
    return None


def last_moment_counts(
    arrivals: Sequence[int], max_batch: int, window: int, batches: list
) -> Finding:
    for sent, members in batches:
        after = members[-1] + 1
        if len(members) < max_batch and after < len(arrivals) and arrivals[after] <= sent:
            return (
                f"{letter(after)}, who came at {arrivals[after]}, in the batch of {show(sent)}",
                f"{show(members)} in it",
            )
    return None


def right_batches(arrivals: Sequence[int], max_batch: int, window: int, batches: list) -> Finding:
    right = form_batches(arrivals, max_batch, window)
    return None if same(right, batches) else (show(right), show(batches))


def pictures(args: dict, answer: object) -> Pictures:
    """The right batches and the student's: waiting, and the moment of leaving."""
    arrivals, max_batch, window = args["args"]
    value, right = answer["value"], form_batches(arrivals, max_batch, window)
    given = value if is_batches(value, len(arrivals)) else []
    end = max([1, *(sent for sent, _ in [*right, *given])])
    unit = max(1, -(-int(end + 1) // COLUMNS))
    return tuple(
        (title, _picture(arrivals, batches, unit, int(end) // unit + 1))
        for title, batches in (("A right one, in ms", right), ("Yours, in ms", given))
    )


def _picture(arrivals: Sequence[int], batches: Sequence, unit: int, columns: int) -> str:
    left = {i: sent for sent, members in batches for i in members}
    rows, words = [], []
    for i, came in enumerate(arrivals):
        start, end = came // unit, int(left.get(i, -1)) // unit
        marks = " " * start + "·" * (end - start) + "p" if i in left and end >= start else ""
        rows.append((letter(i), marks))
        words.append(f"{letter(i)} {came} → {show(left[i]) if i in left else 'never'}")
    return strips(rows, columns, "; ".join(words), missing="never sent", unit=unit)


def property_(
    name: str, points: float, hint: str, arguments: Sequence[tuple], judge: Callable
) -> Property:
    return Property(
        name, points, hint, calls(FORM, arguments), about(judge), (FORM,), pictures=pictures
    )


def batches_at_all(values: Sequence[object]) -> str:
    """Points count once somebody has company."""
    for answer in values:
        value = answer["value"]
        if isinstance(value, list) and any(
            isinstance(batch, list) and len(batch) == 2 and isinstance(batch[1], list)
            and len(batch[1]) > 1 for batch in value
        ):  # fmt: skip
            return ""
    return "Points count once at least two requests leave together: that is what batching is."


LESSON = ([0, 15, 35, 51, 70], 8, 50)
SMALL = [
    ([0], 4, 5), ([3], 1, 5), ([0, 2], 4, 5), ([0, 9], 4, 5), ([0, 1, 2], 2, 5), LESSON,
    ([0, 1, 20, 21, 22], 3, 5),
]  # fmt: skip

EXERCISE = Exercise(
    "lesson_04",
    run_function,
    (
        property_(
            "every request leaves once, in order of arrival", 2,
            "After a batch has left, who is the first of the next one?",
            [([], 4, 5), *SMALL, ([4, 4, 4], 2, 5)], each_once,
        ),
        property_(
            "nobody leaves before they came, or waits longer than the window", 2,
            "Whose arrival starts the timer, and does it start again for others?",
            [*SMALL, ([0, 4, 8, 12, 16], 9, 5), ([7, 8], 4, 5)], within_the_window,
        ),
        property_(
            "a full batch leaves at once, and none is larger", 2,
            "What happens at the moment when the last place of a batch is taken?",
            [([3], 1, 5), ([0, 1], 2, 5), ([0, 0, 0], 2, 5), ([0, 1, 2], 2, 5), ([0, 5], 2, 5),
             ([0, 1, 2, 3, 4], 2, 9)],
            full_leaves_at_once,
        ),
        property_(
            "a batch that is not full waits for the whole window", 1,
            "Can anybody know that nobody else will come?",
            [([0], 4, 5), ([0, 2], 4, 5), ([0, 9], 4, 5), ([0, 1, 2], 2, 5), LESSON],
            waits_the_whole_window,
        ),
        property_(
            "who comes in the window's last moment is taken along", 1,
            "Is it < or ≤ there?",
            [([0, 5], 4, 5), ([0, 5, 5, 6], 4, 5), ([2, 12], 3, 10), ([0, 5, 5], 2, 5)],
            last_moment_counts,
        ),
        property_(
            "with a window of 0 nobody waits, and who comes together leaves together", 1,
            "When is the window of 0 ms over, and who is there by then?",
            [([0], 4, 0), ([0, 0], 4, 0), ([0, 1], 4, 0), ([0, 0, 0, 2], 2, 0)], right_batches,
        ),
        property_(
            "any arrivals, and the input is left as it was", 1,
            "Which of the properties above breaks on longer lists?",
            random_arrivals(SEED, 40, 9), right_batches,
        ),
    ),
    gate=batches_at_all,
)  # fmt: skip
