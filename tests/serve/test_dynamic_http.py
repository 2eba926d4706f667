"""Dynamic batching over HTTP: the batch sizes of the rule, exactly (C35, C36, C37, C39, C41).

tests/core/test_dynamic.py proves the rule's times on the virtual clock, and `python -m
benchmarks.dynamic_http` measures them here. Sizes must not depend on how busy the machine is, so
the times of these requests are far apart, or one call brings many prompts at one instant.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import pytest

from minillm.core.trace import Trace
from tests.serve.conftest import Served, wait_for
from tests.serve.test_pacing import recorded
from tests.serve.test_queue import ask_later

SLACK_S = 0.25  # of a busy machine; the rule's own times are exact, a wrong timer is off by more


def dynamic(serve, delay_s: float, step_s: float = 0.002, size: int = 64, **limits) -> Served:
    return serve(
        step_s=step_s, policy="dynamic", max_num_seqs=size, max_queue_delay_s=delay_s, **limits
    )


def batches(trace: Trace, count: int) -> list[tuple[float, int]]:
    """(start on the engine's clock, size) of each batch, once `count` requests have run.

    One token each: a batch is one step.
    """
    wait_for(lambda: sum(len(step.rows) for step in trace.steps) == count, "all batches")
    return [(step.t_start, len(step.rows)) for step in trace.steps]


def arrivals(trace: Trace) -> list[float]:
    return sorted(event.t for event in trace.events if event.event == "arrive")


def ask_at(served: Served, times_s: Sequence[float]) -> None:
    """A call of its own for each; returns when all are answered."""
    with ThreadPoolExecutor(len(times_s)) as pool:
        start = time.perf_counter()
        calls: list[Future] = []
        for when in times_s:
            time.sleep(max(start + when - time.perf_counter(), 0.0))
            calls.append(ask_later(pool, served, max_tokens=1))
        assert [call.result()[0] for call in calls] == [200] * len(calls)


def test_the_timer_starts_with_the_first_request(serve):  # C35
    served = dynamic(serve, delay_s=0.6)
    trace, _ = recorded(served)
    for round_ in range(1, 3):  # the second time after a while of nothing
        ask_at(served, [0.0, 0.15, 0.3, 0.9, 1.05])
        (first, three), (second, two) = batches(trace, 5 * round_)[-2:]
        assert (three, two) == (3, 2)
        came = arrivals(trace)[-5:]
        assert first - came[0] == pytest.approx(0.6, abs=SLACK_S)
        assert second - came[3] == pytest.approx(0.6, abs=SLACK_S)


@pytest.mark.parametrize("delay_s", [0.3, 0.0])
def test_a_single_request_goes_alone(serve, delay_s: float):  # C36
    served = dynamic(serve, delay_s)
    trace, _ = recorded(served)
    ask_at(served, [0.0])
    ((start, size),) = batches(trace, 1)
    assert size == 1
    assert start - arrivals(trace)[0] == pytest.approx(delay_s, abs=SLACK_S)


@pytest.mark.parametrize(
    ("count", "limits", "sizes"),
    [
        (1, {"preferred_batch_sizes": (8, 16, 32)}, [1]),
        (7, {"preferred_batch_sizes": (8, 16, 32)}, [7]),
        (8, {"preferred_batch_sizes": (8, 16, 32)}, [8]),
        (9, {"preferred_batch_sizes": (8, 16, 32)}, [8, 1]),
        (20, {"preferred_batch_sizes": (8, 16, 32)}, [16, 4]),
        (8, {"size": 32}, [8]),
        (40, {"size": 32}, [32, 8]),
        (20, {"size": 8, "delay_s": 0.0}, [8, 8, 4]),
    ],
)  # fmt: skip
def test_a_burst_goes_in_the_sizes_of_the_rule(serve, count: int, limits: dict, sizes: list[int]):
    served = dynamic(serve, **{"delay_s": 0.1, **limits})
    trace, _ = recorded(served)
    answer = served.complete(prompt=["abcd"] * count, max_tokens=1)
    assert answer.json()["usage"]["completion_tokens"] == count
    assert [size for _, size in batches(trace, count)] == sizes


def test_nine_calls_make_a_batch_of_eight_and_one_that_waits(serve):
    served = dynamic(serve, delay_s=1.0, preferred_batch_sizes=(8, 16, 32))
    trace, _ = recorded(served)
    ask_at(served, [0.0] * 9)
    (_, eight), (alone, one) = batches(trace, 9)
    assert (eight, one) == (8, 1)
    assert alone - arrivals(trace)[8] == pytest.approx(1.0, abs=SLACK_S)


def test_under_load_only_preferred_sizes_leave(serve):  # C37, without Triton's 9, 9, 9 …
    served = dynamic(serve, delay_s=30.0, step_s=0.1, preferred_batch_sizes=(8,))
    trace, _ = recorded(served)
    ask_at(served, [0.003 * i for i in range(40)])
    assert [size for _, size in batches(trace, 40)] == [8] * 5


def test_full_batches_follow_one_another_without_a_gap(serve):  # C39: 0, 50, 100, 150 ms
    served = dynamic(serve, delay_s=0.0, step_s=0.05, size=4)
    trace, _ = recorded(served)
    served.complete(prompt=["abcd"] * 16, max_tokens=1)
    assert [size for _, size in batches(trace, 16)] == [4] * 4
    gaps = [b.t_start - a.t_end for a, b in pairwise(trace.steps)]
    assert max(gaps) < SLACK_S  # Triton with a queue limit polls each 500 ms


def test_high_priority_makes_the_next_batch(serve):  # C41
    served = dynamic(serve, delay_s=0.0, step_s=0.5, size=4, scheduling_policy="priority")
    trace, _ = recorded(served)
    with ThreadPoolExecutor(2) as pool:
        low = ask_later(pool, served, prompt=["abcd"] * 12, max_tokens=1, priority=2, user="low")
        wait_for(lambda: served.engine.scheduler.running, "the first batch runs")
        high = ask_later(pool, served, prompt=["abcd"] * 4, max_tokens=1, priority=1, user="high")
        assert [low.result()[0], high.result()[0]] == [200, 200]
    assert [size for _, size in batches(trace, 16)] == [4] * 4
    names = {event.req: event.data["nickname"] for event in trace.events
             if event.event == "arrive"}  # fmt: skip
    assert [{names[row.req_idx] for row in step.rows} for step in trace.steps] == [
        {"low"}, {"high"}, {"low"}, {"low"},
    ]  # fmt: skip
