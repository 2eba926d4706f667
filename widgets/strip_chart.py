"""Strips over one time axis: rows, queue, tokens a second, KV, and what the machine does meanwhile.

    strips = StripChart(cursor=cursor, sampler=Sampler().start())   # or without a sampler
    session.watch(strips)          # or feed(0, trace), publish(), finish(0) by hand
    strips.freeze()

A measured run shows the GPU's counters through the sampler, or the engine's own duty cycle and
bandwidth where there is no GPU; a simulated run shows what its cost model says, labelled so. What
cannot be read stands below with its reason. One run at a time: the newest trace that is fed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import traitlets

from minillm.core.trace import Record, Trace, TraceHeader
from widgets import assets, strip_words
from widgets.canvas_widget import CanvasWidget
from widgets.cursor import Cursor
from widgets.figures import StaticFigure
from widgets.still import static
from widgets.strip_drawing import draw
from widgets.strip_model import StripModel

if TYPE_CHECKING:
    from minillm.telemetry import Sampler

SNAPSHOT, DELTA, HEARTBEAT = 0, 1, 2
SOURCES = (
    *assets.FIGURE,
    "shared/save.js",
    "timeline/layout.js",
    "strips/decode.js",
    "strips/group.js",
    "strips/paint.js",
    "strips/view.js",
)


class StripChart(CanvasWidget):
    """strips: what is shown. missing: [[reason, [labels]]]. header: of the run, as plain data.

    sampler: telemetry of this machine, read at each publish(); whoever made it stops it.
    only: the keys of the strips to show (widgets.strip_model.STRIPS); () all there is.
    span_s: seconds that a live view shows.
    weight_bytes, kv_token_bytes: what a step reads, None looks the model up (for its bandwidth).
    """

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "strips/strips.css")

    strips = traitlets.List(traitlets.Dict()).tag(sync=True)
    missing = traitlets.List().tag(sync=True)
    header = traitlets.Dict(None, allow_none=True).tag(sync=True)
    span_s = traitlets.Float(60.0).tag(sync=True)

    def __init__(
        self,
        *,
        sampler: Sampler | None = None,
        cursor: Cursor | None = None,
        weight_bytes: float | None = None,
        kv_token_bytes: float | None = None,
        max_samples: int = 6000,
        only: Iterable[str] = (),
        span_s: float = 60.0,
    ) -> None:
        super().__init__(cursor=cursor, span_s=span_s)
        self.sampler = sampler
        self.model = StripModel(max_samples, weight_bytes, kv_token_bytes, only)
        self._guard = threading.RLock()
        self._trace: Trace | None = None
        self._left: list[int] = []  # ids of the traces before this one
        self._read = self._sampled = 0
        self._sent = [-1, -1]  # the last sample sent, by group; -1: a snapshot is due
        self.on_msg(self._on_message)

    # ── the run ─────────────────────────────────────────────────────────────────────────────

    def reset(self, lane: int = 0, header: TraceHeader | None = None) -> None:
        """Empty the chart for a new run."""
        with self._guard:
            self.model.reset(header)
            if self._trace is not None:
                self._left.append(id(self._trace))
            self._trace, self._read = None, 0
            self._sent = [-1, -1]
            self.header = None if header is None else strip_words.header_dict(header)
            self.stale_message = self.frozen = ""
            self.set_headline("")
            self._describe()

    def amend(self, lane: int, header: TraceHeader) -> None:
        """The run goes on under other settings."""
        with self._guard:
            self.model.amend(header)
            self._describe()

    def feed(self, lane: int, source: Trace | Iterable[Record]) -> int:
        """Take a run's new records; returns how many. Another Trace than before is a new run.

        lane: any; with several lanes the chart follows the run that started last.
        """
        with self._guard:
            if not isinstance(source, Trace):
                return self.model.extend(source)
            if source is not self._trace:
                if id(source) in self._left:
                    return 0
                self.reset(lane, source.header)
                self._trace = source
            new = source.records[self._read :]
            self._read += len(new)
            return self.model.extend(new)

    def publish(self, *, heartbeat: bool = False) -> int:
        """Read the sampler, send what is new; returns the bytes sent."""
        with self._guard:
            if self.sampler is not None and not self.model.done:
                self._sampled, new = self.sampler.since(self._sampled)
                self.model.add_telemetry(new)
            self._describe()
            return sum(self._send_group(group, heartbeat) for group in (0, 1))

    def _send_group(self, group: int, heartbeat: bool) -> int:
        ring = self.model.rings[group]
        kind = SNAPSHOT if self._sent[group] < 0 else DELTA
        if kind == DELTA and ring.next - 1 <= self._sent[group]:
            if not heartbeat:
                return 0
            kind = HEARTBEAT
        first = 0 if kind == SNAPSHOT else self._sent[group] + 1
        content, data = self.model.message(group, first, kind)
        self._sent[group] = content["next_step"] - 1 if ring.next else -1
        self.send(content, [data])
        return len(data)

    def finish(self, lane: int = 0) -> None:
        """The run is over."""
        with self._guard:
            self.model.done = True
            self.publish(heartbeat=True)

    def conclude(self) -> str:
        """Say what the run came to; returns it."""
        with self._guard:
            text = strip_words.headline(self.model)
            self.set_headline(text)
            return text

    def still(self) -> StaticFigure:
        with self._guard:
            if not self.model.seen:
                raise ValueError("This strip chart was fed nothing yet.")
            words = f"{self.headline} {strip_words.describe(self.model)}".strip()
            return static(draw(self.model, self.headline), words, strip_words.table(self.model))

    def _describe(self) -> None:
        strips = self.model.as_dicts()
        missing = [list(pair) for pair in self.model.missing()]
        if strips != self.strips:
            self.strips = strips
        if missing != self.missing:
            self.missing = missing

    # ── messages from a view ────────────────────────────────────────────────────────────────

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict) or content.get("lane") not in (0, 1):
            return
        last, group = content.get("hello"), content["lane"]
        if not isinstance(last, int):
            return
        with self._guard:
            ring = self.model.rings[group]
            known = content.get("stream") == ring.stream and ring.first <= last + 1 <= ring.next
            first, kind = (last + 1, DELTA) if known else (ring.first, SNAPSHOT)
            message, data = self.model.message(group, first, kind)
            self.send(message, [data])
