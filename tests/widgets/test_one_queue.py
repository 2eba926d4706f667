"""Queues simulated without an engine: order, Little's law, the endless queue, the slider."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core.trace import Trace
from widgets.one_queue import QueueLab, crowd, fifo_trace, random_queue, theory, theory_card
from widgets.queue_model import queue_figures, visits

times = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=1, max_size=15)


def waits(trace: Trace) -> list[float]:
    return [visit.spent("waiting", 1e9) for visit in visits(trace.events)]


def test_a_hundred_at_once_the_last_waits_99_services():
    trace = fifo_trace([0.0] * 100, [0.5] * 100)
    found = queue_figures(trace)
    assert max(waits(trace)) == pytest.approx(49.5)
    assert found.wait == pytest.approx(24.75)
    assert found.ended


@settings(max_examples=80, deadline=None)
@given(times, st.integers(1, 4))
def test_first_come_first_served_and_no_idle_server_beside_a_queue(pairs, servers):
    arrivals, services = [float(t) for t, _ in pairs], [float(s) for _, s in pairs]
    trace = fifo_trace(arrivals, services, servers)
    admitted = [event.req for event in trace.events if event.event == "admit"]
    assert admitted == sorted(admitted)
    inside, waiting, now = 0, 0, None
    for event in trace.events:
        if now is not None and event.t > now:
            assert waiting == 0 or inside == servers
        now = event.t
        waiting += {"arrive": 1, "admit": -1}.get(event.event, 0)
        inside += {"admit": 1, "finish": -1}.get(event.event, 0)
        assert 0 <= inside <= servers


def test_a_trace_can_be_written_and_read():
    trace = fifo_trace(*random_queue(4, 0.2, 10))
    again = Trace.from_jsonl(trace.to_jsonl())
    assert again.events == trace.events
    assert again.header == trace.header


def test_another_rate_stretches_the_same_sample():
    slow, fast = random_queue(2, 0.2, 100), random_queue(4, 0.2, 50)
    assert [t / 2 for t in slow[0]] == pytest.approx(fast[0])
    assert slow[1] == fast[1]


@pytest.mark.parametrize(("rate", "wait", "number"), [(2.5, 0.2, 1), (4, 0.8, 4), (4.75, 3.8, 19)])
def test_a_long_sample_comes_near_the_endless_queue(rate, wait, number):
    assert theory(rate, 0.2) == (pytest.approx(wait), pytest.approx(number))
    if rate < 4.5:  # nearer to 1, even an hour says little
        found = queue_figures(fifo_trace(*random_queue(rate, 0.2, 20_000)))
        assert found.wait == pytest.approx(wait, rel=0.15)
        assert found.mean == pytest.approx(number, rel=0.15)


def test_at_full_load_the_queue_has_no_mean():
    assert theory(5, 0.2) is None
    trace = fifo_trace(*random_queue(6, 0.2, 30))
    assert "grows" in repr(theory_card([trace], [6], 0.2))
    assert "simulated" in repr(theory_card([trace], [6], 0.2))


def test_a_thousand_users_are_not_a_thousand_requests():
    arrivals, services = crowd(1000, think=60, answer=5, length=600)
    found = queue_figures(fifo_trace(arrivals, services, servers=1000))
    assert found.wait == 0
    assert found.mean == pytest.approx(1000 * 5 / 65, rel=0.1)


def test_the_slider_shows_the_same_sample_at_another_rate():
    lab = QueueLab(service=0.2, rate=2.5, length=60)
    before = len(lab.trace.request_ids())
    slider = lab.panel.children[0]
    slider.value = 4.75
    assert lab.rate == 4.75
    assert len(lab.trace.request_ids()) > 1.5 * before
    assert lab.view.traces()[0] is lab.trace
    assert "load 95\u2009%" in lab.view.subtitles[0]
    assert "in the system on average" in lab.view.headline


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: fifo_trace([0.0], []), "1 arrivals were given for 0 services"),
        (lambda: fifo_trace([0.0], [1.0], 0), "at least one server, got 0"),
        (lambda: fifo_trace([0.0], [0.0]), "A service takes more than 0 s, got 0.0"),
        (lambda: random_queue(0, 1, 1), "The rate must be above 0, got 0"),
        (lambda: random_queue(1, -1, 1), "The service must be above 0, got -1"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
