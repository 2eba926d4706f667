"""Windows for exercise 4: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

from collections import deque

from grading.checks.lesson_04 import form_batches as right


def event_by_event(arrivals, max_batch, window):
    batches, waiting = [], []
    for index, now in enumerate(arrivals):
        if waiting and now > arrivals[waiting[0]] + window:
            batches.append((arrivals[waiting[0]] + window, waiting))
            waiting = []
        waiting.append(index)
        if len(waiting) == max_batch:
            batches.append((now, waiting))
            waiting = []
    if waiting:
        batches.append((arrivals[waiting[0]] + window, waiting))
    return batches


def by_queue(arrivals, max_batch, window):
    queue, batches = deque(enumerate(arrivals)), []
    while queue:
        first, came = queue.popleft()
        members, last = [first], came
        while queue and len(members) < max_batch and queue[0][1] <= came + window:
            index, last = queue.popleft()
            members.append(index)
        batches.append([last if len(members) == max_batch else came + window, members])
    return batches


def one_at_a_time(arrivals, max_batch, window):
    return [(came, [index]) for index, came in enumerate(arrivals)]


def last_moment_missed(arrivals, max_batch, window):
    batches, first = [], 0
    while first < len(arrivals):
        due = arrivals[first] + window
        members = [i for i in range(first, len(arrivals)) if i == first or arrivals[i] < due]
        members = members[:max_batch]
        batches.append((arrivals[members[-1]] if len(members) == max_batch else due, members))
        first += len(members)
    return batches


def fixed_grid(arrivals, max_batch, window):
    """Windows at 0, w, 2w, …, whoever comes when."""
    step, found = max(window, 1), {}
    for index, came in enumerate(arrivals):
        found.setdefault(-(-came // step) * step, []).append(index)
    return [(sent, members[:max_batch]) for sent, members in found.items()]


def sliding(arrivals, max_batch, window):
    """The timer starts anew with every arrival."""
    batches, waiting = [], []
    for index, now in enumerate(arrivals):
        if waiting and now > arrivals[waiting[-1]] + window:
            batches.append((arrivals[waiting[-1]] + window, waiting))
            waiting = []
        waiting.append(index)
        if len(waiting) == max_batch:
            batches.append((now, waiting))
            waiting = []
    if waiting:
        batches.append((arrivals[waiting[-1]] + window, waiting))
    return batches


def from_the_last_batch(arrivals, max_batch, window):
    """The timer starts when the batch before has left."""
    batches, first, timer = [], 0, 0
    while first < len(arrivals):
        due = max(timer + window, arrivals[first])
        members = [i for i in range(first, len(arrivals)) if arrivals[i] <= due][:max_batch]
        sent = arrivals[members[-1]] if len(members) == max_batch else due
        batches.append((sent, members))
        first, timer = first + len(members), sent
    return batches


def no_limit(arrivals, max_batch, window):
    return right(arrivals, len(arrivals) + 1, window)


def one_too_many(arrivals, max_batch, window):
    return right(arrivals, max_batch + 1, window)


def full_waits_too(arrivals, max_batch, window):
    return [(arrivals[members[0]] + window, members) for _, members in
            right(arrivals, max_batch, window)]  # fmt: skip


def leaves_with_the_last(arrivals, max_batch, window):
    """Knows when nobody else will come."""
    return [(arrivals[members[-1]], members) for _, members in right(arrivals, max_batch, window)]


def last_one_lost(arrivals, max_batch, window):
    batches = right(arrivals, max_batch, window)
    return [batch for batch in batches if len(batch[1]) == max_batch] or batches[:-1]


def in_seconds(arrivals, max_batch, window):
    return [(sent / 1000, members) for sent, members in right(arrivals, max_batch, window)]


def newest_first(arrivals, max_batch, window):
    return [(sent, members[::-1]) for sent, members in right(arrivals, max_batch, window)]


def arrival_times(arrivals, max_batch, window):
    """Lists when they came in place of who they are."""
    return [(sent, [arrivals[i] for i in members]) for sent, members in
            right(arrivals, max_batch, window)]  # fmt: skip


def ties_lost(arrivals, max_batch, window):
    return [(sent, [arrivals.index(arrivals[i]) for i in members]) for sent, members in
            right(arrivals, max_batch, window)]  # fmt: skip


def empties_its_input(arrivals, max_batch, window):
    batches = right(arrivals, max_batch, window)
    while arrivals:
        arrivals.pop(0)
    return batches


def only_the_example(arrivals, max_batch, window):
    return [(50, [0, 1, 2]), (101, [3, 4])]


def stub(arrivals, max_batch, window):
    raise NotImplementedError


def nothing(arrivals, max_batch, window):
    return None


def no_batches(arrivals, max_batch, window):
    return []


RIGHT = [{"form_batches": form} for form in (event_by_event, by_queue)]
WRONG = [
    {"form_batches": wrong}
    for wrong in (
        one_at_a_time, last_moment_missed, fixed_grid, sliding, from_the_last_batch, no_limit,
        one_too_many, full_waits_too, leaves_with_the_last, last_one_lost, in_seconds,
        newest_first, arrival_times, ties_lost, empties_its_input, only_the_example,
    )
]  # fmt: skip
STUBS = [{"form_batches": form} for form in (stub, nothing, no_batches, one_at_a_time)]
