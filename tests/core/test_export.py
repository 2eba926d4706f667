"""A trace in other tools' formats: the Trace Event Format, by a schema and its rules, and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import defaultdict

import pytest
from jsonschema import Draft202012Validator

from minillm.core import Trace
from minillm.core.export import chrome_text, chrome_trace, csv_text
from minillm.recordings import recordings
from tests.core.test_trace import golden_run

NUMBER = {"type": "number", "minimum": 0}
ID = {"type": "integer", "minimum": 0}


def kind(phase: str, *needed: str, **properties: dict) -> dict:
    """What the format says of the events of one phase."""
    return {
        "if": {"properties": {"ph": {"const": phase}}},
        "then": {"required": list(needed), "properties": properties},
    }


# After Google's "Trace Event Format": which fields each phase has and what may stand there.
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ph", "pid", "name"],
                "properties": {
                    "ph": {"enum": ["M", "X", "i", "C"]}, "pid": ID, "tid": ID, "ts": NUMBER,
                    "name": {"type": "string", "minLength": 1}, "cat": {"type": "string"},
                    "args": {"type": "object"},
                },
                "allOf": [
                    kind("X", "ts", "dur", "tid", dur=NUMBER),
                    kind("i", "ts", "tid", s={"enum": ["g", "p", "t"]}),
                    kind("C", "ts", "args", args={
                        "minProperties": 1, "additionalProperties": {"type": "number"},
                    }),
                    kind("M", "args", name={"enum": [
                        "process_name", "process_labels", "process_sort_index", "thread_name",
                        "thread_sort_index",
                    ]}),
                ],
            },
        },
    },
}  # fmt: skip
VALID = Draft202012Validator(SCHEMA)
TRACES = [("golden", None), *((each.name, each) for each in recordings())]


@pytest.fixture(params=TRACES, ids=[name for name, _ in TRACES])
def trace(request) -> Trace:
    _, recording = request.param
    return recording.trace if recording else golden_run().trace


def events(trace: Trace, phase: str) -> list[dict]:
    return [e for e in chrome_trace(trace)["traceEvents"] if e["ph"] == phase]


def test_the_schema_itself_is_one_and_can_fail():
    Draft202012Validator.check_schema(SCHEMA)
    fine = {"ph": "X", "pid": 1, "tid": 1, "name": "a", "ts": 1.0, "dur": 1}
    VALID.validate({"traceEvents": [fine]})
    for wrong in ({"ts": "1"}, {"dur": -1}, {"ph": "Z"}, {"pid": None}, {"name": ""}):
        assert not VALID.is_valid({"traceEvents": [{**fine, **wrong}]})


def test_the_trace_event_json_keeps_to_the_format(trace):
    data = json.loads(chrome_text(trace), parse_constant=pytest.fail)
    VALID.validate(data)
    phases = [event["ph"] for event in data["traceEvents"]]
    assert "M" not in phases[phases.count("M") :]  # metadata first
    timed = data["traceEvents"][phases.count("M") :]
    assert [e["ts"] for e in timed] == sorted(e["ts"] for e in timed)
    tracks = {e["tid"]: e["args"]["name"] for e in events(trace, "M") if e["name"] == "thread_name"}
    assert {e["tid"] for e in timed} <= set(tracks)
    assert tracks[0] == "engine steps"
    assert all(math.isfinite(e["ts"]) for e in timed)


def test_spans_of_a_track_follow_one_another(trace):
    ends: dict[int, float] = defaultdict(float)
    for event in events(trace, "X"):
        assert event["ts"] >= ends[event["tid"]] - 1e-6  # µs: floating point alone
        ends[event["tid"]] = event["ts"] + event["dur"]


def test_each_row_step_and_event_is_there(trace):
    spans = events(trace, "X")
    assert len(spans) == len(trace.steps) + sum(len(step.rows) for step in trace.steps)
    assert sum(span["tid"] == 0 for span in spans) == len(trace.steps)
    marks = events(trace, "i")
    assert [(m["name"], m["args"]) for m in marks] == [
        (e.event, e.data) for e in sorted(trace.events, key=lambda e: round(e.t * 1e6, 3))
    ]
    first = next(span for span in spans if span["tid"])
    assert first["ts"] == pytest.approx(trace.steps[0].t_start * 1e6, abs=1e-3)
    used = [e["args"]["in use"] for e in events(trace, "C") if e["name"] == "KV blocks"]
    assert used == [step.kv_used for step in trace.steps]
    names = [e["args"]["name"] for e in events(trace, "M") if e["name"] == "thread_name"]
    assert names[1:] == list(trace.request_ids().values())


def test_csv_has_a_row_for_each_row_of_each_step(trace):
    rows = list(csv.DictReader(io.StringIO(csv_text(trace))))
    assert len(rows) == sum(len(step.rows) for step in trace.steps)
    assert rows[0]["request"] == trace.request_ids()[trace.steps[0].rows[0].req_idx]
    assert rows[0]["kind"] == "prefill"
    assert sum(int(row["tokens"]) for row in rows) == sum(
        row.n_tokens for step in trace.steps for row in step.rows
    )
