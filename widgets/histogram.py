"""Histograms of TTFT, ITL and E2E with p50, p95, p99 and the share within a limit, live.

latencies = Histogram(slo_ms={"ttft": 500, "itl": 50})
session.watch(latencies)                 # or feed(0, trace) and publish()
latencies.add("ttft", 0.21)              # or value by value, from a load generator
latencies.scale = "log"                  # "linear" to begin with; the chart has a button too
latencies.freeze()
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import traitlets

from minillm.core.trace import Record, Trace, TraceHeader
from widgets import assets
from widgets.headline import policy_title
from widgets.histogram_drawing import draw
from widgets.histogram_model import HistogramModel
from widgets.plot_widget import PlotWidget

PUBLISH_S = 0.25  # a histogram's content is sent at most this often while it runs
SOURCES = (
    *assets.FIGURE,
    "shared/save.js",
    "shared/scale.js",
    "shared/plot.js",
    "histogram/bars.js",
    "histogram/paint.js",
    "histogram/view.js",
)


class Histogram(PlotWidget):
    """lanes: one or two runs, on shared axes. scale: "linear" or "log"."""

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css")
    _what = "histogram"
    _picture = staticmethod(draw)

    scale = traitlets.Enum(("linear", "log"), "linear").tag(sync=True)

    def __init__(
        self,
        lanes: int = 1,
        *,
        slo_ms: dict[str, float] | None = None,
        scale: str = "linear",
    ) -> None:
        super().__init__(HistogramModel(lanes, slo_ms), scale=scale)
        self.model.log = scale == "log"
        self.observe(self._scaled, names="scale")
        self._traces: list[Trace | None] = [None] * lanes
        self._read = [0] * lanes
        self._sent_at = 0.0

    def add(self, metric: str, seconds: float, lane: int = 0) -> None:
        """One value of "ttft", "itl" or "e2e"; shown at the next publish()."""
        with self._guard:
            self.model.add(metric, seconds, lane)

    def reset(self, lane: int = 0, header: TraceHeader | None = None, title: str = "") -> None:
        """Empty a lane for a new run."""
        with self._guard:
            self.model.reset(lane, header, title)
            self._traces[lane], self._read[lane] = None, 0
            self.stale_message = ""
            self.set_headline("")

    def feed(self, lane: int, source: Trace | Iterable[Record]) -> int:
        """Take a run's new records; returns how many. Another Trace than before is a new run."""
        with self._guard:
            if not isinstance(source, Trace):
                return self.model.extend(lane, source)
            if source is not self._traces[lane]:
                title = policy_title(source.header.policy) if len(self._traces) > 1 else ""
                self.reset(lane, source.header, title)
                self._traces[lane] = source
            new = source.records[self._read[lane] :]
            self._read[lane] += len(new)
            return self.model.extend(lane, new)

    def publish(self, *, heartbeat: bool = False) -> int:
        """Send what is new, at most four times a second; a heartbeat goes out in any case."""
        now = time.monotonic()
        if now - self._sent_at < PUBLISH_S and not heartbeat:
            return 0
        self._sent_at = now
        return super().publish(heartbeat=heartbeat)

    def finish(self, lane: int = 0) -> None:
        """The lane's run is over: show all of it."""
        self._sent_at = 0.0
        self.publish()

    def conclude(self) -> str:
        """The finding."""
        self.finish()
        return self.headline

    def _scaled(self, change: dict) -> None:
        self.model.log = change["new"] == "log"
