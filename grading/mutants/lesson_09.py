"""Metrics for exercise 9: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

import math
import statistics

from grading.checks.lesson_09 import goodput, itl, tpot, ttft
from minillm.core.metrics import percentile


def ttft_by_loop(arrival, token_times):
    for time in token_times:
        return time - arrival
    return None


def itl_by_index(token_times):
    return [token_times[i] - token_times[i - 1] for i in range(1, len(token_times))]


def tpot_as_mean(token_times):
    gaps = itl_by_index(token_times)
    return statistics.fmean(gaps) if gaps else None


def percentile_weighted(values, q):
    if not len(values):
        return None
    ordered, place = sorted(values), (len(values) - 1) * q / 100
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    share = place - math.floor(place)
    return low * (1 - share) + high * share


def goodput_filtered(requests, duration, ttft_limit, tpot_limit):
    if duration <= 0:
        return None
    left = [r for r in requests if r[2]]
    if ttft_limit is not None:
        left = [r for r in left if r[0] <= ttft_limit]
    if tpot_limit is not None:
        left = [r for r in left if r[1] is None or r[1] <= tpot_limit]
    return len(left) / duration


# ── wrong ───────────────────────────────────────────────────────────────────────────────────


def ttft_from_zero(arrival, token_times):
    return token_times[0] if token_times else None


def ttft_of_last(arrival, token_times):
    return token_times[-1] - arrival if token_times else None


def ttft_zero_for_none(arrival, token_times):
    return token_times[0] - arrival if token_times else 0.0


def ttft_falsy(arrival, token_times):
    """Takes a TTFT of 0 for none at all."""
    return (token_times[0] - arrival if token_times else 0) or None


def ttft_in_ms(arrival, token_times):
    return 1000 * (token_times[0] - arrival) if token_times else None


def ttft_of_second(arrival, token_times):
    return token_times[min(1, len(token_times) - 1)] - arrival if token_times else None


def itl_from_first(token_times):
    return [time - token_times[0] for time in token_times[1:]]


def itl_one_short(token_times):
    return itl(token_times)[:-1]


def itl_changes_its_input(token_times):
    gaps = itl(token_times)
    token_times.clear()
    return gaps


def itl_is_a_mean(token_times):
    return tpot(token_times)


def itl_backwards(token_times):
    return itl(token_times)[::-1]


def itl_with_the_first(token_times):
    """Counts the first token's time as a gap, too."""
    return [*token_times[:1], *itl(token_times)]


def tpot_over_all(token_times):
    if len(token_times) < 2:
        return None
    return (token_times[-1] - token_times[0]) / len(token_times)


def tpot_zero_for_one(token_times):
    return tpot(token_times) or 0.0


def tpot_from_zero(token_times):
    return token_times[-1] / (len(token_times) - 1) if len(token_times) > 1 else None


def tpot_median(token_times):
    gaps = itl(token_times)
    return statistics.median(gaps) if gaps else None


def tpot_needs_three(token_times):
    return tpot(token_times) if len(token_times) > 2 else None


def tpot_worst(token_times):
    return max(itl(token_times), default=None)


def nearest_rank(values, q):
    if not values:
        return None
    return sorted(values)[max(math.ceil(len(values) * q / 100) - 1, 0)]


def place_of_n(values, q):
    """Takes n · q ÷ 100 for the place."""
    if not values:
        return None
    ordered, place = sorted(values), len(values) * q / 100
    low = min(int(place), len(values) - 1)
    high = min(low + 1, len(values) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - int(place))


def rounded_place(values, q):
    return sorted(values)[round((len(values) - 1) * q / 100)] if values else None


def unsorted_values(values, q):
    if not values:
        return None
    place = (len(values) - 1) * q / 100
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def sorts_in_place(values, q):
    values.sort()
    return percentile(values, q)


def zero_of_nothing(values, q):
    return percentile(values, q) or 0.0


def excludes_the_ends(values, q):
    """The exclusive kind: place (n + 1) · q ÷ 100."""
    if not values:
        return None
    ordered = sorted(values)
    place = min(max((len(values) + 1) * q / 100 - 1, 0), len(values) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def strictly_below(requests, duration, ttft_limit, tpot_limit):
    eased = [(None if a is None else a + 1e-6, None if b is None else b + 1e-6, c)
             for a, b, c in requests]  # fmt: skip
    return goodput(eased, duration, ttft_limit, tpot_limit)


def counts_failures(requests, duration, ttft_limit, tpot_limit):
    return goodput([(a, b, True) for a, b, _ in requests], duration, ttft_limit, tpot_limit)


def one_limit_is_enough(requests, duration, ttft_limit, tpot_limit):
    if duration <= 0:
        return None
    alone = [max(goodput([r], 1, ttft_limit, None), goodput([r], 1, None, tpot_limit))
             for r in requests]  # fmt: skip
    return sum(alone) / duration


def only_ttft(requests, duration, ttft_limit, tpot_limit):
    return goodput(requests, duration, ttft_limit, None)


def single_token_is_bad(requests, duration, ttft_limit, tpot_limit):
    left = [r for r in requests if r[1] is not None or tpot_limit is None]
    return goodput(left, duration, ttft_limit, tpot_limit)


def a_share(requests, duration, ttft_limit, tpot_limit):
    good = goodput(requests, 1, ttft_limit, tpot_limit)
    return good / len(requests) if requests and duration > 0 else None


def a_count(requests, duration, ttft_limit, tpot_limit):
    return goodput(requests, 1, ttft_limit, tpot_limit)


def zero_without_time(requests, duration, ttft_limit, tpot_limit):
    return goodput(requests, duration, ttft_limit, tpot_limit) or 0.0


def stub(*args):
    raise NotImplementedError


def nothing(*args):
    return None


def zero(*args):
    return 0.0


def empty(*args):
    return []


NAMES = ("ttft", "itl", "tpot", "percentile", "goodput")
RIGHT = [
    {"ttft": ttft, "itl": itl, "tpot": tpot, "percentile": percentile, "goodput": goodput},
    {"ttft": ttft_by_loop, "itl": itl_by_index, "tpot": tpot_as_mean,
     "percentile": percentile_weighted, "goodput": goodput_filtered},
]  # fmt: skip
WRONG = [
    *({"ttft": wrong} for wrong in (
        ttft_from_zero, ttft_of_last, ttft_zero_for_none, ttft_falsy, ttft_in_ms,
        ttft_of_second,
    )),
    *({"itl": wrong} for wrong in (
        itl_from_first, itl_one_short, itl_changes_its_input, itl_is_a_mean,
        itl_backwards, itl_with_the_first,
    )),
    *({"tpot": wrong} for wrong in (
        tpot_over_all, tpot_zero_for_one, tpot_from_zero, tpot_median,
        tpot_needs_three, tpot_worst,
    )),
    *({"percentile": wrong} for wrong in (
        nearest_rank, place_of_n, rounded_place, unsorted_values, sorts_in_place, zero_of_nothing,
        excludes_the_ends,
    )),
    *({"goodput": wrong} for wrong in (
        strictly_below, counts_failures, one_limit_is_enough, only_ttft, single_token_is_bad,
        a_share, a_count, zero_without_time,
    )),
]  # fmt: skip
STUBS = [
    dict.fromkeys(NAMES, stub),
    dict.fromkeys(NAMES, nothing),
    {**dict.fromkeys(NAMES, zero), "itl": empty},
]
