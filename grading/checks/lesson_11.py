"""Exercise 11: a product split over devices in two ways, a pipeline's bubble, and a router."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from grading.exercise import (
    Call,
    Exercise,
    Finding,
    Property,
    calls,
    equals,
    run_function,
    same,
    show,
)

SEED = 11
COLUMN, ROW, BUBBLE, ROUTE = "column_parallel", "row_parallel", "pipeline_bubble", "route"
Matrix = Sequence[Sequence[float]]


def product(x: Matrix, w: Matrix) -> list[list[float]]:
    """x · w, matrices as lists of rows."""
    columns = list(zip(*w, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns]
            for row in x]  # fmt: skip


def column_parallel(x: Matrix, w: Matrix, parts: int) -> list[list[list[float]]]:
    """What each device computes that has its share of w's columns."""
    size = len(w[0]) // parts
    return [product(x, [row[k * size : (k + 1) * size] for row in w]) for k in range(parts)]


def row_parallel(x: Matrix, w: Matrix, parts: int) -> list[list[list[float]]]:
    """What each device computes that has its share of w's rows: as large as x · w itself."""
    size = len(w) // parts
    shares = [slice(k * size, (k + 1) * size) for k in range(parts)]
    return [product([row[share] for row in x], w[share]) for share in shares]


def pipeline_bubble(stages: int, micro_batches: int) -> float:
    """The share of the stages' time in which they have nothing to do."""
    return (stages - 1) / (stages + micro_batches - 1)


def route(connections: Sequence[int | None], last: int) -> int | None:
    """The replica with the fewest connections, the first one after `last` of several."""
    count = len(connections)
    order = [(last + 1 + step) % count for step in range(count)]
    up = [i for i in order if connections[i] is not None]
    return min(up, key=lambda i: connections[i], default=None)


# ── inputs ──────────────────────────────────────────────────────────────────────────────────

PRODUCTS = (
    ([[1]], [[2]], 1),
    ([[1, 2]], [[3, 5], [7, 11]], 2),
    ([[1, 2], [3, 4]], [[1, 0], [0, 1]], 2),
    ([[1, 0, 2, 1]], [[1, 2, 3, 4], [5, 6, 7, 8], [9, 1, 2, 3], [4, 5, 6, 7]], 2),
)
WIDE = ([[1, 2]], [[1, 2, 3, 4], [5, 6, 7, 8]], 2)
TALL = ([[1, 2, 3, 4], [4, 3, 2, 1]], [[1, 2], [3, 4], [5, 6], [7, 8]], 2)


def random_products(seed: int, count: int) -> list[tuple]:
    """(x, w, parts) of sizes that parts divides; whole numbers, so that sums are exact."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        parts = chance.randint(1, 4)
        rows, n_in, n_out = (chance.randint(1, 3) * times for times in (1, parts, parts))
        x = [[chance.randint(-9, 9) for _ in range(n_in)] for _ in range(rows)]
        drawn.append((x, [[chance.randint(-9, 9) for _ in range(n_out)] for _ in range(n_in)],
                      parts))  # fmt: skip
    return drawn


def random_loads(seed: int, count: int) -> list[tuple]:
    """(connections, last): many ties, some replicas down."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        replicas = chance.randint(1, 6)
        loads = [chance.choice([0, 0, 1, 1, 2, 5, None]) for _ in range(replicas)]
        drawn.append((loads, chance.randint(-1, replicas - 1)))
    return drawn


def row_of_requests(loads: Sequence[int | None], count: int) -> Call:
    """So many requests one after another, of which none ends."""
    text = f"{count} requests in a row, connections at first {list(loads)}, last = -1"
    return Call(text, {"name": ROUTE, "loads": list(loads), "count": count})


# ── what is called, and what must hold ──────────────────────────────────────────────────────


def run(objects: Mapping[str, object], args: dict) -> object:
    """One call, or a row of requests: the replicas they went to."""
    if "count" not in args:
        return run_function(objects, args)
    loads, last, went = list(args["loads"]), -1, []
    for _ in range(args["count"]):
        last = objects[ROUTE](list(loads), last)
        went.append(last)
        if type(last) is not int or not 0 <= last < len(loads) or loads[last] is None:
            break
        loads[last] += 1
    return went


def joined(parts: Sequence[Matrix]) -> list[list[float]]:
    """Matrices side by side."""
    return [[value for part in parts for value in part[i]] for i in range(len(parts[0]))]


def added(parts: Sequence[Matrix]) -> list[list[float]]:
    """Matrices added up: what an all-reduce gives everyone."""
    return [[sum(values) for values in zip(*rows, strict=True)]
            for rows in zip(*parts, strict=True)]  # fmt: skip


def together(join: object, how: str) -> object:
    """A finding: so many parts as devices, and together they are the whole product."""

    def finding(args: dict, answer: object) -> Finding:
        x, w, parts = args["args"]
        value = answer["value"]
        if not isinstance(value, list) or len(value) != parts:
            return f"a list of {parts} results, one for each device", show(value)
        try:
            whole = join(value)
        except (TypeError, IndexError, ValueError):
            return "a matrix (a list of rows) from each device", show(value)
        right = product(x, w)
        if same(right, whole):
            return None
        return f"{how} they are {show(right)}", show(whole)

    return finding


def shared_out(args: dict, went: object) -> Finding:
    """Each request went to a replica that is up, and each time to one with the fewest."""
    loads, last, expected = list(args["loads"]), -1, []
    for _ in range(args["count"]):
        last = route(loads, last)
        expected.append(last)
        loads[last] += 1
    return None if same(expected, went) else (show(expected), show(went))


def split(
    name: str, points: float, hint: str, function: str, arguments: Iterable[tuple]
) -> Property:
    right = column_parallel if function == COLUMN else row_parallel
    return Property(name, points, hint, calls(function, arguments), equals(right), (function,))


def bubble(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
    found = equals(pipeline_bubble)
    return Property(name, points, hint, calls(BUBBLE, arguments), found, (BUBBLE,))


def routing(name: str, points: float, hint: str, arguments: Iterable[tuple]) -> Property:
    return Property(name, points, hint, calls(ROUTE, arguments), equals(route), (ROUTE,))


EXERCISE = Exercise(
    "lesson_11",
    run,
    (
        Property(
            "by columns: side by side the parts are the whole product", 1,
            "Which columns of the result does a device get that has the first columns of w?",
            calls(COLUMN, [*PRODUCTS, WIDE, TALL]), together(joined, "side by side"), (COLUMN,),
        ),
        split(
            "by columns: each device computes with its own columns, in order", 2,
            "What does each device need of x, and what of w?", COLUMN,
            [*PRODUCTS, WIDE, TALL, *random_products(SEED, 16)],
        ),
        Property(
            "by rows: added up the parts are the whole product", 1,
            "A sum over all of x's columns: what does a device have of it?",
            calls(ROW, [*PRODUCTS, WIDE, TALL]), together(added, "added up"), (ROW,),
        ),
        split(
            "by rows: each device has its own rows of w, and the columns of x that meet them", 2,
            "Which numbers of x are multiplied with the first row of w?", ROW,
            [*PRODUCTS, WIDE, TALL, *random_products(SEED + 1, 16)],
        ),
        bubble(
            "one micro-batch: all stages but one have nothing to do", 1,
            "How long does the whole take, in stages' turns, and how much of it is work?",
            [(1, 1), (2, 1), (3, 1), (4, 1), (8, 1)],
        ),
        bubble(
            "more micro-batches, a smaller bubble", 1,
            "How many turns pass until the last micro-batch leaves the last stage?",
            [(1, 5), (2, 2), (2, 3), (4, 4), (4, 16), (8, 2), (3, 100)],
        ),
        routing(
            "the fewest connections", 1, "Which replica has least to do?",
            [([0], -1), ([3, 1], -1), ([1, 3], 0), ([5, 2, 9], 1), ([9, 9, 0, 9], 2)],
        ),
        routing(
            "a replica that is down gets nothing; None when all are down", 2,
            "Is no connection the same as no replica?",
            [([None, 3], 0), ([3, None], 0), ([None], -1), ([None, None], 1),
             ([None, 0, None], 1), ([4, None, 2], 2)],
        ),
        routing(
            "of several with the fewest, the next one after the last", 2,
            "If it is always the first of them, who gets every request on a quiet day?",
            [([0, 0], -1), ([0, 0], 0), ([0, 0], 1), ([1, 0, 0], 1), ([0, 1, 0], 2),
             ([2, 2, 2], 0), ([0, None, 0], 0), *random_loads(SEED, 30)],
        ),
        Property(
            "requests in a row: each goes to one that is up, and the load stays even", 1,
            "After a request was sent, who has the fewest connections?",
            (row_of_requests([0, 0], 4), row_of_requests([0, 3], 5),
             row_of_requests([0, None, 0], 4), row_of_requests([4, 0, 2, None, 2], 12)),
            shared_out, (ROUTE,),
        ),
    ),
)  # fmt: skip
