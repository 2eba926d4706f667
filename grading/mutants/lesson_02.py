"""Queues for exercise 2: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

import heapq


def fifo_waits(arrivals, services):
    order = sorted(enumerate(arrivals), key=lambda pair: pair[1])
    waits, end = [0] * len(arrivals), 0
    for index, arrival in order:
        waits[index] = max(0, end - arrival)
        end = max(end, arrival) + services[index]
    return waits


def littles_law(arrivals, departures):
    span = max(departures) - min(arrivals)
    times = [out - came for came, out in zip(arrivals, departures, strict=True)]
    rate, mean_time = len(arrivals) / span, sum(times) / len(times)
    return rate, mean_time, rate * mean_time


def fifo_by_heap(arrivals, services):
    queue = [(arrival, index) for index, arrival in enumerate(arrivals)]
    heapq.heapify(queue)
    found, now = {}, 0.0
    while queue:
        arrival, index = heapq.heappop(queue)
        now = max(now, arrival)
        found[index] = now - arrival
        now += services[index]
    return [found[index] for index in range(len(arrivals))]


def law_by_integration(arrivals, departures):
    moves = sorted([(t, 1) for t in arrivals] + [(t, -1) for t in departures])
    area, inside, before = 0.0, 0, moves[0][0]
    for t, change in moves:
        area += inside * (t - before)
        inside, before = inside + change, t
    span = before - moves[0][0]
    return [len(arrivals) / span, area / len(arrivals), area / span]


def listed_order(arrivals, services):
    waits, end = [], 0.0
    for arrival, service in zip(arrivals, services, strict=True):
        start = max(end, arrival)
        waits.append(start - arrival)
        end = start + service
    return waits


def no_pauses(arrivals, services):
    """Forgets that an idle server cannot work ahead."""
    waits, busy = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i]):
        waits[i] = max(0.0, busy - arrivals[i])
        busy += services[i]
    return waits


def with_service(arrivals, services):
    """Gives the time in the system in place of the wait."""
    return [w + s for w, s in zip(fifo_waits(arrivals, services), services, strict=True)]


def sorted_waits(arrivals, services):
    """The right waits, in order of service."""
    waits = fifo_waits(arrivals, services)
    return [waits[i] for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i])]


def shortest_first(arrivals, services):
    waits, end = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: (arrivals[i], services[i])):
        waits[i] = max(0.0, end - arrivals[i])
        end = max(end, arrivals[i]) + services[i]
    return waits


def last_of_a_tie(arrivals, services):
    waits, end = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: (arrivals[i], -i)):
        waits[i] = max(0.0, end - arrivals[i])
        end = max(end, arrivals[i]) + services[i]
    return waits


def negative_waits(arrivals, services):
    waits, end = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i]):
        waits[i] = end - arrivals[i]
        end = max(end, arrivals[i]) + services[i]
    return waits


def sorts_its_input(arrivals, services):
    pairs = sorted(zip(arrivals, services, strict=True), key=lambda pair: pair[0])
    arrivals[:] = [arrival for arrival, _ in pairs]
    return fifo_waits(arrivals, [service for _, service in pairs])


def from_zero(arrivals, departures):
    """Counts from time 0, not from the first arrival."""
    span, total = max(departures), sum(departures) - sum(arrivals)
    return [len(arrivals) / span, total / len(arrivals), total / span]


def to_last_arrival(arrivals, departures):
    span = max(arrivals) - min(arrivals) or 1.0
    total = sum(departures) - sum(arrivals)
    return [len(arrivals) / span, total / len(arrivals), total / span]


def peak_number(arrivals, departures):
    rate, time, _ = littles_law(arrivals, departures)
    inside = max(
        sum(a <= t < d for a, d in zip(arrivals, departures, strict=True)) for t in arrivals
    )
    return [rate, time, inside]


def last_is_latest(arrivals, departures):
    span, total = departures[-1] - arrivals[0] or 1.0, sum(departures) - sum(arrivals)
    return [len(arrivals) / span, total / len(arrivals), total / span]


def median_time(arrivals, departures):
    times = sorted(d - a for a, d in zip(arrivals, departures, strict=True))
    rate = len(arrivals) / (max(departures) - min(arrivals))
    return [rate, times[len(times) // 2], rate * times[len(times) // 2]]


def by_gaps(arrivals, departures):
    """Takes the rate from the gaps between arrivals: one fewer than there are requests."""
    _, time, _ = littles_law(arrivals, departures)
    rate = (len(arrivals) - 1) / (max(arrivals) - min(arrivals) or 1.0)
    return [rate, time, rate * time]


def time_over_rate(arrivals, departures):
    rate, time, _ = littles_law(arrivals, departures)
    return [rate, time, time / rate]


def hard_coded(arrivals, services):
    return [0.5 * i for i in range(len(arrivals))]


def stub_waits(arrivals, services):
    raise NotImplementedError


def stub_law(arrivals, departures):
    raise NotImplementedError


def nothing(first, second):
    return None


def lesson_waits(arrivals, services):
    return [None] * len(arrivals)


def lesson_law(arrivals, departures):
    return [None, None, None]


RIGHT = [
    {"fifo_waits": fifo_waits, "littles_law": littles_law},
    {"fifo_waits": fifo_by_heap, "littles_law": law_by_integration},
]
WRONG = [
    *({"fifo_waits": wrong} for wrong in (
        listed_order, no_pauses, with_service, sorted_waits, shortest_first, last_of_a_tie,
        negative_waits, sorts_its_input, hard_coded,
    )),
    *({"littles_law": wrong} for wrong in (
        from_zero, to_last_arrival, peak_number, last_is_latest, median_time, by_gaps,
        time_over_rate,
    )),
]  # fmt: skip
STUBS = [
    {"fifo_waits": stub_waits, "littles_law": stub_law},
    {"fifo_waits": nothing, "littles_law": nothing},
    {"fifo_waits": lesson_waits, "littles_law": lesson_law},
]
