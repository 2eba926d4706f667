"""Small figures as SVG text: lines and points over two axes. No library, no script.

Colours are CSS variables of the page (html.py), so they follow its light and dark scheme; each
figure has a title and a description for screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 560, 300
LEAST = 1e-9  # what is smaller is drawn as 0
LEFT, RIGHT, TOP, BOTTOM = 62, 26, 44, 46


@dataclass(frozen=True, slots=True)
class Series:
    """Points in order of x. labels: a word at each point. steps: hold y until the next x.

    line, dots: what is drawn of them.
    """

    name: str
    points: Sequence[tuple[float, float]]
    labels: Sequence[str] = ()
    steps: bool = False
    line: bool = True
    dots: bool = True


def line_chart(
    title: str,
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    *,
    limit: float | None = None,
    log_y: bool = False,
) -> str:
    """One figure; both axes start at 0 (log_y: y at a power of 10). limit: a dashed line at y."""
    drawn = [one for one in series if one.points]
    if not drawn:
        return f"<p>{escape(title)}: nothing to draw.</p>"
    xs = [x for one in drawn for x, _ in one.points]
    ys = [y for one in drawn for _, y in one.points]
    ys += [] if limit is None else [limit]
    x_axis = _Axis.linear(max(xs), LEFT, WIDTH - RIGHT)
    low, high = HEIGHT - BOTTOM, TOP
    y_axis = _Axis.log(ys, low, high) if log_y else _Axis.linear(max(ys), low, high)
    parts = [*_frame(x_axis, y_axis, x_name, y_name)]
    if limit is not None:
        y = y_axis.place(limit)
        parts.append(f'<path class="limit" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    for number, one in enumerate(drawn):
        parts += _series(one, f"s{number % 4}", x_axis, y_axis)
    parts += _legend(drawn)
    names = ", ".join(one.name for one in drawn)
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>"
        f"<desc>{escape(names)}: {escape(y_name)} over {escape(x_name)}; y up to {max(ys):.4g}, "
        f"x up to {max(xs):.4g}.</desc>"
        f'<text class="head" x="{LEFT}" y="16">{escape(title)}</text>{"".join(parts)}'
        "</svg></figure>"
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """Values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    is_log: bool = False

    @classmethod
    def linear(cls, most: float, start: float, end: float) -> _Axis:
        step = _nice((most if most > LEAST else 1.0) / 5)
        count = max(math.ceil(most / step - 1e-9), 1)
        ticks = tuple(step * i for i in range(count + 1))
        return cls(0.0, ticks[-1], start, end, ticks)

    @classmethod
    def log(cls, values: Sequence[float], start: float, end: float) -> _Axis:
        positive = [value for value in values if value > LEAST] or [1.0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        high = max(high, low + 1)
        return cls(low, high, start, end, tuple(10.0**i for i in range(low, high + 1)), True)

    def place(self, value: float) -> float:
        if self.is_log:
            value = math.log10(max(value, 10.0**self.low))
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _nice(step: float) -> float:
    """The next of 1, 2, 5, 10, … times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * (1 - 1e-9))


def _frame(x_axis: _Axis, y_axis: _Axis, x_name: str, y_name: str) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{tick:,.6g}</text>")  # fmt: skip
    for tick in x_axis.ticks:
        parts.append(f'<text class="tick" x="{x_axis.place(tick):.1f}" y="{bottom + 16}" '
                     f'text-anchor="middle">{tick:,.6g}</text>')  # fmt: skip
    middle, centre = (LEFT + right) / 2, (TOP + bottom) / 2
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    for place, name in (
        (f"translate({middle} {HEIGHT - 10})", x_name),
        (f"translate(14 {centre}) rotate(-90)", y_name),
    ):
        parts.append(f'<text class="name" transform="{place}" text-anchor="middle">'
                     f"{escape(name)}</text>")  # fmt: skip
    return parts


def _series(one: Series, css: str, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    places = [(x_axis.place(x), y_axis.place(y)) for x, y in one.points]
    path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
    for x, y in places[1:]:
        path += f"H{x:.1f}V{y:.1f}" if one.steps else f"L{x:.1f} {y:.1f}"
    parts = [f'<path class="line {css}" d="{path}"/>'] if one.line else []
    if one.dots:
        for (x, y), (value_x, value_y) in zip(places, one.points, strict=True):
            parts.append(f'<circle class="dot {css}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
                         f"<title>{value_x:,.4g} · {value_y:,.4g}</title></circle>")  # fmt: skip
    for (x, y), label in zip(places, one.labels, strict=False):
        parts.append(f'<text class="tick" x="{x + 6:.1f}" y="{y - 6:.1f}">{escape(label)}</text>')
    return parts


def _legend(drawn: Sequence[Series]) -> list[str]:
    if len(drawn) < 2:
        return []
    parts, x = [], LEFT
    for number, one in enumerate(drawn):
        parts.append(f'<path class="line s{number % 4}" d="M{x} 29h14"/>')
        parts.append(f'<text class="tick" x="{x + 18}" y="33">{escape(one.name)}</text>')
        x += 7 * len(one.name) + 34
    return parts
