"""Shapes in pixels, their colours, and round ticks: what drawings are made of, for any writer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PALETTE = {
    "bg": "#FFFFFF", "panel": "#F6F7F9", "ink": "#14181D", "ink2": "#434C58", "ink3": "#5F6976",
    "line": "#C5CCD5", "grid": "#E8EBEF", "decode": "#0072B2", "prefill": "#E69F00",
    "edge": "#855700", "waste": "#D55E00", "waste_text": "#AD4A00", "pre": "#A8457F",
    "pre_text": "#93366D", "queue": "#7A8694", "soft": "#D3E6F3", "ok": "#009E73",
    "ok_text": "#006B4E", "ok_soft": "#EBF7F3", "pale": "#ECF3F9",
}  # fmt: skip


class Rect(NamedTuple):
    """fill: a colour's name, "hatch", or "" for a hollow box in `stroke`."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = ""


class Line(NamedTuple):
    x0: float
    y0: float
    x1: float
    y1: float
    color: str
    width: float = 1.0
    dots: bool = False


class Text(NamedTuple):
    """anchor: start, middle or end; y is the baseline."""

    x: float
    y: float
    text: str
    color: str = "ink2"
    size: float = 11.0
    bold: bool = False
    anchor: str = "start"


class Path(NamedTuple):
    """A line through points. dash: pixels on and off, () for none; fill: a colour's name for the
    area, which is closed from the last point to the first."""

    points: Sequence[tuple[float, float]]
    color: str = ""
    width: float = 1.5
    dash: tuple[float, ...] = ()
    fill: str = ""


class Mark(NamedTuple):
    """A point of a chart. kind: "measured" ●, "simulated" ◐, "published" ◇, "star" ★."""

    x: float
    y: float
    kind: str
    color: str = "ink"
    radius: float = 4.5


Shape = Rect | Line | Text | Path | Mark


def outline(mark: Mark) -> list[tuple[float, float]]:
    """The corners of a mark that has some: ◇ and ★."""
    count, inner = (4, 1.0) if mark.kind == "published" else (10, 0.44)
    radius = mark.radius * (1.25 if mark.kind == "published" else 1.6)
    return [
        (
            mark.x + radius * (inner if i % 2 else 1.0) * math.sin(2 * math.pi * i / count),
            mark.y - radius * (inner if i % 2 else 1.0) * math.cos(2 * math.pi * i / count),
        )
        for i in range(count)
    ]


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes in drawing order on `width` × `height` pixels."""

    width: float
    height: float
    shapes: list[Shape]


def tick_step(span: float, most: float) -> tuple[float, int]:
    """A round step that gives at most `most` ticks over `span`, and its decimals."""
    rough = span / max(1.0, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(f for f in (1, 2, 2.5, 5, 10) if f * power >= rough * 0.999)
    decimals = max(0, -math.floor(math.log10(step)))
    whole = step * 10**decimals
    return step, decimals + (abs(whole - round(whole)) > 1e-6)


def axis(end: float, scale: float, y: float, span: tuple[float, float]) -> Iterator[Shape]:
    """A time axis from 0 to `end` seconds over the pixels `span`, `scale` pixels a second."""
    yield Line(span[0], y + 0.5, span[1], y + 0.5, "line")
    step, decimals = tick_step(end, (span[1] - span[0]) / 84)
    for number in range(int(end / step + 1e-9) + 1):
        x = span[0] + number * step * scale
        yield Line(x, y, x, y + 4, "line")
        label = f"{number * step:.{decimals}f}" if number else "0"
        yield Text(x, y + 18, label, "ink3", 11, False, "middle")
    caption = "seconds since the first request"
    yield Text(span[1], y + 34, caption, "ink3", 11, False, "end")


def legend(y: float) -> Iterator[Shape]:
    """What the marks mean."""
    x = 0.0
    for fill, label in (
        ("queue", "queued"), ("prefill", "prefill chunk"), ("decode", "decode, one token a step"),
        ("hatch", "padding: computed, thrown away"), ("pre", "preempted"), ("ink", "finished"),
    ):  # fmt: skip
        if fill == "queue":
            yield Line(x, y - 4, x + 26, y - 4, "queue", 1.0, True)
        elif fill == "pre":
            yield Rect(x, y - 7, 26, 6, "bg", "pre")
        elif fill == "ink":
            yield Rect(x + 12, y - 10, 2, 12, "ink")
        else:
            yield Rect(x, y - 9, 26, 9, fill, "edge" if fill == "prefill" else "")
        yield Text(x + 33, y, label)
        x += 33 + len(label) * 5.9 + 20
