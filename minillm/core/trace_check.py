"""Whether lines are a trace: for files that anybody may bring. Names the line and what is wrong.

    trace = read_trace(lines)       # Trace.from_jsonl, with every value looked at first

What passes can be drawn and computed with: whole numbers where whole numbers belong, finite times
in order, blocks that the pool has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from minillm.core.trace import DEAD, EVENTS, PREFILL, Trace

OPS = "afsec"
MOST_INDEX = 2**31 - 1  # of a request: what a frame carries
MOST_BLOCKS = 2**20  # more cannot be drawn
STEP = {
    "type", "step", "t_start", "t_end", "waiting", "running", "budget", "rows", "kv_used",
    "kv_cached", "blocks", "graph_pad_rows", "terms",
}  # fmt: skip
HEADER = {
    "type", "schema", "provenance", "device", "model", "dtype", "policy", "config", "num_blocks",
    "block_size", "t0_unix",
}  # fmt: skip


def read_trace(lines: Iterable[str]) -> Trace:
    """The trace of these lines. Raises ValueError, in one sentence with the line's number."""
    trace = Trace.from_jsonl(lines, TraceCheck())
    if not trace.steps:
        raise ValueError("The trace has no step: there is nothing to show.")
    return trace


class TraceCheck:
    """Called with each line's object, in order; raises ValueError with what is wrong with it."""

    def __init__(self) -> None:
        self._num_blocks: int | None = None  # None: the header has not come yet
        self._last_start = -math.inf

    def __call__(self, data: object) -> None:
        if not isinstance(data, dict):
            raise ValueError("it is no JSON object")
        if self._num_blocks is None:
            self._header(data)
        elif data.get("type") == "step":
            self._step(data)
        elif data.get("type") == "event":
            _event(data)
        else:
            raise ValueError(f"unknown record type {data.get('type')!r}")

    def _header(self, data: dict) -> None:
        if data.get("type") != "header":
            raise ValueError('the first line is not a header ({"type":"header", …})')
        _only(data, HEADER, HEADER - {"schema", "config", "t0_unix"}, "a header")
        for name in ("provenance", "device", "model", "dtype", "policy"):
            _text(data, name)
        if not isinstance(data.get("config", {}), dict):
            raise ValueError(f"config must be an object, got {data['config']!r}")
        slots = data.get("config", {}).get("max_num_seqs")
        if slots is not None:
            _whole("config's max_num_seqs", slots, 1)
        _whole("num_blocks", data["num_blocks"], 1, MOST_BLOCKS)
        _whole("block_size", data["block_size"], 1)
        if data.get("t0_unix") is not None:
            _number("t0_unix", data["t0_unix"])
        self._num_blocks = data["num_blocks"]

    def _step(self, data: dict) -> None:
        _only(data, STEP, STEP, "a step")
        for name in ("step", "waiting", "running", "kv_used", "kv_cached", "graph_pad_rows"):
            _whole(name, data[name])
        if data["budget"] is not None:
            _whole("budget", data["budget"])
        start, end = _number("t_start", data["t_start"]), _number("t_end", data["t_end"])
        if end < start:
            raise ValueError(f"the step ends at {end:g} s, before it starts at {start:g} s")
        if start < self._last_start:
            raise ValueError(
                f"the step starts at {start:g} s, before the one above it ({self._last_start:g} s)"
            )
        self._last_start = start
        for row in _list(data, "rows"):
            _row(row)
        for op in _list(data, "blocks"):
            self._block(op)
        if data["terms"] is not None and not isinstance(data["terms"], dict):
            raise ValueError(f"terms must be an object or null, got {data['terms']!r}")

    def _block(self, op: object) -> None:
        if not (isinstance(op, list) and len(op) == 3 and op[0] in tuple(OPS)):
            raise ValueError(f"a block operation is [one of {OPS}, block, request], got {op!r}")
        _whole("a block", op[1], 0, self._num_blocks - 1)
        _whole("a block operation's request", op[2], -1, MOST_INDEX)


def _row(row: object) -> None:
    if not (isinstance(row, list) and len(row) == 6):
        raise ValueError(f"a row is [request, kind, tokens, padding, start, token], got {row!r}")
    request, kind, *sizes, token = row
    _whole("a row's request", request, 0, MOST_INDEX)
    _whole("a row's kind", kind, PREFILL, DEAD)
    for name, value in zip(("tokens", "padding", "start"), sizes, strict=True):
        _whole(f"a row's {name}", value, 0, MOST_INDEX)
    if token is not None:
        _whole("a row's token", token, -1, MOST_INDEX)


def _event(data: dict) -> None:
    for name in ("t", "req", "id", "event"):
        if name not in data:
            raise ValueError(f"an event needs {name!r}")
    _number("t", data["t"])
    _whole("req", data["req"], 0, MOST_INDEX)
    _text(data, "id")
    if data["event"] not in EVENTS:
        raise ValueError(f"event must be one of {', '.join(EVENTS)}, got {data['event']!r}")
    for name in ("prompt_len", "max_tokens", "tokens_lost", "tokens_cached"):
        if data.get(name) is not None:
            _whole(name, data[name])
    for name in ("prompt_preview", "nickname", "reason", "error"):
        if data.get(name) is not None:
            _text(data, name)


def _only(data: dict, known: set[str], needed: set[str], what: str) -> None:
    for name in sorted(needed - set(data)):
        raise ValueError(f"{what} needs {name!r}")
    for name in sorted(set(data) - known):
        raise ValueError(f"{what} has no field {name!r}")


def _text(data: dict, name: str) -> None:
    if not isinstance(data[name], str):
        raise ValueError(f"{name} must be a text, got {data[name]!r}")


def _list(data: dict, name: str) -> list:
    if not isinstance(data[name], list):
        raise ValueError(f"{name} must be a list, got {data[name]!r}")
    return data[name]


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number of seconds, got {value!r}")
    return value


def _whole(name: str, value: object, least: int = 0, most: int = 2**53) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limits = f"from {least} to {most:,}" if most < 2**53 else f"of at least {least}"
        raise ValueError(f"{name} must be a whole number {limits}, got {value!r}")
