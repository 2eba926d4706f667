"""Schedules for exercise 3: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

from itertools import accumulate


def by_slices(outputs, batch_size):
    batches = [outputs[i : i + batch_size] for i in range(0, len(outputs), batch_size)]
    ends = list(accumulate(max(batch) for batch in batches))
    finish = [end for end, batch in zip(ends, batches, strict=True) for _ in batch]
    return finish, sum(max(batch) * len(batch) - sum(batch) for batch in batches)


def step_by_step(outputs, batch_size):
    waiting, left, slots = list(range(len(outputs))), list(outputs), []
    finish, waste, step = [0] * len(outputs), 0, 0
    while waiting or slots:
        if not slots:
            slots, waiting = waiting[:batch_size], waiting[batch_size:]
        step += 1
        for index in slots:
            if left[index]:
                left[index] -= 1
            else:
                waste += 1
        if not any(left[index] for index in slots):
            for index in slots:
                finish[index] = step
            slots = []
    return [finish, waste]


def full_batches_only(outputs, batch_size):
    finish, waste, end = [None] * len(outputs), 0, 0
    for number in range(len(outputs) // batch_size):
        batch = outputs[number * batch_size : (number + 1) * batch_size]
        end += max(batch)
        for i, output in enumerate(batch):
            finish[number * batch_size + i] = end
            waste += max(batch) - output
    return finish, waste


def own_end(outputs, batch_size):
    """Lets each one leave with its own last token."""
    finish, start = [], 0
    for i in range(0, len(outputs), batch_size):
        batch = outputs[i : i + batch_size]
        finish += [start + output for output in batch]
        start += max(batch)
    return finish, by_slices(outputs, batch_size)[1]


def continuous(outputs, batch_size):
    """Gives a free slot to the next one at once."""
    slots, finish = [0] * batch_size, []
    for output in outputs:
        slot = min(range(batch_size), key=lambda s: slots[s])
        slots[slot] += output
        finish.append(slots[slot])
    return finish, 0


def all_start_at_zero(outputs, batch_size):
    finish = []
    for i in range(0, len(outputs), batch_size):
        batch = outputs[i : i + batch_size]
        finish += [max(batch)] * len(batch)
    return finish, by_slices(outputs, batch_size)[1]


def sorts_first(outputs, batch_size):
    outputs.sort()
    return by_slices(outputs, batch_size)


def shortest_first(outputs, batch_size):
    """Batches of similar length: less waste, but not in the order in which they came."""
    order = sorted(range(len(outputs)), key=lambda i: outputs[i])
    finish, waste = by_slices([outputs[i] for i in order], batch_size)
    steps = dict(zip(order, finish, strict=True))
    return [steps[i] for i in range(len(outputs))], waste


def one_step_late(outputs, batch_size):
    """Takes the prefill for a step of its own: n tokens in n + 1 steps."""
    finish, waste, end = [], 0, 0
    for i in range(0, len(outputs), batch_size):
        batch = outputs[i : i + batch_size]
        end += max(batch) + 1
        finish += [end] * len(batch)
        waste += sum(max(batch) - output for output in batch)
    return finish, waste


def longest_of_all(outputs, batch_size):
    """Pads to the longest output of all requests, not of the batch."""
    if not outputs:
        return [], 0
    longest = max(outputs)
    finish = [(i // batch_size + 1) * longest for i in range(len(outputs))]
    return finish, sum(longest - output for output in outputs)


def empty_slots_too(outputs, batch_size):
    """Counts the empty slots of a ragged batch as waste: they're idle, nothing is computed."""
    finish, waste = by_slices(outputs, batch_size)
    last = outputs[-(len(outputs) % batch_size) :] if len(outputs) % batch_size else []
    return finish, waste + (batch_size - len(last)) * max(last, default=0)


def waste_as_share(outputs, batch_size):
    finish, waste = by_slices(outputs, batch_size)
    return finish, waste / max(1, sum(outputs) + waste)


def from_the_mean(outputs, batch_size):
    finish, _ = by_slices(outputs, batch_size)
    mean = sum(outputs) / max(1, len(outputs))
    return finish, sum(abs(output - mean) for output in outputs)


def only_the_example(outputs, batch_size):
    return [150] * len(outputs), 270


def finish_only(outputs, batch_size):
    return by_slices(outputs, batch_size)[0]


def stub(outputs, batch_size):
    raise NotImplementedError


def lesson_stub(outputs, batch_size):
    finish, waste = [None] * len(outputs), None
    return finish, waste


def nothing(outputs, batch_size):
    return None


RIGHT = [{"static_schedule": by_slices}, {"static_schedule": step_by_step}]
WRONG = [
    {"static_schedule": wrong}
    for wrong in (
        full_batches_only, own_end, continuous, all_start_at_zero, sorts_first, shortest_first,
        one_step_late, longest_of_all, empty_slots_too, waste_as_share, from_the_mean,
        only_the_example, finish_only,
    )
]  # fmt: skip
STUBS = [
    {"static_schedule": stub}, {"static_schedule": lesson_stub}, {"static_schedule": nothing},
]  # fmt: skip
