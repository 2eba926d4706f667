"""Arrivals and configurations for exercise 12: right ones, wrong ones, and stubs."""

from __future__ import annotations

import math
from itertools import accumulate


def loop(rate, draws):
    times, now = [], 0.0
    for u in draws:
        now += -math.log(1 - u) / rate
        times.append(now)
    return times


def by_sums(rate, draws):
    return list(accumulate(-math.log1p(-u) / rate for u in draws))


def config(replicas, slots, budget):
    """A function that gives this configuration."""

    def serving_config():
        return {
            "replicas": replicas, "max_num_seqs": slots, "max_num_batched_tokens": budget,
        }  # fmt: skip

    return serving_config


def gaps_only(rate, draws):
    return [-math.log(1 - u) / rate for u in draws]


def times_the_rate(rate, draws):
    return list(accumulate(-math.log(1 - u) * rate for u in draws))


def other_end(rate, draws):
    return list(accumulate(-math.log(u or 1.0) / rate for u in draws))


def even(rate, draws):
    return [(i + 1) / rate for i in range(len(draws))]


def uniform_gaps(rate, draws):
    return list(accumulate(2 * u / rate for u in draws))


def base_2(rate, draws):
    return list(accumulate(-math.log2(1 - u) / rate for u in draws))


def from_zero(rate, draws):
    return [0.0, *loop(rate, draws)][:-1]


def one_more(rate, draws):
    return [0.0, *loop(rate, draws)]


def milliseconds(rate, draws):
    return [1e3 * t for t in loop(rate, draws)]


def keyword_missing():
    return {"replicas": 3, "max_num_seqs": 256}


def text_values():
    return {"replicas": "3", "max_num_seqs": "256", "max_num_batched_tokens": "2048"}


def raises(*args):
    raise NotImplementedError


def nothing(*args):
    return None


RIGHT = [
    {"poisson_arrivals": loop, "serving_config": config(3, 256, 2048)},
    {"poisson_arrivals": by_sums, "serving_config": config(3, 128, 1024)},
]
WRONG = [
    *({"poisson_arrivals": wrong} for wrong in (
        gaps_only, times_the_rate, other_end, even, uniform_gaps, base_2, from_zero, one_more,
        milliseconds,
    )),
    *({"serving_config": wrong} for wrong in (
        config(2, 256, 2048), config(4, 256, 2048), config(3, 32, 512), config(8, 256, 2048),
        config(1, 256, 2048), config(9, 256, 2048), config(3, 256, 128), config(3, 0, 2048),
        keyword_missing, text_values,
    )),
]  # fmt: skip
STUBS = [
    {"poisson_arrivals": lambda rate, draws: None, "serving_config": config(1, 8, 2048)},
    {"poisson_arrivals": raises, "serving_config": raises},
    {"poisson_arrivals": nothing, "serving_config": nothing},
]
