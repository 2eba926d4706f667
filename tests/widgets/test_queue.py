"""A run as a queue: Little's law on its own sample, the widget's words, the static figure."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core.trace import RequestEvent, Trace, TraceHeader
from tests.widgets.runs import run, shared_run
from widgets.queue_model import DONE, SERVED, WAITING, counts, last_time, queue_figures, visits
from widgets.queue_view import QueueView, queue_figure, queue_headline
from widgets.wire import decode

HEADER = TraceHeader("simulated", "one server", "", "", "fcfs", 1, 1, {"max_num_seqs": 1})


def one_server(arrivals: list[float], service: list[float]) -> Trace:
    """First come, first served, as events alone."""
    trace, free, events = Trace(HEADER), 0.0, []
    for i, (t, need) in enumerate(zip(arrivals, service, strict=True)):
        start = max(t, free)
        free = start + need
        events += [(t, i, "arrive"), (start, i, "admit"), (free, i, "finish")]
    for t, i, name in sorted(events, key=lambda event: event[0]):
        trace.add(RequestEvent(t, i, f"r{i}", name, {}))
    return trace


times = st.floats(0.001, 5.0)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(times, times), min_size=1, max_size=30))
def test_littles_law_holds_on_every_sample_that_ends_empty(pairs):
    now, arrivals = 0.0, []
    for gap, _ in pairs:
        now += gap
        arrivals.append(now)
    trace = one_server(arrivals, [need for _, need in pairs])
    found = queue_figures(trace)
    assert found.ended
    assert found.count == len(pairs)
    assert found.mean == pytest.approx(found.rate * found.stay)
    # L again, as the time average of the counted number.
    steps = counts(trace)
    ends = [t for t, _ in steps[1:]] + [last_time(trace)]
    area = sum(n * (end - t) for (t, n), end in zip(steps, ends, strict=True))
    assert found.mean == pytest.approx(area / last_time(trace))
    assert steps[-1][1] == 0
    assert found.wait <= found.stay


def test_waits_by_hand():
    trace = one_server([0.0, 1.0, 1.5, 10.0], [3.0, 1.0, 1.0, 1.0])
    found = queue_figures(trace)
    assert found.wait == pytest.approx((0 + 2 + 2.5 + 0) / 4)
    assert found.stay == pytest.approx((3 + 3 + 3.5 + 1) / 4)
    assert last_time(trace) == 11.0
    assert counts(trace, waiting=True) == [
        (0.0, 0), (1.0, 1), (1.5, 2), (3.0, 1), (4.0, 0), (5.0, 0), (10.0, 0), (11.0, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_the_engines_runs_end_empty_and_nobody_is_counted_twice(policy):
    trace = run(policy, num_blocks=44)
    for _, number in counts(trace):
        assert 0 <= number <= 14
    for _, number in counts(trace, waiting=True):
        assert 0 <= number <= 14
    assert counts(trace)[-1][1] == counts(trace, waiting=True)[-1][1] == 0
    assert queue_figures(trace).mean_waiting <= queue_figures(trace).mean


def test_a_preempted_request_waits_again():
    trace = shared_run()
    victim = next(event.req for event in trace.events if event.event == "preempt")
    way = next(visit for visit in visits(trace.events) if visit.req == victim)
    assert [state for _, state in way.changes] == [WAITING, SERVED, WAITING, SERVED, DONE]
    whole = way.changes[-1][0] - way.arrive
    assert way.spent(WAITING, 1e9) + way.spent(SERVED, 1e9) == pytest.approx(whole)


def test_a_run_under_way_counts_as_far_as_it_goes():
    trace = Trace(HEADER)
    assert queue_figures(trace) is None
    trace.add(RequestEvent(2.0, 0, "a", "arrive", {}))
    assert queue_figures(trace) is None  # no time has passed
    trace.add(RequestEvent(5.0, 0, "a", "admit", {}))
    found = queue_figures(trace)
    assert (found.wait, found.mean, found.ended) == (3.0, 1.0, False)
    trace.add(RequestEvent(6.0, 7, "x", "refuse", {"reason": "too long"}))  # it never arrived
    assert queue_figures(trace).count == 1


class Sent(QueueView):
    """A QueueView that keeps what it sends."""

    def send(self, content, buffers=None):
        self.sent = [*getattr(self, "sent", []), (content, buffers)]


def test_three_runs_are_told_with_how_the_waits_compare():
    chance = random.Random(3)
    shown = Sent(3, ["2/s", "4/s", "4.5/s"])
    for lane, rate in enumerate((2.0, 4.0, 4.5)):
        arrivals, now = [], 0.0
        while now < 60:
            now += chance.expovariate(rate)
            arrivals.append(now)
        shown.feed(lane, one_server(arrivals, [chance.expovariate(5) for _ in arrivals]))
        shown.finish(lane)
    first, last = (queue_figures(shown.traces()[lane]).wait for lane in (0, 2))
    assert first < last
    assert shown.conclude().startswith("From 2/s to 4.5/s, the mean wait grows from ")
    figure = shown.freeze()
    assert figure.table.count("<tr>") == 4
    assert figure.svg.count("<polyline") == figure.svg.count("<polygon") == 3
    assert "L = λ·W" in figure.svg
    assert {message["lane"] for message, _ in shown.sent} == {0, 1, 2}


def test_events_alone_move_the_clock_of_a_view():
    shown = Sent()
    shown.feed(0, one_server([0.0, 1.0], [2.0, 2.0]))
    shown.publish()
    message, _ = shown.sent[-1]
    assert message["now"] == 4.0
    assert [event[2] for event in message["events"]].count("finish") == 2


def test_small_samples_and_no_samples_are_said():
    trace = run("static")
    text, lead = queue_headline([queue_figures(trace)] * 2, ["A", "B"])
    assert "falls" in text
    assert "n = 14" in lead
    assert queue_headline([None], ["A"]) == ("Nobody has arrived yet.", "")
    assert "14 requests" in queue_headline([queue_figures(trace)], ["A"])[1]
    assert "simulated" in queue_figure([trace]).svg
    with pytest.raises(ValueError, match="1 or 2 or 3 runs, got lanes=4"):
        QueueView(4)


def test_a_queues_frames_carry_no_rows():
    shown = Sent()
    shown.feed(0, run("static"))
    shown.publish()
    frame = decode(shown.sent[-1][1][0])
    assert frame.rows == []
    assert len(frame.steps) == len(run("static").steps)
