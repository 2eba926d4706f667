"""Splits, bubbles and routers for exercise 11: right ones, wrong ones, and stubs."""

from __future__ import annotations


def times(x, w):
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*w, strict=True)]
        for row in x
    ]


def columns(x, w, parts):
    size = len(w[0]) // parts
    return [times(x, [row[k * size : (k + 1) * size] for row in w]) for k in range(parts)]


def rows(x, w, parts):
    size = len(w) // parts
    return [
        times([row[k * size : (k + 1) * size] for row in x], w[k * size : (k + 1) * size])
        for k in range(parts)
    ]


def bubble(stages, micro_batches):
    return (stages - 1) / (stages + micro_batches - 1)


def choose(connections, last):
    best = None
    for step in range(1, len(connections) + 1):
        i = (last + step) % len(connections)
        fewer = best is None or (connections[i] is not None and connections[i] < connections[best])
        if connections[i] is not None and fewer:
            best = i
    return best


def columns_of_the_whole(x, w, parts):
    """The dense product cut up: the same numbers."""
    whole = times(x, w)
    size = len(whole[0]) // parts
    return [[row[i : i + size] for row in whole] for i in range(0, len(whole[0]), size)]


def rows_by_index(x, w, parts):
    size, found = len(w) // parts, []
    for k in range(parts):
        part = [[0] * len(w[0]) for _ in x]
        for i, row in enumerate(x):
            for j in range(k * size, (k + 1) * size):
                for o, weight in enumerate(w[j]):
                    part[i][o] += row[j] * weight
        found.append(part)
    return found


def bubble_by_counting(stages, micro_batches):
    turns = stages + micro_batches - 1
    idle = sum(
        not 0 <= turn - stage < micro_batches for turn in range(turns) for stage in range(stages)
    )
    return idle / (stages * turns)


def choose_by_key(connections, last):
    up = [i for i, count in enumerate(connections) if count is not None]
    size = len(connections)
    return min(up, key=lambda i: (connections[i], (i - last - 1) % size)) if up else None


def columns_backwards(x, w, parts):
    return columns(x, w, parts)[::-1]


def columns_dealt(x, w, parts):
    """Every parts-th column."""
    return [times(x, [row[k::parts] for row in w]) for k in range(parts)]


def columns_whole(x, w, parts):
    return [times(x, w)]


def columns_everywhere(x, w, parts):
    return [times(x, w)] * parts


def columns_in_two(x, w, parts):
    return columns(x, w, 2)


def columns_joined(x, w, parts):
    return times(x, w)


def columns_one_short(x, w, parts):
    size = len(w[0]) // parts
    return [times(x, [row[k * size : (k + 1) * size - 1] for row in w]) for k in range(parts)]


def columns_eat_w(x, w, parts):
    found = columns(x, w, parts)
    w.clear()
    return found


def rows_summed(x, w, parts):
    return [times(x, w)] * parts


def rows_shared_out(x, w, parts):
    return [[[value / parts for value in row] for row in times(x, w)] for _ in range(parts)]


def rows_of_the_first_columns(x, w, parts):
    size = len(w) // parts
    return [times([row[:size] for row in x], w[k * size : (k + 1) * size]) for k in range(parts)]


def rows_backwards(x, w, parts):
    return rows(x, w, parts)[::-1]


def rows_dealt(x, w, parts):
    return [times([row[k::parts] for row in x], w[k::parts]) for k in range(parts)]


def rows_of_x(x, w, parts):
    """Splits the batch: that is another kind of parallelism."""
    size = max(len(x) // parts, 1)
    return [times(x[k * size : (k + 1) * size], w) for k in range(parts)]


def rows_first_only(x, w, parts):
    return rows(x, w, parts)[:1]


def bubble_over_batches(stages, micro_batches):
    return (stages - 1) / micro_batches


def bubble_without_batches(stages, micro_batches):
    return (stages - 1) / stages


def busy(stages, micro_batches):
    return micro_batches / (stages + micro_batches - 1)


def bubble_off_by_one(stages, micro_batches):
    return (stages - 1) / (stages + micro_batches)


def bubble_all_stages(stages, micro_batches):
    return stages / (stages + micro_batches - 1)


def bubble_in_turns(stages, micro_batches):
    return stages - 1


def bubble_percent(stages, micro_batches):
    return 100 * bubble(stages, micro_batches)


def first_of_the_fewest(connections, last):
    up = [i for i, count in enumerate(connections) if count is not None]
    return min(up, key=lambda i: connections[i]) if up else None


def last_of_the_fewest(connections, last):
    up = [i for i, count in enumerate(connections) if count is not None]
    return min(reversed(up), key=lambda i: connections[i]) if up else None


def from_the_last(connections, last):
    """Begins with the last one itself."""
    return choose(connections, last - 1)


def down_is_idle(connections, last):
    return choose([count or 0 for count in connections], last)


def idle_is_down(connections, last):
    return choose([count or None for count in connections], last)


def round_robin(connections, last):
    for step in range(1, len(connections) + 1):
        if connections[(last + step) % len(connections)] is not None:
            return (last + step) % len(connections)
    return None


def busiest(connections, last):
    return choose([None if count is None else -count for count in connections], last)


def somebody_always(connections, last):
    found = choose(connections, last)
    return 0 if found is None else found


def counts_itself(connections, last):
    """Changes the list that it was given."""
    found = choose(connections, last)
    if found is not None:
        connections[found] += 1
    return found


def empty(x, w, parts):
    return []


def zero(stages, micro_batches):
    return 0.0


def replica_0(connections, last):
    return 0


def raises(*args):
    raise NotImplementedError


def nothing(*args):
    return None


NAMES = ("column_parallel", "row_parallel", "pipeline_bubble", "route")


def named(*solutions):
    return dict(zip(NAMES, solutions, strict=True))


RIGHT = [
    named(columns, rows, bubble, choose),
    named(columns_of_the_whole, rows_by_index, bubble_by_counting, choose_by_key),
]
WRONG = [
    *({"column_parallel": wrong} for wrong in (
        columns_backwards, columns_dealt, columns_whole, columns_everywhere, columns_in_two,
        columns_joined, columns_one_short, columns_eat_w, rows,
    )),
    *({"row_parallel": wrong} for wrong in (
        rows_summed, rows_shared_out, rows_of_the_first_columns, rows_backwards, rows_dealt,
        rows_of_x, rows_first_only, columns,
    )),
    *({"pipeline_bubble": wrong} for wrong in (
        bubble_over_batches, bubble_without_batches, busy, bubble_off_by_one, bubble_all_stages,
        bubble_in_turns, bubble_percent,
    )),
    *({"route": wrong} for wrong in (
        first_of_the_fewest, last_of_the_fewest, from_the_last, down_is_idle, idle_is_down,
        round_robin, busiest, somebody_always, counts_itself,
    )),
]  # fmt: skip
STUBS = [
    named(empty, empty, zero, replica_0),
    dict.fromkeys(NAMES, raises),
    dict.fromkeys(NAMES, nothing),
]
