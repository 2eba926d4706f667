"""The batch timeline: one or two runs, live, a row a request, on one time axis.

    timeline = Timeline(lanes=2, titles=["Static", "Continuous"])
    timeline.reset(0, trace.header, subtitle="waits for 6, then runs until the longest ends")
    timeline.feed(0, trace)       # any thread, any number of times: takes what is new
    timeline.publish()            # ONE publisher, 10–20 times a second: sends what is new
    timeline.finish(0)            # this lane's run is over
    timeline.conclude()           # headline, highlighted row, notes: from the traces fed
    timeline.stale("The engine is gone since 14:07:03. Run the cell again.")
    timeline.freeze()             # a static figure with alt text and a table, for saved notebooks

How it is fed and sent: widgets.trace_widget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import traitlets

from widgets import assets
from widgets.cursor import Cursor
from widgets.figures import StaticFigure, static_figure
from widgets.headline import Headline, headline
from widgets.trace_widget import TraceWidget

SOURCES = (
    *assets.FIGURE,
    *assets.LANE,
    "timeline/layout.js",
    "timeline/people.js",
    "timeline/strip.js",
    "timeline/paint.js",
    "timeline/stalls.js",
    "timeline/overlay.js",
    "timeline/card.js",
    "timeline/cursor.js",
    "timeline/interact.js",
    "timeline/dom.js",
    "timeline/words.js",
    "timeline/view.js",
)
TEXT_TOKENS = 24  # of a request, that the hover card shows


class Timeline(TraceWidget):
    """A live timeline of `lanes` (1 or 2) runs; see the module's docstring for the calls.

    titles, subtitles: one a lane. height: pixels for the rows of each lane, None for what the
    rows need. detokenize: token ids → text, for the hover card (None: no text is shown).
    expected_requests: rows to reserve, so that the figure does not grow while it runs.
    by_name: a row a nickname rather than a request: a class's view.
    span_s: seconds that a live view shows. most_rows: of more requests, those seen in that time.
    cursor: shared with other views, so that they all point at one time and one request.
    veil: what comes after the cursor is dimmed.
    """

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "timeline/timeline.css")
    _what = "timeline"

    height = traitlets.Int(None, allow_none=True).tag(sync=True)
    expected_requests = traitlets.Int(0).tag(sync=True)
    by_name = traitlets.Bool(False).tag(sync=True)
    span_s = traitlets.Float(60.0).tag(sync=True)
    most_rows = traitlets.Int(256).tag(sync=True)
    veil = traitlets.Bool(False).tag(sync=True)
    notes = traitlets.List(traitlets.Dict()).tag(sync=True)

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
        cursor: Cursor | None = None,
        by_name: bool = False,
        span_s: float = 60.0,
        most_rows: int = 256,
        veil: bool = False,
    ) -> None:
        super().__init__(
            lanes, titles, most_lanes=2, subtitles=subtitles, max_steps=max_steps, cursor=cursor,
            height=height, expected_requests=expected_requests, by_name=by_name, span_s=span_s,
            most_rows=most_rows, veil=veil,
        )  # fmt: skip
        self.detokenize = detokenize

    def conclude(self) -> Headline:
        """Compute the headline and the notes from the traces fed, show them, and return them.

        Raises ValueError when a lane was fed nothing.
        """
        result = headline(self.traces(), list(self.titles))
        self.set_headline(result.text, result.subtitle, result.notes)
        return result

    def still(self) -> StaticFigure:
        traces = self.traces()
        head = headline(traces, list(self.titles))
        if self.headline:
            head = replace(head, text=self.headline, subtitle=self.subtitle, notes=list(self.notes))
        return static_figure(traces, self.titles, self.subtitles, head)

    def _asked(self, content: dict) -> None:
        if isinstance(content.get("text"), dict):
            self._send_text(content["text"])

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
