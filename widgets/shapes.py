"""Shapes in pixels, their colours, and round ticks: what drawings are made of, for any writer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

PALETTE = {
    "bg": "#FFFFFF", "panel": "#F6F7F9", "ink": "#14181D", "ink2": "#434C58", "ink3": "#5F6976",
    "line": "#C5CCD5", "grid": "#E8EBEF", "decode": "#0072B2", "prefill": "#E69F00",
    "edge": "#855700", "waste": "#D55E00", "waste_text": "#AD4A00", "pre": "#A8457F",
    "pre_text": "#93366D", "queue": "#7A8694",
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


Shape = Rect | Line | Text


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
    factor = next(f for f in (1, 2, 2.5, 5, 10) if f * power >= rough * 0.999)
    decimals = max(0, -math.floor(math.log10(factor * power))) + (factor == 2.5)
    return factor * power, decimals
