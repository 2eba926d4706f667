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
from widgets.headline import number3

WIDTH, HEIGHT = 560.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 22.0, 46.0
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
        parts = [*_frame(self, x, y)]
        for name, points in self.lines:
            places = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in points)
            parts.append(f'<polyline points="{places}" fill="none" stroke="var(--ml-queue)" '
                         'stroke-width="1.6"/>')  # fmt: skip
            parts.append(_text(x.at(points[0][0]) + 8, y.at(points[0][1]) + 4, name))
        saw = x.at(actual[0]), y.at(actual[1])
        if answer is not None:
            own = x.at(answer[0]), y.at(answer[1])
            parts.append(
                f'<line x1="{own[0]:.1f}" y1="{own[1]:.1f}" x2="{saw[0]:.1f}" y2="{saw[1]:.1f}" '
                'stroke="var(--ml-decode)" stroke-width="1.6" stroke-dasharray="4 3"/>'
                f'<circle cx="{own[0]:.1f}" cy="{own[1]:.1f}" r="6" fill="var(--ml-bg)" '
                'stroke="var(--ml-ink)" stroke-width="2.5"/>'
            )
            below = own[1] > saw[1]
            parts.append(_beside(*own, "you predicted", "ml-strong", below))
            parts.append(_beside(*saw, "you saw", "ml-saw", not below))
        else:
            parts.append(_beside(*saw, "you saw", "ml-saw", False))
        parts.append(f'<circle cx="{saw[0]:.1f}" cy="{saw[1]:.1f}" r="6" fill="var(--ml-decode)"/>')
        return (
            f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="100%" role="img" '
            f'aria-label="{escape(sentence, quote=True)}" '
            f'style="max-width:{WIDTH:g}px;display:block;margin-top:10px">{"".join(parts)}</svg>'
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


def _beside(x: float, y: float, words: str, kind: str, below: bool) -> str:
    anchor = "end" if x > WIDTH - 120 else "start"
    dx = -10 if anchor == "end" else 10
    return _text(x + dx, y + (20 if below else -10), words, anchor, kind)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)
