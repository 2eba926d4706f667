"""A trace in formats that other tools read: Chrome/Perfetto JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from minillm.core.trace import DEAD, DECODE, PREFILL, RequestEvent, StepRecord, Trace

_NAMES = {PREFILL: "prefill", DECODE: "decode", DEAD: "padding"}
_ENGINE = 0  # the track of the engine's own steps; a request's is its index + 1


def chrome_trace(trace: Trace) -> dict:
    """The trace for chrome://tracing or ui.perfetto.dev: one track a request, times in µs.

    Format: "Trace Event Format" (Google, 2016): metadata ("M"), then in order of time complete
    events ("X"), instants ("i") and counters ("C"). The first track is the engine's steps.
    """
    timed = [event for step in trace.steps for event in _step_events(step)]
    timed += [_mark(event) for event in trace.events]
    timed.sort(key=lambda event: event["ts"])
    return {
        "traceEvents": [*_metadata(trace), *timed],
        "displayTimeUnit": "ms",
        "otherData": asdict(trace.header),
    }


def chrome_text(trace: Trace) -> str:
    """chrome_trace as JSON text."""
    return json.dumps(chrome_trace(trace), ensure_ascii=False, separators=(",", ":"))


def csv_rows(trace: Trace) -> Iterator[list]:
    """One row a (step, request), a heading first; what `csv.writer` takes."""
    yield ["step", "t_start", "t_end", "request", "kind", "tokens", "padding", "start", "token_id"]
    ids = trace.request_ids()
    for step in trace.steps:
        for row in step.rows:
            yield [
                step.step, step.t_start, step.t_end, ids.get(row.req_idx, row.req_idx),
                _NAMES[row.kind], row.n_tokens, row.n_padding, row.start, row.token_id,
            ]  # fmt: skip


def csv_text(trace: Trace) -> str:
    """csv_rows as the text of a file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(csv_rows(trace))
    return out.getvalue()


# ── trace events ────────────────────────────────────────────────────────────────────────────


def _metadata(trace: Trace) -> Iterator[dict]:
    """What the process and its tracks are called, and the order of the tracks."""
    header = trace.header
    name = f"{header.policy} · {header.provenance} · {header.device} · {header.model}"
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": name}}
    seen = {row.req_idx for step in trace.steps for row in step.rows}
    seen |= {event.req for event in trace.events}
    ids = {index: str(index) for index in sorted(seen)} | trace.request_ids()
    tracks = {_ENGINE: "engine steps"} | {index + 1: ids[index] for index in sorted(ids)}
    for tid, title in tracks.items():
        for what, args in (("name", {"name": title}), ("sort_index", {"sort_index": tid})):
            yield {"ph": "M", "pid": 1, "tid": tid, "name": f"thread_{what}", "args": args}


def _step_events(step: StepRecord) -> Iterator[dict]:
    """The step on the engine's track, its rows on those of their requests, and the counters."""
    start = _microseconds(step.t_start)
    span = {"ph": "X", "pid": 1, "ts": start, "dur": round(_microseconds(step.t_end) - start, 3)}
    args = {"step": step.step, "rows": len(step.raw_rows), "budget": step.budget}
    terms = {f"{name} ms": 1e3 * seconds for name, seconds in (step.terms or {}).items()}
    yield {**span, "tid": _ENGINE, "name": "step", "cat": "engine", "args": {**args, **terms}}
    for row in step.rows:
        args = {"step": step.step, "tokens": row.n_tokens, "padding": row.n_padding}
        yield {**span, "tid": row.req_idx + 1, "name": _NAMES[row.kind], "cat": "row", "args": args}
    counters = {
        "requests": {"running": step.running, "waiting": step.waiting},
        "KV blocks": {"in use": step.kv_used, "cached": step.kv_cached},
    }
    for counter, args in counters.items():
        yield {"ph": "C", "pid": 1, "tid": _ENGINE, "name": counter, "ts": start, "args": args}


def _mark(event: RequestEvent) -> dict:
    """What happened to a request, as an instant of its track."""
    return {
        "ph": "i", "s": "t", "pid": 1, "tid": event.req + 1, "name": event.event,
        "cat": "request", "ts": _microseconds(event.t), "args": event.data,
    }  # fmt: skip


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)  # whole nanoseconds: what one event ends, the next begins
