"""A log-log scatter plot as an SVG text: predicted against measured, with a band of ±10 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

SIZE, LEFT, BOTTOM, TOP, LEGEND = 520, 62, 52, 34, 190
TICKS = (2, 3, 5, 10, 20, 30, 50, 100, 200)
# Okabe and Ito's palette: told apart with any colour vision; shapes differ as well.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("circle", "square", "triangle", "diamond")


class Series(NamedTuple):
    """points: (measured, predicted, whether it is in the fit half)."""

    name: str
    points: Sequence[tuple[float, float, bool]]


def scatter(title: str, description: str, unit: str, series: Sequence[Series]) -> str:
    """The whole file. Filled marks: the half that fits may use; hollow ones: held out."""
    values = [v for s in series for x, y, _ in s.points for v in (x, y)]
    low, high = min(values) / 1.2, max(values) * 1.2
    span = SIZE / math.log(high / low)

    def at(measured: float, predicted: float) -> tuple[float, float]:
        x = LEFT + math.log(measured / low) * span
        return round(x, 1), round(TOP + SIZE - math.log(predicted / low) * span, 1)

    width, height = LEFT + SIZE + LEGEND, TOP + SIZE + BOTTOM
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" aria-labelledby="t d" '
            'font-family="sans-serif" font-size="13">'
        ),
        f'<title id="t">{escape(title)}</title><desc id="d">{escape(description)}</desc>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        _band(at, low, high),
        *_axes(at, low, high, unit),
    ]
    for i, one in enumerate(series):
        colour, shape = COLOURS[i % len(COLOURS)], SHAPES[i % len(SHAPES)]
        for measured, predicted, seen in one.points:
            parts.append(_mark(*at(measured, predicted), shape, colour, seen))
        x, y = LEFT + SIZE + 22, TOP + 16 + 22 * i
        parts.append(_mark(x, y - 4, shape, colour, True))
        parts.append(f'<text x="{x + 12}" y="{y}">{escape(one.name)}</text>')
    y = TOP + 16 + 22 * len(series) + 14
    for text, seen in (("fit half", True), ("held out", False)):
        parts.append(_mark(LEFT + SIZE + 22, y - 4, "circle", "#555555", seen))
        parts.append(f'<text x="{LEFT + SIZE + 34}" y="{y}">{text}</text>')
        y += 22
    parts.append(f'<text x="{LEFT + SIZE + 16}" y="{y + 4}">grey band: ±10 %</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _band(at, low: float, high: float) -> str:
    """The polygon between 0.9 and 1.1 times the measured value, and the diagonal."""
    corners = [(low, low), (low, low * 1.1), (high / 1.1, high), (high, high),
               (high, high * 0.9), (low / 0.9, low)]  # fmt: skip
    points = " ".join(f"{x},{y}" for x, y in (at(*corner) for corner in corners))
    (x1, y1), (x2, y2) = at(low, low), at(high, high)
    return (
        f'<polygon points="{points}" fill="#e4e4e4"/>'
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#888888"/>'
    )


def _axes(at, low: float, high: float, unit: str) -> list[str]:
    parts = [
        f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#333333"/>'
    ]
    for tick in TICKS:
        if low < tick < high:
            x, _ = at(tick, low)
            _, y = at(low, tick)
            bottom = TOP + SIZE
            parts.append(f'<line x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 5}" stroke="#333"/>')
            parts.append(f'<text x="{x}" y="{bottom + 20}" text-anchor="middle">{tick}</text>')
            parts.append(f'<line x1="{LEFT - 5}" y1="{y}" x2="{LEFT}" y2="{y}" stroke="#333"/>')
            parts.append(f'<text x="{LEFT - 9}" y="{y + 4}" text-anchor="end">{tick}</text>')
    middle = TOP + SIZE / 2
    parts.append(
        f'<text x="{LEFT + SIZE / 2}" y="{TOP + SIZE + 42}" text-anchor="middle">'
        f"measured (published), {escape(unit)}</text>"
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">'
        f"predicted (simulated), {escape(unit)}</text>"
    )
    return parts


def _mark(x: float, y: float, shape: str, colour: str, filled: bool) -> str:
    fill = colour if filled else "#ffffff"
    style = f'fill="{fill}" fill-opacity="0.75" stroke="{colour}" stroke-width="1.2"'
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="4" {style}/>'
    corners = {
        "square": ((-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)),
        "triangle": ((0, -4.8), (4.4, 3.4), (-4.4, 3.4)),
        "diamond": ((0, -5), (4.4, 0), (0, 5), (-4.4, 0)),
    }[shape]
    points = " ".join(f"{round(x + dx, 1)},{round(y + dy, 1)}" for dx, dy in corners)
    return f'<polygon points="{points}" {style}/>'
