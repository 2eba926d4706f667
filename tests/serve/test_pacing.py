"""A simulated device in front of real clients keeps to the wall clock, and so do its records."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from minillm.core import request_metrics
from minillm.core.trace import StepRecord, Trace
from minillm.serve.paced_clock import MAX_LAG_S, PacedClock
from tests.serve.conftest import Served, wait_for


def recorded(served: Served) -> tuple[Trace, list[float]]:
    """The trace from now on, and when (on the engine's clock) each of its records was passed on."""
    trace, times = Trace(served.engine.trace.header), []
    take = served.service.metrics.take

    def both(records) -> None:
        now = served.service.engine.now()
        for record in records:
            trace.add(record)
            times.append(now)
        take(records)

    served.service.metrics.take = both
    return trace, times


def test_steps_end_when_the_wall_clock_says_so(serve):
    served = serve(step_s=0.01)
    trace, times = recorded(served)
    start = time.perf_counter()
    served.complete(max_tokens=50)
    seconds = time.perf_counter() - start
    wait_for(lambda: len(trace.steps) == 50, "50 steps")
    assert seconds >= 0.5
    steps = trace.steps
    late = sorted(
        now - record.t_end
        for record, now in zip(trace.records, times, strict=True)
        if isinstance(record, StepRecord)
    )
    assert late[0] >= 0.0  # never before its time
    assert late[len(late) // 2] < 5 * MAX_LAG_S
    for step in steps:
        assert step.t_end - step.t_start == pytest.approx(0.01, abs=1e-9)
    # Steps follow one another without a gap, unless the machine held the thread up.
    gaps = [b.t_start - a.t_end for a, b in pairwise(steps)]
    assert min(gaps) >= 0.0
    assert sum(gap == 0.0 for gap in gaps) > len(gaps) / 2


def test_client_and_trace_agree_on_the_times(serve):
    served = serve(step_s=0.02)
    served.complete(max_tokens=1)
    trace, _ = recorded(served)
    arrivals: list[float] = []
    start = time.perf_counter()
    with served.client.stream(
        "POST", "/v1/completions", json={"prompt": "a", "max_tokens": 20, "stream": True}
    ) as answer:
        for part in answer.iter_bytes():
            arrivals += [time.perf_counter() - start] * part.count(b'"text"')
    wait_for(lambda: len(trace.steps) == 20, "20 steps")
    (request,) = request_metrics(trace).values()
    assert len(arrivals) == 20
    assert 0.02 <= request.ttft < 0.02 + 0.05
    assert arrivals[0] - request.ttft == pytest.approx(0.0, abs=5 * 0.005 + 0.05)
    assert arrivals[-1] - request.e2e == pytest.approx(0.0, abs=5 * 0.005 + 0.05)
    header = served.service.trace_header()
    assert header.t0_unix + served.service.engine.now() == pytest.approx(time.time(), abs=0.05)


def test_a_request_that_comes_in_the_middle_of_a_step_waits_for_its_end(serve):
    served = serve(step_s=0.2)
    trace, _ = recorded(served)
    with served.client.stream(
        "POST", "/v1/completions", json={"prompt": "a", "max_tokens": 3, "stream": True}
    ) as answer:
        parts = answer.iter_bytes()  # kept: without it the connection is closed
        next(parts)  # the second step has begun
        served.complete(max_tokens=1)
    wait_for(lambda: len(trace.steps) == 3, "3 steps")
    second = list(request_metrics(trace).values())[1]
    arrive = next(event for event in trace.events if event.id.endswith("-0") and event.req == 1)
    assert second.ttft > 0.2
    assert second.ttft == pytest.approx(trace.steps[2].t_end - arrive.t)
    assert trace.steps[1].t_start < arrive.t < trace.steps[1].t_end


def test_the_clock_catches_up_when_it_is_far_behind_and_not_when_it_is_near():
    clock = PacedClock()
    clock.advance(10.0)
    assert clock.wall() < 1.0
    clock.catch_up()
    assert clock.now() == 10.0
    clock = PacedClock()
    time.sleep(5 * MAX_LAG_S)
    clock.catch_up()
    assert clock.now() >= 5 * MAX_LAG_S
    later = clock.now() + 1.0
    clock.catch_up(later)
    assert clock.now() == later
