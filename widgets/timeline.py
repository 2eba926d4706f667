"""The batch timeline: one or two runs, live, a row a request, on one time axis.

    timeline = Timeline(lanes=2, titles=["Static", "Continuous"])
    timeline.reset(0, trace.header, subtitle="waits for 6, then runs until the longest ends")
    timeline.feed(0, trace)       # any thread, any number of times: takes what is new
    timeline.publish()            # ONE publisher, 10–20 times a second: sends what is new
    timeline.finish(0)            # this lane's run is over
    timeline.conclude()           # headline, highlighted row, notes: from the traces fed
    timeline.stale("The engine is gone since 14:07:03. Run the cell again.")
    timeline.freeze()             # a static figure with alt text and a table, for saved notebooks

Nothing here starts a thread. feed, publish and the rest may be called from any thread: a lock
guards them. Every view gets the same messages (widgets.frames); one that missed some says hello
and gets a snapshot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import anywidget
import traitlets

from minillm.core.trace import Record, Trace, TraceHeader
from widgets import assets
from widgets.figures import StaticFigure, static_figure
from widgets.frames import RingModel
from widgets.headline import Headline, headline, policy_subtitle, policy_title

SOURCES = (
    "shared/theme.js",
    "timeline/decode.js",
    "timeline/layout.js",
    "timeline/model.js",
    "timeline/strip.js",
    "timeline/paint.js",
    "timeline/overlay.js",
    "timeline/card.js",
    "timeline/cursor.js",
    "timeline/interact.js",
    "timeline/dom.js",
    "timeline/words.js",
    "timeline/view.js",
)


TEXT_TOKENS = 24  # of a request, that the hover card shows


@dataclass
class _Lane:
    """A lane's ring, where its trace was read up to, and what was sent of it."""

    ring: RingModel
    trace: Trace | None = None
    read: int = 0  # records of `trace` already fed
    kept: list[Record] = field(default_factory=list)  # fed without a Trace
    sent_step: int = -1
    sent_event: int = 0
    fresh: bool = True  # the next message is a snapshot


class Timeline(anywidget.AnyWidget):
    """A live timeline of `lanes` (1 or 2) runs; see the module's docstring for the calls.

    titles, subtitles: one a lane. height: pixels for the rows of each lane, None for what the
    rows need. detokenize: token ids → text, for the hover card (None: no text is shown).
    expected_requests: rows to reserve, so that the figure does not grow while it runs.
    """

    _esm = assets.module(*SOURCES)
    _css = assets.style("timeline/timeline.css")

    lanes = traitlets.Int(1).tag(sync=True)
    titles = traitlets.List(traitlets.Unicode()).tag(sync=True)
    subtitles = traitlets.List(traitlets.Unicode()).tag(sync=True)
    height = traitlets.Int(None, allow_none=True).tag(sync=True)
    expected_requests = traitlets.Int(0).tag(sync=True)
    headline = traitlets.Unicode("").tag(sync=True)
    subtitle = traitlets.Unicode("").tag(sync=True)
    notes = traitlets.List(traitlets.Dict()).tag(sync=True)
    stale_message = traitlets.Unicode("").tag(sync=True)
    frozen = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        lanes: int = 1,
        titles: Iterable[str] | None = None,
        *,
        subtitles: Iterable[str] | None = None,
        height: int | None = None,
        max_steps: int = 4096,
        expected_requests: int = 0,
        detokenize: Callable[[list[int]], str] | None = None,
    ) -> None:
        if lanes not in (1, 2):
            raise ValueError(f"A timeline shows 1 or 2 runs, got lanes={lanes}.")
        named = list(titles or [])
        if len(named) > lanes:
            raise ValueError(f"{len(named)} titles were given for {lanes} lane(s).")
        super().__init__(
            lanes=lanes,
            titles=[*named, "", ""][:lanes],
            subtitles=[*(subtitles or ()), "", ""][:lanes],
            height=height,
            expected_requests=expected_requests,
        )
        self.detokenize = detokenize
        self._guard = threading.RLock()
        self._lanes = [_Lane(RingModel(max_steps, lane=lane)) for lane in range(lanes)]
        self.on_msg(self._on_message)

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
            state.trace, state.read, state.kept = None, 0, []
            state.sent_step, state.sent_event, state.fresh = -1, 0, True
        if title is not None:
            self.titles = _replaced(self.titles, lane, title)
        if subtitle is not None:
            self.subtitles = _replaced(self.subtitles, lane, subtitle)
        self.headline, self.notes, self.stale_message, self.frozen = "", [], "", ""

    def feed(self, lane: int, source: Trace | Iterable[Record]) -> int:
        """Take a run's new records; returns how many. They are shown at the next publish().

        A Trace may be fed again and again: only what was added since is read; another Trace than
        before starts the lane anew. Other iterables are taken whole, each record once.
        """
        state = self._lane(lane)
        with self._guard:
            if not isinstance(source, Trace):
                records = list(source)
                state.kept.extend(records)
                return state.ring.extend(records)
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

    def _publish(self, state: _Lane, heartbeat: bool) -> int:
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

    # ── what stands around it ───────────────────────────────────────────────────────────────

    def set_headline(
        self, text: str, subtitle: str | None = None, notes: Iterable[dict] = ()
    ) -> None:
        """The sentence above, the line beside the provenance ("same 14 requests, 6 slots").

        notes: what to point at, as widgets.headline makes them.
        """
        self.headline = text
        if subtitle is not None:
            self.subtitle = subtitle
        self.notes = list(notes)

    def conclude(self) -> Headline:
        """Compute the headline and the notes from the traces fed, show them, and return them.

        Raises ValueError when a lane was fed nothing.
        """
        result = headline(self.traces(), list(self.titles))
        self.set_headline(result.text, result.subtitle, result.notes)
        return result

    def freeze(self) -> StaticFigure:
        """Put a static figure with alt text and a table in place of the live view.

        Shown as a cell's result it stays in a saved notebook; live views of this timeline show
        it too, until reset(). Raises ValueError when a lane was fed nothing.
        """
        traces = self.traces()
        head = headline(traces, list(self.titles))
        if self.headline:
            head = replace(head, text=self.headline, subtitle=self.subtitle, notes=list(self.notes))
        figure = static_figure(traces, self.titles, self.subtitles, head)
        self.frozen = figure.to_html(inline=True)
        self._still = figure
        return figure

    def traces(self) -> list[Trace]:
        """Each lane's run so far. Raises ValueError when a lane was fed nothing."""
        with self._guard:
            return [self._trace(lane, state) for lane, state in enumerate(self._lanes)]

    def _trace(self, lane: int, state: _Lane) -> Trace:
        if state.trace is not None:
            return state.trace
        if state.ring.header is None or not state.kept:
            raise ValueError(f"Lane {lane} has no run yet: feed it a trace first.")
        trace = Trace(state.ring.header)
        for record in state.kept:
            trace.add(record)
        return trace

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None and self.frozen:
            bundle[0]["text/html"] = self._still.to_html()
        return bundle

    def stale(self, message: str) -> None:
        """Say that what is shown is no longer live; "" takes it back."""
        self.stale_message = message

    # ── messages from a view ────────────────────────────────────────────────────────────────

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict):
            return
        lane = content.get("lane", 0)
        if lane not in range(self.lanes):
            return
        if "hello" in content:
            self._welcome(self._lanes[lane], content)
        elif isinstance(content.get("text"), dict):
            self._send_text(content["text"])

    def _welcome(self, state: _Lane, hello: dict) -> None:
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

    def _send_text(self, asked: dict) -> None:
        """Answer what a request had said up to a step: {"kind": "text", text, token}."""
        lane, req, step = (asked.get(name) for name in ("lane", "req", "step"))
        if self.detokenize is None or lane not in range(self.lanes) or not isinstance(step, int):
            return
        with self._guard:
            tokens = self._lanes[lane].ring.tokens(req, step)[-TEXT_TOKENS:]
        if not tokens:
            return
        before, whole = self.detokenize(tokens[:-1]), self.detokenize(tokens)
        cut = len(before) if whole.startswith(before) else 0
        answer = {"kind": "text", "lane": lane, "req": req, "step": step}
        self.send({**answer, "text": whole[:cut], "token": whole[cut:]})

    def _lane(self, lane: int) -> _Lane:
        if lane not in range(self.lanes):
            raise ValueError(f"This timeline has lanes 0 to {self.lanes - 1}, got {lane}.")
        return self._lanes[lane]


def _replaced(names: list[str], lane: int, name: str) -> list[str]:
    return [name if i == lane else old for i, old in enumerate(names)]
