"""Throughput against time per token, while a sweep runs: several engines, one chart.

    curve = Curve(slo_ms=30)
    curve.add_device("A100-80GB-SXM", "A100")             # simulated decode steps
    curve.add_published("A100|H200", "Llama-3.1-8B")      # figures with their sources
    curve.add_line("here", "This machine", provenance="measured", planned=[1, 2, 4, 8])
    for load in (1, 2, 4, 8):
        curve.begin("here", load)
        curve.add_summary("here", summary)                # a point of minillm.bench
    curve.finish("here")
    curve.freeze()

Each call shows at once; `follow` takes a sweep's results as they come. The limit can be dragged
in the chart: `slo_ms` follows, and so do star, table and headline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import traitlets

from widgets import assets
from widgets.curve_drawing import draw
from widgets.curve_model import CurveModel, Published
from widgets.plot_widget import PlotWidget
from widgets.published import published_points

SOURCES = (
    *assets.FIGURE,
    "shared/save.js",
    "shared/scale.js",
    "shared/plot.js",
    "curve/findings.js",
    "curve/paint.js",
    "curve/tables.js",
    "curve/view.js",
)


class Curve(PlotWidget):
    """slo_ms: the limit on the time between tokens, None for none; moves with the chart's edge."""

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "curve/curve.css")
    _what = "curve"
    _picture = staticmethod(draw)

    slo_ms = traitlets.Float(None, allow_none=True).tag(sync=True)

    def __init__(self, slo_ms: float | None = None) -> None:
        super().__init__(CurveModel(slo_ms), slo_ms=slo_ms)
        self.observe(self._moved, names="slo_ms")

    def add_line(self, key: str, name: str, **settings: Any) -> None:
        """A new line, as CurveModel.add_line."""
        with self._guard:
            self.model.add_line(key, name, **settings)
            self.publish()

    def add_device(
        self, gpu: str, name: str | None = None, model: str = "llama-3.1-8b", *,
        batches: Iterable[int] = (1, 8, 32, 64, 128, 256), focus: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        """A simulated device's decode steps, as minillm.sim.step_table gives them."""
        from minillm.sim.step_table import step_table

        table = step_table(gpu, model, batches=tuple(batches), **settings)
        with self._guard:
            self.model.add_step_table(table, name or gpu, focus=focus)
            self.publish()

    def add_published(self, hardware: str = "", model: str = "") -> list[Published]:
        """The published single-user figures that match (regular expressions); returns them."""
        found = published_points(hardware, model)
        with self._guard:
            for point in found:
                self.model.add_published(point)
            self.publish()
        return found

    def begin(self, key: str, load: float) -> None:
        """A run at this load begins."""
        with self._guard:
            self.model.begin(key, load)
            self.publish()

    def add_run(self, key: str, load: float, ms: float | None, tok_s: float | None,
                p99_ms: float | None = None) -> None:  # fmt: skip
        """What a run gave; None: it completed nothing."""
        with self._guard:
            self.model.add_run(key, load, ms, tok_s, p99_ms)
            self.publish()

    def add_summary(self, key: str, summary: dict[str, Any]) -> None:
        """A point of a sweep: minillm.bench's summary with its load."""
        with self._guard:
            self.model.add_summary(key, summary)
            self.publish()

    def follow(self, key: str, points: Iterable[tuple[dict[str, Any], Any]]) -> Iterator[dict]:
        """Take the (summary, run) pairs of minillm.bench.sweep as they come; yields each summary.

        In process, over HTTP or simulated: whatever the sweep runs on.
        """
        line = self.model.lines[key]
        if line.planned:
            self.begin(key, line.planned[0])
        for summary, _ in points:
            self.add_summary(key, summary)
            if (upcoming := line.upcoming) is not None:
                self.begin(key, upcoming)
            yield summary
        self.finish(key)

    def finish(self, key: str) -> None:
        """No more points of this line will come."""
        with self._guard:
            self.model.finish(key)
            self.publish()

    def _moved(self, change: dict) -> None:
        with self._guard:
            self.model.slo_ms = change["new"]
            self.publish()
