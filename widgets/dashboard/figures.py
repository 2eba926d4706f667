"""The live page's figures under one cursor, fed as one view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minillm.core.trace import Record, TraceHeader
from widgets.block_map import BlockMap
from widgets.cursor import Cursor
from widgets.dashboard.requests import Requests
from widgets.dashboard.words import LivePulse
from widgets.histogram import Histogram
from widgets.strip_chart import StripChart
from widgets.timeline import Timeline

if TYPE_CHECKING:
    from minillm.telemetry import Sampler

SPAN_S, ROWS = 12.0, 24
# What fits under the timeline. The engine is another process: this one's own memory says nothing.
STRIPS = (
    "running", "waiting", "output_rate", "duty", "bandwidth", "sim_busy", "sim_dram", "gpu_busy",
    "gpu_memory", "gpu_power", "cpu_busy",
)  # fmt: skip
SLO_MS = {"ttft": 500.0, "itl": 50.0}


class LiveFigures:
    """Timeline, strips, block map and histograms; calls as widgets.class_watch.ClassView's."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self.cursor = Cursor()
        self.timeline = Timeline(cursor=self.cursor, span_s=SPAN_S, most_rows=ROWS, max_steps=2048)
        self.strips = StripChart(
            cursor=self.cursor, sampler=sampler, only=STRIPS, span_s=SPAN_S, max_samples=4096
        )
        self.blocks = BlockMap(cursor=self.cursor, colors="soft", max_steps=2048)
        self.latencies = Histogram(slo_ms=dict(SLO_MS))
        self.pulse, self.requests = LivePulse(), Requests()

    def reset(self, lane: int, header: TraceHeader, title: str, subtitle: str) -> None:
        """The server is another than before."""
        self.pulse, self.requests = LivePulse(), Requests()
        for view in (self.timeline, self.blocks):
            view.reset(lane, header, title, subtitle)
        self.strips.reset(lane, header)
        self.latencies.reset(lane, header)
        self.cursor.move(t=None, req=None)  # whoever was pointed at is not in this one

    def amend(self, lane: int, header: TraceHeader, title: str, subtitle: str) -> None:
        """Other settings: latencies are counted anew, so that they are of one setting."""
        for view in (self.timeline, self.blocks):
            view.amend(lane, header, title, subtitle)
        self.strips.amend(lane, header)
        self.latencies.reset(lane, header)

    def feed(self, lane: int, source: list[Record]) -> None:
        self.pulse.take(source)
        self.requests.take(source)
        for view in (self.timeline, self.strips, self.blocks, self.latencies):
            view.feed(lane, source)

    def publish(self, *, heartbeat: bool = False) -> None:
        for view in (self.timeline, self.strips, self.blocks, self.latencies):
            view.publish(heartbeat=heartbeat)

    def stale(self, message: str) -> None:
        """The page's banner says it; the timeline says it too, for a screenshot of it."""
        self.timeline.stale(message)

    def clear_latencies(self) -> None:
        """Count TTFT, ITL and E2E anew."""
        model = self.latencies.model
        self.latencies.reset(0, model.lanes[0].header)
