"""Ring model and binary frames: what a live view needs of a run, in messages.

No ipywidgets here. `RingModel` takes a trace's records, keeps the newest steps, and encodes them
as messages: a dict (JSON) and bytes (widgets.wire). A view applies a snapshot, then deltas; each
names its first step and first event, so a view sees a gap and asks again: {"hello": last_step,
"event": next_event, "stream": id, "lane": n}. `next_step` follows the last step in the frame;
`more`: the ring holds steps after it, so ask again. Every step and every event fed reaches the
ring exactly once.

The dict of a message:
    {"lane": int, "kind": "snapshot"|"delta"|"heartbeat", "stream": int, "next_step": int,
     "more": bool, "requests": {idx: [id, letter, preview]}, "events": [[t, idx, event, data]],
     "first_event": int, "next_event": int, "origin": s|null, "now": s, "done": bool,
     "figures": {...}, "header": {...} (snapshots)}
Times: seconds since the trace's t0; `origin` is the first arrival.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import NamedTuple

from minillm.core.trace import (
    DECODE,
    PREFILL,
    Record,
    RequestEvent,
    Row,
    StepRecord,
    TraceHeader,
    letter,
)
from widgets.tally import RunningFigures
from widgets.wire import (
    DELTA,
    HEADER,
    HEARTBEAT,
    KINDS,
    MAGIC,
    RECOMPUTE,
    ROW,
    SAMPLED,
    SNAPSHOT,
    STEP,
    U16,
    VERSION,
    decode,
)

__all__ = ["DELTA", "HEARTBEAT", "RECOMPUTE", "SAMPLED", "SNAPSHOT", "RingModel", "decode"]

# A Jupyter server drops a kernel's messages above about 1 MB/s: a frame carries at most so many
# rows (256 kB) and says that there is more; the view then asks for the next part.
FRAME_ROWS = 16_000
ENDED = ("finish", "abort", "refuse")


class _Encoded(NamedTuple):
    """A step in the ring, ready to send."""

    record: StepRecord
    head: bytes
    rows: bytes


class RingModel:
    """The newest `max_steps` steps of a run and the events of the requests in them.

    `stream_id` names the run: a new one after `reset`, so that no view mixes two runs.
    """

    def __init__(self, max_steps: int = 4096, *, lane: int = 0) -> None:
        if max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {max_steps}.")
        self.max_steps, self.lane = max_steps, lane
        self.reset()

    def reset(self, header: TraceHeader | None = None) -> None:
        """Forget the run; the next one has `header`."""
        self.header = header
        self.stream_id = random.SystemRandom().getrandbits(32)
        self.done = False
        self.figures = RunningFigures()
        self.requests: dict[int, list[str]] = {}
        self._steps: deque[_Encoded] = deque()
        self._events: deque[tuple[int, RequestEvent]] = deque()
        self._next_step = 0
        self._next_event = 0
        self._fed_steps = 0
        self._recomputing: set[int] = set()
        self._ended: dict[int, float] = {}

    # ── what was fed ────────────────────────────────────────────────────────────────────────

    @property
    def next_step(self) -> int:
        """The number of the step that comes next."""
        return self._next_step

    @property
    def next_event(self) -> int:
        return self._next_event

    @property
    def first_step(self) -> int:
        """The oldest step that the ring still holds (next_step when it is empty)."""
        return self._next_step - len(self._steps)

    def records(self) -> Iterator[StepRecord]:
        """The steps in the ring, oldest first."""
        return (encoded.record for encoded in self._steps)

    def step(self, number: int) -> StepRecord | None:
        """Step `number`, None when the ring does not hold it."""
        position = number - self.first_step
        return self._steps[position].record if 0 <= position < len(self._steps) else None

    def events(self) -> list[RequestEvent]:
        """The events in the ring, oldest first."""
        return [event for _, event in self._events]

    def tokens(self, req: int, last: int) -> list[int]:
        """The tokens that a request sampled in the ring's steps up to number `last`."""
        numbered = zip(itertools.count(self.first_step), self.records(), strict=False)
        rows = (row for number, step in numbered if number <= last for row in step.rows)
        return [r.token_id for r in rows if r.req_idx == req and r.token_id is not None]

    def extend(self, records: Iterable[Record]) -> int:
        """Take the next records of the run, in order; returns how many.

        Steps are numbered on from the first one's number, so that a policy which plans an empty
        step leaves no gap. Raises ValueError for a step that starts before the one fed last.
        """
        count = 0
        for record in records:
            count += 1
            if isinstance(record, StepRecord):
                self._add_step(record)
            else:
                self._add_event(record)
        return count

    def _add_step(self, record: StepRecord) -> None:
        if self._fed_steps == 0:  # a stream that is resumed starts at any number
            self._next_step = record.step
        elif record.t_start < self._steps[-1].record.t_start:
            raise ValueError(
                f"Step {record.step} starts at {record.t_start:g} s, before the step that came "
                f"last ({self._steps[-1].record.t_start:g} s): steps must come in order."
            )
        head = STEP.pack(
            record.t_start,
            record.t_end,
            min(record.waiting, U16),
            min(record.running, U16),
            record.kv_used,
        )
        number = self._next_step
        rows = b"".join(self._encode_row(number, row) for row in record.rows)
        self._steps.append(_Encoded(record, head, rows))
        self._fed_steps += 1
        self._next_step += 1
        self.figures.add_step(record)
        if len(self._steps) > self.max_steps:
            self._dropped(self._steps.popleft().record)
            if self._fed_steps % 256 == 0:
                self._forget_ended()

    def _dropped(self, record: StepRecord) -> None:
        """The oldest step left the ring."""

    def _encode_row(self, step: int, row: Row) -> bytes:
        flags = SAMPLED if row.token_id is not None else 0
        if row.req_idx in self._recomputing:
            if row.kind == PREFILL:
                flags |= RECOMPUTE
            if row.kind == DECODE or row.token_id is not None:  # caught up
                self._recomputing.discard(row.req_idx)
        tokens, padding = min(row.n_tokens, U16), min(row.n_padding, U16)
        return ROW.pack(step, row.req_idx, tokens, padding, row.kind, flags, 0)

    def _add_event(self, event: RequestEvent) -> None:
        self._events.append((self._next_event, event))
        self._next_event += 1
        self.figures.add_event(event.t)
        if event.req not in self.requests or event.event == "arrive":
            preview = str(event.data.get("prompt_preview") or "")
            self.requests[event.req] = [event.id, letter(event.req), preview]
        if event.event == "arrive":
            self.figures.add_arrival(event.t)
        elif event.event == "preempt":
            self._recomputing.add(event.req)
        elif event.event in ENDED:
            self._ended[event.req] = event.t

    def _forget_ended(self) -> None:
        """Drop the requests that ended, dead rows included, before the oldest step."""
        oldest = self._steps[0].record.t_start
        shown = {row.req_idx for encoded in self._steps for row in encoded.record.rows}
        gone = {req for req, t in self._ended.items() if t < oldest and req not in shown}
        self._events = deque(pair for pair in self._events if pair[1].req not in gone)
        for req in gone:
            self.requests.pop(req, None)
            del self._ended[req]

    # ── messages ────────────────────────────────────────────────────────────────────────────

    def snapshot(self, first: int | None = None) -> tuple[dict, bytes]:
        """Header, all events, and the steps from number `first` on (None: from the oldest)."""
        start = self.first_step if first is None else first
        message, data = self._message(SNAPSHOT, start, self.events(), 0)
        message["requests"] = {str(req): entry for req, entry in self.requests.items()}
        message["header"] = asdict(self.header) if self.header else None
        return message, data

    def delta(self, since_step: int, since_event: int | None = None) -> tuple[dict, bytes]:
        """Steps after `since_step` (the last one that was sent, −1 for none) and new events.

        since_event: the number of events already sent; None sends none.
        A snapshot instead when the ring no longer holds what is missing.
        """
        first = since_step + 1
        if first < self.first_step or first > self._next_step:
            return self.snapshot()
        start = self._next_event if since_event is None else since_event
        events: deque[RequestEvent] = deque()
        for number, event in reversed(self._events):
            if number < start:
                break
            events.appendleft(event)
        if start > self._next_event or len(events) != self._next_event - start:
            return self.snapshot(first)  # events of requests long gone are missing
        return self._message(DELTA, first, list(events), start)

    def heartbeat(self) -> tuple[dict, bytes]:
        """Still here, and where the run is: no step, no event."""
        return self._message(HEARTBEAT, self._next_step, [], self._next_event)

    def _part(self, first: int) -> list[_Encoded]:
        """The steps from number `first` on, as many as one frame carries (at least one)."""
        part: list[_Encoded] = []
        n_rows = 0
        for encoded in itertools.islice(self._steps, first - self.first_step, None):
            n_rows += len(encoded.rows) // ROW.size
            if n_rows > FRAME_ROWS and part:
                break
            part.append(encoded)
        return part

    def _message(
        self, kind: int, first: int, events: list[RequestEvent], first_event: int
    ) -> tuple[dict, bytes]:
        steps = self._part(first)
        n_rows = sum(len(encoded.rows) for encoded in steps) // ROW.size
        end = first + len(steps)
        head = HEADER.pack(MAGIC, VERSION, kind, 0, self.stream_id, first, len(steps), n_rows)
        data = b"".join(
            [head, *(encoded.head for encoded in steps), *(encoded.rows for encoded in steps)]
        )
        named = {event.req for event in events if event.event == "arrive"}
        message = {
            "lane": self.lane,
            "kind": KINDS[kind],
            "stream": self.stream_id,
            "next_step": end,
            "more": end < self._next_step,
            "requests": {str(req): self.requests[req] for req in named if req in self.requests},
            "events": [[event.t, event.req, event.event, event.data] for event in events],
            "first_event": first_event,
            "next_event": self._next_event,
            "origin": self.figures.first_arrival,
            "now": self.figures.now,
            "done": self.done,
            "figures": self.figures.as_dict(),
        }
        return message, data
