"""Frames and the ring: the golden bytes, nothing lost under any loss of messages, bounds."""

from __future__ import annotations

import json
import random
import struct

import pytest

from minillm.core import summarize
from minillm.core.trace import RequestEvent, Row, StepRecord
from tests.widgets.golden import FOLDER, golden, records, ring
from tests.widgets.runs import run
from widgets import frames
from widgets.frames import DELTA, RECOMPUTE, SAMPLED, SNAPSHOT, RingModel, decode


def step(number: int, *rows: Row, seconds: float = 0.01) -> StepRecord:
    start = number * seconds
    return StepRecord(number, start, start + seconds, 0, len(rows), None, list(rows), 0, 0)


def test_golden_frame_is_what_python_writes():
    text, data = golden()
    assert data == (FOLDER / "frame.bin").read_bytes()
    assert json.loads(json.dumps(text)) == json.loads((FOLDER / "frame.json").read_text("utf-8"))


def test_layout_is_the_contracts():
    data = (FOLDER / "frame.bin").read_bytes()
    assert struct.unpack_from("<4sBBHIIII", data) == (b"MLF1", 1, 0, 0, 0xC0FFEE01, 0, 6, 10)
    assert len(data) == 24 + 6 * 24 + 10 * 16
    assert struct.unpack_from("<ddHHI", data, 24) == (1.0, 1.125, 2, 2, 4)
    second_row = 24 + 6 * 24 + 16
    assert struct.unpack_from("<IIHHBBH", data, second_row) == (0, 1, 20, 10, 0, SAMPLED, 0)


def test_flags_tell_sampled_tokens_and_recomputed_work():
    rows = {(row[0], row[1]): row for row in decode(golden()[1]).rows}
    assert rows[1, 1][5] == SAMPLED  # token id 0 is a token
    assert rows[3, 1][5] == RECOMPUTE
    assert rows[4, 1][5] == RECOMPUTE | SAMPLED
    assert rows[5, 1][5] == SAMPLED
    assert rows[3, 0][5] == 0  # a dead row


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:10], "at least 24 bytes, got 10"),
        (lambda data: b"MLF2" + data[4:], "Not a frame of version 1"),
        (lambda data: data[:4] + b"\x02" + data[5:], "Not a frame of version 1"),
        (lambda data: data[:-1], "has 328 bytes, got 327"),
        (lambda data: data + b"\0", "has 328 bytes, got 329"),
    ],
)
def test_damaged_frames_are_refused(damage, says):
    with pytest.raises(ValueError, match=says):
        decode(damage(golden()[1]))


class View:
    """What a view does with messages, in a few lines: keep steps and events, notice gaps."""

    def __init__(self) -> None:
        self.stream = None
        self.next_step = self.next_event = 0
        self.steps: list[tuple] = []
        self.rows: list[tuple] = []
        self.events: list[list] = []

    def apply(self, message: dict, data: bytes) -> bool:
        """Whether all is well; False: it has to say hello."""
        frame = decode(data)
        missed = frame.first_step > self.next_step or message["first_event"] > self.next_event
        if frame.stream_id != self.stream or missed:
            if frame.kind != SNAPSHOT:
                return False
            self.__init__()
            self.stream, self.next_step = frame.stream_id, frame.first_step
        new = self.next_step - frame.first_step
        self.rows += [row for row in frame.rows if row[0] >= self.next_step]
        self.steps += frame.steps[new:]
        self.next_step = max(self.next_step, frame.first_step + len(frame.steps))
        if frame.kind == SNAPSHOT:
            self.events = list(message["events"])
        else:
            self.events += message["events"][self.next_event - message["first_event"] :]
        self.next_event = max(self.next_event, message["next_event"])
        return self.next_step >= message["next_step"]


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_lost_whatever_is(seed):
    """Random feeds, deltas, lost messages, duplicates and hellos: each step arrives once."""
    chance = random.Random(seed)
    trace = run(
        chance.choice(["static", "continuous", "dynamic"]), num_blocks=chance.choice([44, 99])
    )
    model, view, sent = RingModel(), View(), (-1, 0)
    model.reset(trace.header)
    left = list(trace.records)
    while left or view.next_step < model.next_step or view.next_event < model.next_event:
        count = chance.randrange(12)
        model.extend(left[:count])
        del left[:count]
        message, data = model.delta(*sent)
        sent = (model.next_step - 1, model.next_event)
        lost = chance.random() < 0.3
        if not lost and not view.apply(message, data):
            assert view.apply(*model.snapshot())
        if chance.random() < 0.1:
            view.apply(message, data)  # the same again
        if not left and not view.apply(*model.heartbeat()):
            view.apply(*model.snapshot())
    assert [s[:2] for s in view.steps] == [(s.t_start, s.t_end) for s in trace.steps]
    expected = [
        (s.step, r.req_idx, r.n_tokens, r.n_padding, r.kind) for s in trace.steps for r in s.rows
    ]
    assert [row[:5] for row in view.rows] == expected
    assert [e[:3] for e in view.events] == [[e.t, e.req, e.event] for e in trace.events]


def test_ring_keeps_the_newest_steps_and_a_late_view_gets_a_snapshot():
    model = RingModel(8)
    model.extend(step(i, Row(0, 1, 1, 0, i, 5)) for i in range(20))
    assert (model.first_step, model.next_step) == (12, 20)
    assert model.step(11) is None
    assert model.step(12).step == 12
    late = decode(model.delta(5, 0)[1])
    assert (late.kind, late.first_step, len(late.steps)) == (SNAPSHOT, 12, 8)
    new = decode(model.delta(17, 0)[1])
    assert (new.kind, new.first_step, [row[0] for row in new.rows]) == (DELTA, 18, [18, 19])
    assert decode(model.delta(25, 0)[1]).kind == SNAPSHOT  # a number of another run
    assert decode(model.heartbeat()[1]).first_step == 20


def test_frames_are_bounded_and_a_view_asks_for_the_next_part(monkeypatch):
    monkeypatch.setattr(frames, "FRAME_ROWS", 50)
    model, view = RingModel(), View()
    model.extend(step(i, *(Row(r, 1, 1, 0, i, 5) for r in range(8))) for i in range(30))
    message, data = model.snapshot()
    parts = 1
    while True:
        assert view.apply(message, data)
        assert len(decode(data).rows) <= 50
        if not message["more"]:
            break
        message, data = model.delta(view.next_step - 1, view.next_event)
        parts += 1
    assert parts == 5
    assert len(view.rows) == 240
    monkeypatch.setattr(frames, "FRAME_ROWS", 5)  # less than a step has: one step a frame
    assert len(decode(model.snapshot()[1]).steps) == 1


def test_a_view_that_missed_events_long_gone_still_gets_on():
    model = RingModel(300)
    for i in range(1000):
        model.extend(
            [
                RequestEvent(i * 0.01, i, f"r{i}", "arrive", {"prompt_len": 1}),
                step(i, Row(i, 1, 1, 0, 1, 5)),
                RequestEvent((i + 1) * 0.01, i, f"r{i}", "finish", {"reason": "stop"}),
            ]
        )
    message, data = model.delta(900, 0)
    frame = decode(data)
    assert (frame.kind, frame.first_step, len(frame.steps)) == (SNAPSHOT, 901, 99)
    assert message["next_event"] == model.next_event


def test_steps_out_of_order_are_refused():
    model = RingModel()
    model.extend([step(5)])
    with pytest.raises(ValueError, match=r"Step 4 starts at 0\.04 s, before .* \(0\.05 s\)"):
        model.extend([step(4)])


def test_steps_are_numbered_on_across_an_empty_plan():
    model = RingModel()
    model.extend([step(3), step(5), step(6, Row(0, 1, 1, 0, 9, 1))])
    frame = decode(model.snapshot()[1])
    assert (frame.first_step, len(frame.steps), frame.rows[0][0]) == (3, 3, 5)


def test_long_runs_forget_requests_that_ended():
    model = RingModel(64)
    for i in range(2000):
        model.extend([
            RequestEvent(i * 0.01, i, f"r{i}", "arrive", {"prompt_len": 1}),
            step(i, Row(i, 1, 1, 0, 1, 5)),
            RequestEvent((i + 1) * 0.01, i, f"r{i}", "finish", {"reason": "stop"}),
        ])  # fmt: skip
    assert len(model.requests) <= 64 + 256 + 1
    assert len(model.events()) <= 2 * (64 + 256 + 1)
    assert 1999 in model.requests
    assert model.figures.as_dict()["output_tokens"] == 2000


def test_numbers_too_large_for_a_field_stay_at_its_limit():
    model = RingModel()
    model.extend([step(0, Row(0, 0, 100_000, 70_000, 0, 1))])
    assert decode(model.snapshot()[1]).rows[0][2:4] == (65_535, 65_535)


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_running_figures_are_the_metrics(policy):
    trace = run(policy, num_blocks=44)
    model = RingModel()
    model.extend(trace.records)
    figures, summary = model.figures.as_dict(), summarize(trace)
    assert figures["tok_s"] == pytest.approx(summary.output_tok_s)
    assert figures["elapsed_s"] == pytest.approx(summary.makespan_s)
    assert figures["row_padding_fraction"] == summary.row_padding_fraction
    assert (figures["output_tokens"], figures["steps"]) == (summary.output_tokens, summary.steps)
    useful = sum(row.kind != 2 for s in trace.steps for row in s.rows) / len(trace.steps)
    assert figures["useful_rows"] == pytest.approx(useful)


def test_messages_are_json_and_name_each_request_once():
    model = ring()
    message, _ = model.snapshot()
    assert json.loads(json.dumps(message))["requests"]["1"] == ["req-1", "B", ""]
    assert message["origin"] == 0.5
    assert message["now"] == 2.125
    assert message["header"]["policy"] == "static"
    assert len(message["events"]) == sum(isinstance(r, RequestEvent) for r in records())
    delta, _ = model.delta(3, model.next_event)
    assert delta["requests"] == {}
    assert delta["events"] == []


def test_empty_ring_has_an_empty_snapshot():
    message, data = RingModel().snapshot()
    assert decode(data).steps == []
    assert message["figures"]["tok_s"] is None
    with pytest.raises(ValueError, match="at least 1, got 0"):
        RingModel(0)
