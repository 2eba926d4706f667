"""A finished run at any of its times, against a fold of its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core import Trace
from minillm.core.trace import RequestEvent, StepRecord, TraceHeader
from minillm.recordings import load_recording
from widgets.replay import model as replay_model
from widgets.replay.model import ReplayModel, Situation
from widgets.replay.words import moment, sentence

HEADER = TraceHeader("measured", "CPU", "a model", "bf16", "continuous", 10, 16)
CONTINUOUS = ReplayModel(load_recording("a100-continuous").trace)


def small() -> Trace:
    """A comes at 5.0 s and is preempted once; B is refused; nothing runs before 5.1 s."""
    trace = Trace(HEADER)
    ask = {"prompt_len": 4, "max_tokens": 2, "prompt_preview": "why <b>?"}
    trace.add(RequestEvent(5.0, 0, "A", "arrive", ask))
    trace.add(RequestEvent(5.1, 0, "A", "admit", {"tokens_cached": 0}))
    trace.add(StepRecord(0, 5.1, 5.2, 0, 1, 64, [(0, 0, 4, 0, 0, 7)], 1, 0))
    trace.add(RequestEvent(5.2, 0, "A", "first_token"))
    trace.add(RequestEvent(5.15, 1, "B", "arrive", {"prompt_len": 999, "max_tokens": 2}))
    trace.add(RequestEvent(5.15, 1, "B", "refuse", {"reason": "too long"}))
    trace.add(RequestEvent(5.3, 0, "A", "preempt", {"tokens_lost": 5}))
    trace.add(StepRecord(1, 5.4, 5.5, 1, 1, 64, [(0, 0, 5, 0, 0, 8)], 1, 2))
    trace.add(RequestEvent(5.5, 0, "A", "finish", {"reason": "length"}))
    return trace


def states(model: ReplayModel, t: float | None) -> dict[str, str]:
    situation = Situation()
    situation.take(model.between(0, model.position(t)))
    return {asked.name: asked.state for asked in situation.requests.values()}


def test_times_count_from_the_first_request():
    model = ReplayModel(small())
    assert (model.origin, model.end) == (5.0, pytest.approx(0.5))
    assert model.starts == pytest.approx([0.1, 0.4])
    assert [model.step_at(t) for t in (0.05, 0.1, 0.3, 0.4, 9.0, None)] == [None, 0, 0, 1, 1, 1]


def test_what_a_request_does_from_its_arrival_to_its_end():
    model = ReplayModel(small())
    assert [states(model, t).get("A") for t in (0.0, 0.12, 0.2, 0.31, 0.5, None)] == [
        "queued", "reads its prompt", "generates", "preempted", "done (length)", "done (length)",
    ]  # fmt: skip
    assert states(model, 0.1).get("B") is None
    assert states(model, 0.16)["B"] == "too long"


def test_the_words_of_a_moment():
    model = ReplayModel(small())
    situation = Situation()
    situation.take(model.between(0, model.position(0.25)))
    said = sentence(model, situation, 0.25)
    assert said.replace("\u2009", " ") == (
        "At 250 ms, step 1 of 2: 1 row computed, 0 requests waiting; 1 output token so far, 4.00 a "
        "second; 1 of 10 KV blocks in use (10 %)."
    )
    words = moment(model, situation, 0.25)
    assert "why &lt;b&gt;?" in words.html
    assert "1 done, 0 still to come." in words.text
    assert "measured: CPU, a model bf16" in words.html
    nothing = Situation()
    nothing.take(model.between(0, model.position(0.05)))
    before = "At 50.0 ms, before the first step: 1 request in the queue."
    assert sentence(model, nothing, 0.05).replace("\u2009", " ") == before


def test_a_trace_without_steps_is_refused():
    with pytest.raises(ValueError, match="no step"):
        ReplayModel(Trace(HEADER))


def test_of_a_very_long_trace_the_beginning_is_shown_and_said(monkeypatch):
    monkeypatch.setattr(replay_model, "MOST_STEPS", 1)
    model = ReplayModel(small())
    assert (len(model.trace.steps), model.left_out) == (1, 1)
    assert [event.event for event in model.trace.events][-1] == "preempt"
    assert len(small().steps) == 2  # the caller's is as it was


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, CONTINUOUS.end), min_size=1, max_size=4))
def test_any_time_adds_up_to_what_the_trace_says_until_then(times):
    trace = CONTINUOUS.trace
    for t in times:
        situation = Situation()
        situation.take(CONTINUOUS.between(0, CONTINUOUS.position(t)))
        until = CONTINUOUS.origin + t + 1e-9
        done = [step for step in trace.steps if step.t_end <= until]
        assert situation.steps == len(done)
        rows = [row for step in done for row in step.rows]
        assert situation.output_tokens == sum(row.token_id is not None for row in rows)
        came = sum(e.event == "arrive" and e.t <= until for e in trace.events)
        gone = sum(e.event == "finish" and e.t <= until for e in trace.events)
        assert (len(situation.requests), situation.ended) == (came, gone)
