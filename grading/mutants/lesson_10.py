"""Answers to exercise 10: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

from grading.checks.lesson_10 import best_batch, cost_per_million_tokens, pareto_front


def front_by_sweep(points):
    front, most, fastest = [], float("-inf"), None
    for ms, tok_s in sorted(points, key=lambda point: (point[0], -point[1])):
        if tok_s > most:
            front.append((ms, tok_s))
            most, fastest = tok_s, ms
        elif tok_s == most and ms == fastest:
            front.append((ms, tok_s))
    return front


def best_by_loop(rows, limit_ms):
    best = None
    for batch, ms, tok_s in sorted(rows):
        if ms <= limit_ms and (best is None or tok_s > best[1]):
            best = (batch, tok_s)
    return best and best[0]


def cost_by_seconds(price_per_hour, gpus, tok_s):
    if not tok_s:
        return None
    return 1_000_000 / tok_s * price_per_hour / 3600 / gpus


# ── wrong ───────────────────────────────────────────────────────────────────────────────────


def front_all(points):
    return sorted(points)


def front_strict(points):
    """Takes only what is worse in both for dominated."""
    return sorted(p for p in points if not any(o[0] < p[0] and o[1] > p[1] for o in points))


def front_once(points):
    return sorted(set(pareto_front(points)))


def front_unsorted(points):
    front = pareto_front(points)
    return [point for point in points if point in front]


def front_of_the_given_order(points):
    front, most = [], float("-inf")
    for ms, tok_s in points:
        if tok_s > most:
            front.append((ms, tok_s))
            most = tok_s
    return front


def front_sorts_its_input(points):
    points.sort()
    return pareto_front(points)


def front_lower_is_better(points):
    flipped = pareto_front([(ms, -tok_s) for ms, tok_s in points])
    return [(ms, -tok_s) for ms, tok_s in flipped]


def best_below(rows, limit_ms):
    return best_batch(rows, limit_ms - 1e-6)


def best_is_largest(rows, limit_ms):
    return max((batch for batch, ms, _ in rows if ms <= limit_ms), default=None)


def best_without_limit(rows, limit_ms):
    return best_batch(rows, float("inf"))


def best_or_smallest(rows, limit_ms):
    found = best_batch(rows, limit_ms)
    return min((row[0] for row in rows), default=None) if found is None else found


def best_or_zero(rows, limit_ms):
    return best_batch(rows, limit_ms) or 0


def best_larger_of_a_tie(rows, limit_ms):
    good = [row for row in rows if row[1] <= limit_ms]
    return max(good, key=lambda row: (row[2], row[0]))[0] if good else None


def best_until_too_slow(rows, limit_ms):
    """Stops at the first row beyond the limit."""
    good = []
    for row in rows:
        if row[1] > limit_ms:
            break
        good.append(row)
    return best_batch(good, limit_ms)


def cost_of_the_node(price_per_hour, gpus, tok_s):
    return cost_per_million_tokens(price_per_hour, 1, tok_s)


def cost_per_thousand(price_per_hour, gpus, tok_s):
    cost = cost_per_million_tokens(price_per_hour, gpus, tok_s)
    return cost and cost / 1000


def cost_per_minute(price_per_hour, gpus, tok_s):
    cost = cost_per_million_tokens(price_per_hour, gpus, tok_s)
    return cost and cost * 60


def cost_free_without_tokens(price_per_hour, gpus, tok_s):
    return cost_per_million_tokens(price_per_hour, gpus, tok_s) or 0.0


def cost_times_gpus(price_per_hour, gpus, tok_s):
    return cost_per_million_tokens(price_per_hour * gpus, 1, tok_s)


def cost_whole_cents(price_per_hour, gpus, tok_s):
    cost = cost_per_million_tokens(price_per_hour, gpus, tok_s)
    return cost and round(cost, 2)


def stub(*args):
    raise NotImplementedError


def nothing(*args):
    return None


def empty(*args):
    return []


def zero(*args):
    return 0.0


NAMES = ("pareto_front", "best_batch", "cost_per_million_tokens")
RIGHT = [
    dict(zip(NAMES, (pareto_front, best_batch, cost_per_million_tokens), strict=True)),
    dict(zip(NAMES, (front_by_sweep, best_by_loop, cost_by_seconds), strict=True)),
]
WRONG = [
    *({"pareto_front": wrong} for wrong in (
        front_all, front_strict, front_once, front_unsorted, front_of_the_given_order,
        front_sorts_its_input, front_lower_is_better,
    )),
    *({"best_batch": wrong} for wrong in (
        best_below, best_is_largest, best_without_limit, best_or_smallest, best_or_zero,
        best_larger_of_a_tie, best_until_too_slow,
    )),
    *({"cost_per_million_tokens": wrong} for wrong in (
        cost_of_the_node, cost_per_thousand, cost_per_minute, cost_free_without_tokens,
        cost_times_gpus, cost_whole_cents,
    )),
]  # fmt: skip
STUBS = [
    dict.fromkeys(NAMES, stub),
    dict.fromkeys(NAMES, nothing),
    dict(zip(NAMES, (empty, nothing, zero), strict=True)),
]
