"""The record of a run: one StepRecord a step, one RequestEvent for what happens to a request.

Plain data. `Trace` is appended to by the engine alone; readers keep an index into `records` and
read at their own pace. This module makes and reads lines (JSONL, Chrome/Perfetto JSON, CSV);
files are the callers'. Times: seconds since t0, monotonic. The format is docs/contracts.md's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from minillm.core.batch import ScheduledRow

SCHEMA = 1
PREFILL, DECODE, DEAD = 0, 1, 2  # kind of a row
EVENTS = ("arrive", "admit", "first_token", "preempt", "finish", "abort", "refuse")


def letter(index: int) -> str:
    """What a request is called in pictures and sentences, from its index: A … Z, AA, AB …"""
    name = ""
    while index >= 0:
        name = chr(ord("A") + index % 26) + name
        index = index // 26 - 1
    return name


class Row(NamedTuple):
    """A sequence's part of a step. token_id: what it sampled, None if it did not sample."""

    req_idx: int
    kind: int
    n_tokens: int
    n_padding: int
    start: int
    token_id: int | None


def step_rows(rows: Iterable[ScheduledRow], tokens: Mapping[str, int]) -> list[tuple]:
    """A plan's rows as plain tuples of Row's fields, with the tokens that they sampled.

    One token after the prompt is a decode; all recompute is prefill. Raises RuntimeError when a
    row that samples got no token.
    """
    try:
        return [
            (
                request.index,
                DEAD if is_dead
                else DECODE if num_tokens == 1 and start >= request.num_prompt_tokens
                else PREFILL,
                num_tokens, num_padding, start,
                tokens[request.request_id] if samples else None,
            )
            for request, start, num_tokens, num_padding, samples, _, is_dead in rows
        ]  # fmt: skip
    except KeyError as missing:
        raise RuntimeError(f"The runner returned no token for {missing.args[0]}.") from None


class BlockOp(NamedTuple):
    """What happened to a KV block. op: a alloc, f free, s share, e evict, c cached.

    c follows the f of a block's last owner where a later prompt may still find its content; e takes
    that away, for req_idx or (−1) because the cache was reset.
    """

    op: str
    block: int
    req_idx: int


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """What the run was: where its figures come from, and under which settings."""

    provenance: str
    device: str
    model: str
    dtype: str
    policy: str
    num_blocks: int
    block_size: int
    config: dict = field(default_factory=dict)
    t0_unix: float | None = None
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.provenance not in ("measured", "simulated", "published"):
            raise ValueError(
                f"provenance must be measured, simulated or published, got {self.provenance!r}."
            )
        if self.schema != SCHEMA:
            raise ValueError(f"This trace has schema {self.schema}; schema {SCHEMA} can be read.")


class StepRecord(NamedTuple):
    """One step: when, what waited and ran, each row, the cache in blocks, the time's terms.

    raw_rows and raw_blocks are `rows` and `blocks` as plain tuples: of those the garbage collector
    need not keep track, which would be a third of the engine's own time in a long run.
    """

    step: int
    t_start: float
    t_end: float
    waiting: int
    running: int
    budget: int | None
    raw_rows: list[tuple]
    kv_used: int
    kv_cached: int
    raw_blocks: Sequence[tuple] = ()
    graph_pad_rows: int = 0
    terms: dict[str, float] | None = None

    @property
    def rows(self) -> list[Row]:
        """Each sequence's part of the step."""
        return [Row._make(row) for row in self.raw_rows]

    @property
    def blocks(self) -> list[BlockOp]:
        """What happened to KV blocks, in order."""
        return [BlockOp._make(op) for op in self.raw_blocks]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """Something that happened to a request at time t. `data`: the event's own fields."""

    t: float
    req: int
    id: str
    event: str
    data: dict = field(default_factory=dict)


Record = StepRecord | RequestEvent


class Trace:
    """A run's records in order, and views of them."""

    def __init__(self, header: TraceHeader) -> None:
        self.header = header
        self.records: list[Record] = []
        self.steps: list[StepRecord] = []
        self.events: list[RequestEvent] = []

    def add(self, record: Record) -> None:
        (self.steps if isinstance(record, StepRecord) else self.events).append(record)
        self.records.append(record)  # last: a reader that sees it also finds it in its view

    def request_ids(self) -> dict[int, str]:
        """Request index → id, in order of arrival."""
        return {event.req: event.id for event in self.events if event.event == "arrive"}

    # ── JSON lines ──────────────────────────────────────────────────────────────────────────

    def to_jsonl(self) -> Iterator[str]:
        """The trace as lines without newline, header first."""
        yield header_line(self.header)
        for record in self.records:
            yield record_line(record)

    @classmethod
    def from_jsonl(
        cls, lines: Iterable[str], check: Callable[[object], None] | None = None
    ) -> Trace:
        """Read what to_jsonl wrote. Raises ValueError naming the line that cannot be read.

        check: looks at each line's object first (minillm.core.trace_check: lines from anywhere).
        """
        trace: Trace | None = None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                data = json.loads(line, parse_constant=_no_number)
                if check is not None:
                    check(data)
                if trace is None:
                    trace = cls(_header(data))
                else:
                    trace.add(parse_record(data))
            except json.JSONDecodeError as error:
                why = f"it is not JSON ({error.msg}, character {error.colno})"
                raise ValueError(_unreadable(number, why)) from error
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise ValueError(_unreadable(number, error)) from error
        if trace is None:
            raise ValueError("The trace is empty: it has no header line.")
        return trace


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _unreadable(number: int, why: object) -> str:
    return f"Line {number} of the trace cannot be read: {str(why).rstrip('.')}."


def _dumps(data: dict) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def header_line(header: TraceHeader) -> str:
    """The header as one JSON line."""
    return _dumps({"type": "header", **asdict(header)})


def record_data(record: Record) -> dict:
    """A step or an event as plain data: the object that JSONL and /trace carry."""
    if isinstance(record, StepRecord):
        fields = {name.removeprefix("raw_"): value for name, value in record._asdict().items()}
        return {"type": "step", **fields}
    fixed = {"t": record.t, "req": record.req, "id": record.id, "event": record.event}
    return {"type": "event", **fixed, **record.data}


def record_line(record: Record) -> str:
    """A step or an event as one JSON line."""
    return _dumps(record_data(record))


def _header(data: dict) -> TraceHeader:
    if data.pop("type", None) != "header":
        raise ValueError("the first line is not a header")
    return TraceHeader(**data)


def parse_record(data: dict) -> Record:
    """The record of one JSON object; raises ValueError for another type."""
    data = dict(data)
    kind = data.pop("type", None)
    if kind == "step":
        data["raw_rows"] = [tuple(Row(*row)) for row in data.pop("rows")]
        data["raw_blocks"] = [tuple(BlockOp(*op)) for op in data.pop("blocks")]
        return StepRecord(**data)
    if kind == "event":
        head = [data.pop(key) for key in ("t", "req", "id", "event")]
        return RequestEvent(*head, data=data)
    raise ValueError(f"unknown record type {kind!r}")
