"""/trace: the running engine's trace as server-sent events, for any number of watchers.

    event: header | snapshot | step | request | ping
    id: <stream_id>:<last step>
    data: one object of the trace (docs/contracts.md)

The engine thread adds records to one ring of 4,096 steps; each watcher keeps a place in it and
reads at its own pace. Last-Event-ID resumes after that step (events between two steps may come
again); a place that has left the ring, or is more than 1,000 events behind, gets a snapshot.
Who may not see a request's text finds its prompt blank and each token id −1.
"""

from __future__ import annotations

import asyncio
import bisect
import random
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict

from minillm.core.trace import Record, StepRecord, TraceHeader, record_data
from minillm.serve.errors import dump
from minillm.serve.spoken import Shows, Spoken, nothing
from minillm.serve.trace_state import TraceState

RING_STEPS = 4096
RING_RECORDS = 4 * RING_STEPS  # for a flood of requests that never run
SLACK = 256
MAX_BEHIND = 1000
PING_S = 2.0
GATHER_S = 0.04  # between two writes to one watcher: thirty of them at each step would cost it
EVENT_ID = re.compile(r"([0-9]{1,10}):(-1|[0-9]{1,15})")


class TraceRing:
    """See the module's docstring. header: what a stream begins with; now: seconds, for pings.

    private: keep what was said, for watchers who may see some of it; otherwise nobody does.
    """

    def __init__(
        self,
        header: Callable[[], TraceHeader],
        now: Callable[[], float],
        private: bool = False,
    ) -> None:
        self.stream_id = random.getrandbits(32)
        self.private = private
        self.paused = False
        self._header, self._now = header, now
        self._lock = threading.Lock()  # between the engine thread and the watchers
        self._state = TraceState()
        self._frames: list[bytes | Spoken] = []
        self._steps: list[int] = []  # of each frame, the last step then
        self._base = 0  # place of the first frame in the ring
        self._changed = asyncio.Event()
        self._closed = False
        self.num_watchers = 0

    # ── the engine thread ───────────────────────────────────────────────────────────────────

    def add(self, records: Iterable[Record]) -> None:
        """Take in what happened since the last call."""
        with self._lock:
            for record in records:
                owner = self._state.owner(record) if self.private else None
                self._state.take(record)
                event = "step" if isinstance(record, StepRecord) else "request"
                spoken = Spoken(self._head(event), record_data(record), owner)
                self._push(spoken if owner and spoken.has_text else spoken.seen(nothing))
            self._trim()

    def announce(self, *, paused: bool | None = None) -> None:
        """Tell every watcher the header anew, and whether the engine is paused. Any thread."""
        with self._lock:
            if paused is None:
                self._push(self._header_frame())
            else:
                self.paused = paused
                self._push(self._ping())

    def _push(self, frame: bytes | Spoken) -> None:
        self._frames.append(frame)
        self._steps.append(self._state.step)

    def _trim(self) -> None:
        """Drop what is older than the ring, a good deal at a time."""
        oldest = self._state.step - RING_STEPS
        if len(self._frames) < RING_RECORDS and self._steps[:1] >= [oldest - SLACK]:
            return
        drop = bisect.bisect_left(self._steps, oldest)
        drop = max(drop, len(self._frames) - RING_RECORDS + SLACK, 0)
        del self._frames[:drop], self._steps[:drop]
        self._base += drop

    # ── the event loop ──────────────────────────────────────────────────────────────────────

    def notify(self) -> None:
        """Wake the watchers: there is something new."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self.notify()

    async def watch(
        self, last_event_id: str | None = None, shows: Shows = nothing
    ) -> AsyncIterator[bytes]:
        """One watcher's frames, for as long as it reads. shows: whose text it may see."""
        self.num_watchers += 1
        try:
            first, place = self._begin(last_event_id, shows)
            yield first
            while not self._closed:
                changed = self._changed
                frames, place = self._read(place, shows)
                if frames:
                    yield frames
                    await asyncio.sleep(GATHER_S)
                    continue
                try:
                    async with asyncio.timeout(PING_S):
                        await changed.wait()
                except TimeoutError:
                    yield self._ping()
        finally:
            self.num_watchers -= 1

    def _begin(self, last_event_id: str | None, shows: Shows) -> tuple[bytes, int]:
        """The header, then all since that id, or a snapshot; and the place after it."""
        with self._lock:
            place = self._place_after(last_event_id)
            end = self._base + len(self._frames)
            if place is None:
                rest = [self._snapshot(shows)]
            else:
                rest = self._frames[place - self._base :]
        return self._header_frame() + _join(rest, shows), end

    def _read(self, place: int, shows: Shows) -> tuple[bytes, int]:
        with self._lock:
            end = self._base + len(self._frames)
            if place < self._base or end - place > MAX_BEHIND:
                return self._snapshot(shows), end
            frames = self._frames[place - self._base :]
        return _join(frames, shows), end

    def _place_after(self, last_event_id: str | None) -> int | None:
        """Where to go on after that id; None if the ring does not hold it."""
        parts = EVENT_ID.fullmatch(last_event_id or "")
        if parts is None or int(parts[1]) != self.stream_id:
            return None
        step = int(parts[2])
        if step == -1 and self._base == 0:
            return 0
        at = bisect.bisect_left(self._steps, step)  # the first frame with it is that step's
        held = at < len(self._steps) and self._steps[at] == step
        if not held or (at == 0 and self._base > 0):
            return None
        return self._base + at + 1

    def _snapshot(self, shows: Shows) -> bytes:
        return self._head("snapshot") + dump(self._state.snapshot(shows)) + b"\n\n"

    def _header_frame(self) -> bytes:
        data = {"type": "header", **asdict(self._header())}
        return self._head("header") + dump(data) + b"\n\n"

    def _ping(self) -> bytes:
        state = {"paused": True} if self.paused else {}
        return self._head("ping") + dump({"type": "ping", "t": self._now(), **state}) + b"\n\n"

    def _head(self, event: str) -> bytes:
        return f"event: {event}\nid: {self.stream_id}:{self._state.step}\ndata: ".encode()


def _join(frames: Iterable[bytes | Spoken], shows: Shows) -> bytes:
    return b"".join(frame if isinstance(frame, bytes) else frame.seen(shows) for frame in frames)
