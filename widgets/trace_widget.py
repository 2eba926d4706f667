"""What the figures fed by a run's trace share: lanes, what was sent of them, who says hello.

    view.reset(0, trace.header)   # optional: feeding another Trace does it
    view.feed(0, trace)           # any thread, any number of times: takes what is new
    view.publish()                # ONE publisher, 10–20 times a second: sends what is new
    view.finish(0)                # this lane's run is over
    view.conclude()               # headline from the traces fed

Nothing here starts a thread. All calls may come from any thread: a lock guards them. Every view
gets the same messages (widgets.frames); one that missed some says hello and gets a snapshot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import traitlets

from minillm.core.trace import Record, StepRecord, Trace, TraceHeader
from widgets.canvas_widget import CanvasWidget
from widgets.cursor import Cursor
from widgets.frames import RingModel
from widgets.headline import policy_subtitle, policy_title


@dataclass
class Lane:
    """A lane's ring, where its trace was read up to, and what was sent of it."""

    ring: RingModel
    trace: Trace | None = None
    read: int = 0  # records of `trace` already fed
    sent_step: int = -1
    sent_event: int = 0
    fresh: bool = True  # the next message is a snapshot


class TraceWidget(CanvasWidget):
    """lanes: how many runs it shows. titles, subtitles: one a lane; "" is named by its policy."""

    lanes = traitlets.Int(1).tag(sync=True)
    titles = traitlets.List(traitlets.Unicode()).tag(sync=True)
    subtitles = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        lanes: int,
        titles: Iterable[str] | None,
        *,
        most_lanes: int,
        subtitles: Iterable[str] | None = None,
        max_steps: int = 4096,
        make_ring: Callable[..., RingModel] = RingModel,
        cursor: Cursor | None = None,
        **traits: object,
    ) -> None:
        if lanes not in range(1, most_lanes + 1):
            limits = " or ".join(str(i + 1) for i in range(most_lanes))
            raise ValueError(f"A {self._what} shows {limits} runs, got lanes={lanes}.")
        named = list(titles or [])
        if len(named) > lanes:
            raise ValueError(f"{len(named)} titles were given for {lanes} lane(s).")
        blank = [""] * lanes
        super().__init__(
            cursor=cursor, lanes=lanes, titles=[*named, *blank][:lanes],
            subtitles=[*(subtitles or ()), *blank][:lanes], **traits,
        )  # fmt: skip
        self._guard = threading.RLock()
        self._lanes = [Lane(make_ring(max_steps, lane=lane)) for lane in range(lanes)]
        self.on_msg(self._on_message)

    _what = "figure"

    # ── the run ─────────────────────────────────────────────────────────────────────────────

    def reset(
        self,
        lane: int = 0,
        header: TraceHeader | None = None,
        title: str | None = None,
        subtitle: str | None = None,
    ) -> None:
        """Empty a lane for a new run. title, subtitle: None keeps what stands there."""
        state = self._lane(lane)
        with self._guard:
            state.ring.reset(header)
            state.trace, state.read = None, 0
            state.sent_step, state.sent_event, state.fresh = -1, 0, True
        if title is not None:
            self.titles = _replaced(self.titles, lane, title)
        if subtitle is not None:
            self.subtitles = _replaced(self.subtitles, lane, subtitle)
        self.set_headline("")
        self.stale_message = self.frozen = ""

    def amend(self, lane: int, header: TraceHeader, title: str, subtitle: str) -> None:
        """The run goes on under other settings: the policy was swapped, a limit changed."""
        with self._guard:
            state = self._lane(lane)
            state.ring.header, state.fresh = header, True
        self.titles = _replaced(self.titles, lane, title)
        self.subtitles = _replaced(self.subtitles, lane, subtitle)

    def feed(self, lane: int, source: Trace | Iterable[Record]) -> int:
        """Take a run's new records; returns how many. They are shown at the next publish().

        A Trace may be fed again and again: only what was added since is read; another Trace than
        before starts the lane anew. Other iterables are taken whole, each record once, and what
        the ring has dropped of them is gone.
        """
        state = self._lane(lane)
        with self._guard:
            if not isinstance(source, Trace):
                return state.ring.extend(source)
            if state.trace is not source:
                if state.trace is not None or state.ring.header is not source.header:
                    self.reset(lane, source.header)
                state.trace, state.read = source, 0
                self._name(lane, source.header)
            new = source.records[state.read :]
            state.read += len(new)
            return state.ring.extend(new)

    def _name(self, lane: int, header: TraceHeader) -> None:
        """Title and subtitle from the run's policy, where none was given."""
        if not self.titles[lane]:
            self.titles = _replaced(self.titles, lane, policy_title(header.policy))
        if not self.subtitles[lane]:
            self.subtitles = _replaced(self.subtitles, lane, policy_subtitle(header))

    def finish(self, lane: int = 0) -> None:
        """The lane's run is over: views show it whole instead of following it."""
        with self._guard:
            self._lane(lane).ring.done = True
        self.publish(heartbeat=True)

    def publish(self, *, heartbeat: bool = False) -> int:
        """Send each lane's new steps and events to the views; returns the bytes sent."""
        return sum(self._publish(state, heartbeat) for state in self._lanes)

    def _publish(self, state: Lane, heartbeat: bool) -> int:
        with self._guard:
            ring = state.ring
            if state.fresh:
                message, data = ring.snapshot()
            elif ring.next_step - 1 > state.sent_step or ring.next_event > state.sent_event:
                message, data = ring.delta(state.sent_step, state.sent_event)
            elif heartbeat:
                message, data = ring.heartbeat()
            else:
                return 0
            state.sent_step, state.sent_event = message["next_step"] - 1, ring.next_event
            state.fresh = False
            self.send(message, [data])  # inside the lock: messages leave in order
        return len(data)

    def conclude(self) -> object:
        """All lanes are over: say what they came to."""
        raise NotImplementedError

    def traces(self) -> list[Trace]:
        """Each lane's run so far. Raises ValueError when a lane was fed nothing."""
        with self._guard:
            return [self._trace(lane, state) for lane, state in enumerate(self._lanes)]

    def _trace(self, lane: int, state: Lane) -> Trace:
        if state.trace is not None:
            return state.trace
        ring = state.ring
        if ring.header is None or not (ring.next_step or ring.next_event):
            raise ValueError(f"Lane {lane} has no run yet: feed it a trace first.")
        trace = Trace(ring.header)
        for record in sorted([*ring.records(), *ring.events()], key=_when):
            trace.add(record)
        return trace

    # ── messages from a view ────────────────────────────────────────────────────────────────

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict):
            return
        lane = content.get("lane", 0)
        if lane not in range(self.lanes):
            return
        if "hello" in content:
            self._welcome(self._lanes[lane], content)
        else:
            self._asked(content)

    def _welcome(self, state: Lane, hello: dict) -> None:
        """Send a view what comes after its last step; what all views were sent stays as it is."""
        last, event = hello["hello"], hello.get("event")
        with self._guard:
            ring = state.ring
            known = isinstance(last, int) and isinstance(event, int)
            known = known and hello.get("stream") == ring.stream_id
            message, data = ring.delta(last, event) if known else ring.snapshot()
            if state.fresh:
                state.sent_step, state.sent_event = message["next_step"] - 1, ring.next_event
                state.fresh = False
            self.send(message, [data])

    def _asked(self, content: dict) -> None:
        """Another message of a view; what is odd is ignored."""

    def _lane(self, lane: int) -> Lane:
        if lane not in range(self.lanes):
            raise ValueError(f"This {self._what} has lanes 0 to {self.lanes - 1}, got {lane}.")
        return self._lanes[lane]


def _when(record: Record) -> float:
    return record.t_end if isinstance(record, StepRecord) else record.t


def _replaced(names: list[str], lane: int, name: str) -> list[str]:
    return [name if i == lane else old for i, old in enumerate(names)]
