"""A chart to predict on: two axes, what is known already, and the point that a student places.

    chart = Chart(Axis("ms per token", 5, 100, log=True, unit="ms"),
                  Axis("tokens per second", 50, 20_000, log=True, unit="tok/s"),
                  lines=[("A100, batch 1 to 32", [(11.9, 84), (14.3, 2230)])])

Pure Python; the browser's half is static/questions/chart.js.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

from widgets.axes import Scale
from widgets.labels import Labels
from widgets.numbers import number3
from widgets.question_line import LARGE

WIDTH, HEIGHT = 560.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 80.0, 16.0, 22.0, 46.0
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """low to high; log: both above 0. unit: behind a figure."""

    label: str
    low: float
    high: float
    log: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        Scale(self.low, self.high, 0, 1, self.log)  # refuses what cannot be drawn

    def shown(self, value: float) -> str:
        """12.4 ms, 5,380 tok/s."""
        return f"{number3(value)}\u202f{self.unit}" if self.unit else number3(value)


@dataclass(frozen=True, slots=True)
class Chart:
    """lines: (name, points) that are drawn beforehand."""

    x: Axis
    y: Axis
    lines: Sequence[tuple[str, Sequence[Point]]] = field(default=())

    def as_dict(self) -> dict:
        """Plain data for the browser."""
        return {
            "x": asdict(self.x),
            "y": asdict(self.y),
            "lines": [[name, [list(point) for point in points]] for name, points in self.lines],
        }

    def checked(self, answer: object) -> list[float]:
        """An answer as [x, y]; ValueError for anything else, and for a point off the chart."""
        if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
            raise ValueError(f"The answer must be a point (x, y), got {answer!r}.")
        values = list(answer)
        if len(values) != 2 or not all(_is_number(value) for value in values):
            raise ValueError(f"The answer must be a point (x, y), got {answer!r}.")
        for axis, value in zip((self.x, self.y), values, strict=True):
            if not axis.low <= value <= axis.high:
                raise ValueError(
                    f"The point lies off the chart: {axis.label} goes from {axis.low:g} to "
                    f"{axis.high:g}, got {value:g}."
                )
        return [float(value) for value in values]

    def shown(self, point: Sequence[float]) -> str:
        """A point in words: "23.8 ms and 5,380 tok/s"."""
        return f"{self.x.shown(point[0])} and {self.y.shown(point[1])}"

    def svg(self, answer: Sequence[float] | None, actual: Sequence[float], sentence: str) -> str:
        """Prediction (hollow) and result (full) on one chart, joined by a line."""
        x, y = self._scales([p for p in (answer, actual) if p is not None])
        places = [(x.at(p[0]), y.at(p[1])) for p in (answer, actual) if p is not None]
        lines = [[(x.at(a), y.at(b)) for a, b in points] for _, points in self.lines]
        parts = [*_frame(self, x, y), *(_known(points) for points in lines), *_dots(places)]
        labels = Labels((LEFT, 2, WIDTH - 2, HEIGHT - BOTTOM))
        for px, py in places:
            labels.block((px - 9, py - 9, px + 9, py + 9))
        for points in [*lines, places]:
            labels.avoid(points)
        words = [("you saw", "ml-saw"), ("you predicted", "ml-strong")]
        for place, (text, kind) in zip(reversed(places), words, strict=False):
            parts.append(_beside(labels, text, *place, kind))
        for (name, _), points in zip(self.lines, lines, strict=True):
            parts.append(_beside(labels, name, *points[0]))
        return (
            f'<div class="ml-fit"><svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="100%" role="img" '
            f'aria-label="{escape(sentence, quote=True)}" style="max-width:{WIDTH:g}px;'
            f'display:block;margin-top:10px">{"".join(parts)}</svg></div>'
        )

    def _scales(self, points: list[Sequence[float]]) -> tuple[Scale, Scale]:
        """The axes, wider where a point lies off them."""
        ends = []
        for i, axis in enumerate((self.x, self.y)):
            values = [point[i] for point in points if not axis.log or point[i] > 0]
            ends.append((min([axis.low, *values]), max([axis.high, *values]), axis.log))
        (x0, x1, x_log), (y0, y1, y_log) = ends
        x = Scale(x0, x1, LEFT, WIDTH - RIGHT, x_log)
        return x, Scale(y0, y1, HEIGHT - BOTTOM, TOP, y_log)


def _frame(chart: Chart, x: Scale, y: Scale) -> list[str]:
    line = '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="var(--ml-line)"{}/>'
    parts = [line.format(x.start, y.start, x.end, y.start, "")]
    for value, name in x.ticks():
        parts.append(line.format(x.at(value), y.start, x.at(value), y.start + 4, ""))
        parts.append(_text(x.at(value), y.start + 18, name, "middle"))
    for value, name in y.ticks():
        grid = ' stroke-opacity="0.5"'
        parts.append(line.format(x.start, y.at(value), x.end, y.at(value), grid))
        parts.append(_text(x.start - 8, y.at(value) + 4, name, "end"))
    parts.append(_text(x.end, HEIGHT - 8, f"{chart.x.label} →", "end"))
    parts.append(_text(x.start, TOP - 8, f"{chart.y.label} ↑"))
    return parts


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    cls = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{cls}>{escape(words)}</text>'


def _known(points: Sequence[Point]) -> str:
    places = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    return f'<polyline points="{places}" fill="none" stroke="var(--ml-queue)" stroke-width="1.6"/>'


def _dots(places: list[Point]) -> list[str]:
    """The result, full; before it the prediction, hollow and a little larger, and a line."""
    saw = places[-1]
    dot = f'<circle cx="{saw[0]:.1f}" cy="{saw[1]:.1f}" r="5" fill="var(--ml-decode)"/>'
    if len(places) == 1:
        return [dot]
    own = places[0]
    line = (
        f'<line x1="{own[0]:.1f}" y1="{own[1]:.1f}" x2="{saw[0]:.1f}" y2="{saw[1]:.1f}" '
        'stroke="var(--ml-decode)" stroke-width="1.6" stroke-dasharray="4 3"/>'
    )
    ring = (
        f'<circle cx="{own[0]:.1f}" cy="{own[1]:.1f}" r="7.5" fill="var(--ml-bg)" '
        'stroke="var(--ml-ink)" stroke-width="2.5"/>'
    )
    return [line, ring, dot]


def _beside(labels: Labels, words: str, x: float, y: float, kind: str = "") -> str:
    """A label beside a point; it ends there where it stands at the left of it."""
    tries = (
        labels.place(words, x, y, size=LARGE, gap=gap, bold=bool(kind)) for gap in (12, 26, 40, 60)
    )
    box = next(filter(None, tries), None) or labels.place(words, x, y, size=LARGE, force=True)
    left, top, right, bottom = box
    base = (top + bottom) / 2 + 5
    if right <= x:
        return _text(right, base, words, "end", kind)
    if left >= x:
        return _text(left, base, words, "start", kind)
    return _text((left + right) / 2, base, words, "middle", kind)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)
