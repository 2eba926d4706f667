"""A trace in formats that other tools read: Chrome/Perfetto JSON and CSV."""

from __future__ import annotations

from collections.abc import Iterator

from minillm.core.trace import DEAD, DECODE, PREFILL, Trace

_NAMES = {PREFILL: "prefill", DECODE: "decode", DEAD: "padding"}


def chrome_trace(trace: Trace) -> dict:
    """The trace for chrome://tracing or ui.perfetto.dev: one track a request, times in µs.

    Format: "Trace Event Format", complete events ("X"), instants ("i") and counters ("C").
    """
    header = trace.header
    name = f"{header.policy} · {header.provenance} · {header.device} · {header.model}"
    events: list[dict] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": name}}]
    for index, request_id in trace.request_ids().items():
        args = {"name": request_id}
        events.append({"ph": "M", "pid": 1, "tid": index, "name": "thread_name", "args": args})
    for step in trace.steps:
        start, length = step.t_start * 1e6, (step.t_end - step.t_start) * 1e6
        for row in step.rows:
            args = {"step": step.step, "tokens": row.n_tokens, "padding": row.n_padding}
            events.append({
                "ph": "X", "pid": 1, "tid": row.req_idx, "name": _NAMES[row.kind],
                "ts": start, "dur": length, "args": args,
            })  # fmt: skip
        counters = {"waiting": step.waiting, "running": step.running, "kv blocks": step.kv_used}
        for counter, value in counters.items():
            args = {counter: value}
            events.append({"ph": "C", "pid": 1, "name": counter, "ts": start, "args": args})
    for event in trace.events:
        events.append({
            "ph": "i", "s": "t", "pid": 1, "tid": event.req, "name": event.event,
            "ts": event.t * 1e6, "args": event.data,
        })  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ms"}


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
