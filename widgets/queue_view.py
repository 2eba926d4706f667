"""The queue: requests as dots that go from arrival to the queue, to a slot, and out.

    queue = QueueView(lanes=3, titles=["2.5 arrivals/s", "4 arrivals/s", "4.75 arrivals/s"])
    queue.feed(0, trace); queue.finish(0)      # a run of the engine, or a trace of events alone
    queue.conclude()

Below the dots stand the numbers in the system over time (measure="waiting": in the queue alone), a
panel a run on one scale, each with Little's law on its own sample. How it is fed and sent:
widgets.trace_widget.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import traitlets

from minillm.core.trace import Trace
from widgets import assets
from widgets.cursor import Cursor
from widgets.figures import StaticFigure, to_svg
from widgets.headline import policy_title
from widgets.numbers import number3, plural, seconds
from widgets.queue_model import EventRing, QueueFigures, counts, last_time, queue_figures
from widgets.shapes import Drawing, Line, Path, Shape, Text
from widgets.trace_widget import TraceWidget

SOURCES = (
    *assets.FIGURE,
    *assets.LANE,
    "queue/model.js",
    "queue/layout.js",
    "queue/paint.js",
    "queue/view.js",
)
MOST_LANES = 3
WIDTH, HEIGHT, PITCH = 720, 90, 176  # of a static panel


class QueueView(TraceWidget):
    """One to three runs as queues. measure: "system" or "waiting", what the panels count."""

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "queue/queue.css")
    _what = "queue"

    measure = traitlets.Enum(("system", "waiting"), "system").tag(sync=True)

    def __init__(
        self,
        lanes: int = 1,
        titles: Iterable[str] | None = None,
        *,
        subtitles: Iterable[str] | None = None,
        measure: str = "system",
        max_steps: int = 4096,
        cursor: Cursor | None = None,
    ) -> None:
        super().__init__(
            lanes, titles, most_lanes=MOST_LANES, subtitles=subtitles, max_steps=max_steps,
            make_ring=EventRing, cursor=cursor, measure=measure,
        )  # fmt: skip

    def conclude(self) -> str:
        """Say what the queues came to. Raises ValueError when a lane was fed nothing."""
        figures = [queue_figures(trace) for trace in self.traces()]
        text, lead = queue_headline(figures, self.titles)
        self.set_headline(text, lead=lead)
        return text

    def still(self) -> StaticFigure:
        return queue_figure(self.traces(), self.titles, self.measure)


def queue_headline(
    figures: Iterable[QueueFigures | None], titles: Iterable[str]
) -> tuple[str, str]:
    """The finding and the line below it: one run's Little's law, or how the mean waits compare."""
    named = [(f, t) for f, t in zip(figures, titles, strict=True) if f is not None]
    if not named:
        return "Nobody has arrived yet.", ""
    if len(named) == 1:
        f = named[0][0]
        text = f"{number3(f.mean)} requests in the system on average, each for {seconds(f.stay)}."
        lead = f"{plural(f.count, 'request')}; {seconds(f.wait)} of the stay is waiting."
        return text, lead
    (first, name), (last, other) = named[0], named[-1]
    verb = "grows" if last.wait > first.wait else "falls"
    text = (
        f"From {name} to {other}, the mean wait {verb} "
        f"from {seconds(first.wait)} to {seconds(last.wait)}."
    )
    fewest = min(f.count for f, _ in named)
    lead = "First come, first served. Each waiting request shows how long it has waited."
    if fewest < 100:
        lead += f" n = {fewest}: a small sample; another one gives other figures."
    return text, lead


# ── the static figure ───────────────────────────────────────────────────────────────────────────


def queue_figure(
    traces: Iterable[Trace], titles: Iterable[str] = (), measure: str = "system"
) -> StaticFigure:
    """The numbers over time, a panel a run on one scale, and the samples' figures as a table."""
    traces = list(traces)
    given = [*titles, *[""] * len(traces)]
    names = [name or policy_title(t.header.policy) for name, t in zip(given, traces, strict=False)]
    figures = [queue_figures(trace) for trace in traces]
    text, lead = queue_headline(figures, names)
    alt = " ".join([f"Queue. {text} {lead}", *map(_sentence, names, figures)])
    svg = to_svg(_draw(traces, names, figures, text, measure), alt)
    return StaticFigure(svg, alt.replace("\u2009", " "), _table(names, figures))


def _sentence(name: str, figures: QueueFigures | None) -> str:
    if figures is None:
        return f"{name}: nobody has arrived."
    return (
        f"{name}: {number3(figures.mean)} in the system on average, "
        f"{number3(figures.rate)} arrivals a second, {seconds(figures.stay)} each."
    )


def _draw(traces: list[Trace], names: list[str], figures: list, text: str, measure: str) -> Drawing:
    series = [counts(trace, waiting=measure == "waiting") for trace in traces]
    limit = max([2, *(n for one in series for _, n in one)])
    end = max([1e-3, *map(last_time, traces)])
    what = "Requests waiting" if measure == "waiting" else "Requests in the system"
    header = traces[0].header
    glyph = {"measured": "●", "simulated": "◐", "published": "◇"}[header.provenance]
    shapes: list[Shape] = [
        Text(0, 16, text, "ink", 17, True),
        Text(0, 38, f"{glyph} {header.provenance} {header.device}, {header.model}", "ink2", 11.5),
        Text(0, 66, f"{what} over time", "ink", 13, True),
    ]
    for i, (name, one, found) in enumerate(zip(names, series, figures, strict=True)):
        shapes += _panel(84 + i * PITCH, name, one, found, limit, end, measure)
    return Drawing(WIDTH, 84 + PITCH * len(traces), shapes)


def _panel(
    top: float,
    name: str,
    series: list[tuple[float, int]],
    figures: QueueFigures | None,
    limit: int,
    end: float,
    measure: str,
) -> list[Shape]:
    base = top + 20 + HEIGHT
    points: list[tuple[float, float]] = []
    for (t, n), (until, _) in zip(series, [*series[1:], (end, 0)], strict=True):
        y = base - n / limit * HEIGHT
        points += [(t / end * WIDTH, y), (until / end * WIDTH, y)]
    color, fill = ("queue", "panel") if measure == "waiting" else ("decode", "soft")
    shapes: list[Shape] = [Text(0, top + 10, name, "ink", 12, True)]
    if points:
        area = [(points[0][0], base), *points, (points[-1][0], base)]
        shapes += [Path(area, fill=fill), Path(points, color)]
    shapes += [
        Line(0, base, WIDTH, base, "line"),
        Text(WIDTH, base + 14, seconds(end), "ink3", 11, anchor="end"),
        Text(0, base + 14, "0", "ink3", 11),
    ]
    if figures is not None:
        symbol, mean, stay = "L = λ·W", figures.mean, figures.stay
        if measure == "waiting":
            symbol, mean, stay = "Lq = λ·Wq", figures.mean_waiting, figures.wait
        y = base - mean / limit * HEIGHT
        law = f"{symbol}: {number3(figures.rate)}/s × {seconds(stay)} = {number3(mean)}"
        shapes += [
            Line(0, y, WIDTH, y, "ink", 1, True),
            Text(WIDTH, y - 5, f"mean {number3(mean)}", "ink", 11, True, "end"),
            Text(0, base + 34, law, "ink2", 11.5),
        ]
    return shapes


def _table(names: list[str], figures: list[QueueFigures | None]) -> str:
    heads = (
        "",
        "Requests",
        "λ, arrivals/s",
        "W, in the system",
        "of that waiting",
        "L, mean number",
    )
    cells = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = ""
    for name, f in zip(names, figures, strict=True):
        values = ("n/a",) * 5
        if f is not None:
            values = (
                f"{f.count:,}", number3(f.rate), seconds(f.stay), seconds(f.wait), number3(f.mean),
            )  # fmt: skip
        rows += f'<tr><th scope="row">{escape(name)}</th>'
        rows += "".join(f"<td>{value}</td>" for value in values) + "</tr>"
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"
