"""A strip chart as a static drawing: label above, strip, last value and limit at the right."""

from __future__ import annotations

import math
from collections.abc import Iterator

from widgets.axes import nice_limit
from widgets.shapes import Drawing, Line, Path, Shape, Text, axis
from widgets.still import top, wrapped
from widgets.strip_model import ENGINE, Strip, StripModel
from widgets.strip_words import value_text

WIDTH, LEFT, MARGIN = 900.0, 34.0, 150.0
STRIP, PITCH = 26.0, 52.0
MOST = 700  # points of a strip that are drawn
COLORS = {"work": ("decode", "soft"), "queue": ("queue", "grid"), "machine": ("ink3", "grid")}


def draw(model: StripModel, headline: str) -> Drawing:
    """The strips that have figures, on one axis from the first request to the end."""
    header = model.header
    origins = [(header.provenance, f"{header.device}, {header.model} {header.dtype}")]
    shapes, y = top(headline, "", origins, WIDTH)
    end = max(model.now - (model.origin or 0.0), 0.05) * 1.02
    scale = (WIDTH - MARGIN - LEFT) / end
    for strip in model.shown():
        shapes += _strip(model, strip, y, scale)
        y += PITCH
    moved = [_moved(shape, LEFT) for shape in axis(end, scale, y, (0.0, WIDTH - MARGIN - LEFT))]
    shapes += moved
    y += 48
    for reason, labels in model.missing():
        for words in wrapped(f"{', '.join(labels)}: n/a ({reason})", WIDTH, 11):
            shapes.append(Text(0, y, words, "ink3", 11))
            y += 16
    return Drawing(WIDTH, y, shapes)


def _moved(shape: Shape, dx: float) -> Shape:
    if isinstance(shape, Line):
        return shape._replace(x0=shape.x0 + dx, x1=shape.x1 + dx)
    return shape._replace(x=shape.x + dx)


def _strip(model: StripModel, strip: Strip, y: float, scale: float) -> Iterator[Shape]:
    points = thinned(model.series(strip), MOST)
    known = [value for _, value in points if not math.isnan(value)]
    limit = model.limits.get(strip.key) or (100.0 if strip.unit == "%" else nice_limit(max(known)))
    low, high = y + 14 + STRIP, y + 14
    color, fill = COLORS[strip.tone]
    yield Text(LEFT, y + 8, strip.label, "ink", 11.5)
    yield Line(LEFT, low + 0.5, WIDTH - MARGIN, low + 0.5, "line")
    for run in _steps(points, 0.0 if strip.group == ENGINE else None):
        places = [(LEFT + t * scale, low - min(v / limit, 1.0) * STRIP) for t, v in run]
        area = [(places[0][0], low), *places, (places[-1][0], low)]
        yield Path(area, "", 1, (), fill)
        yield Path(places, color, 1.3)
    yield Line(LEFT, high, WIDTH - MARGIN, high, "line", 0.6, True)
    x = WIDTH - MARGIN + 14
    of = f" of {limit:,.0f}" if strip.key in ("running", "kv") else ""
    yield Text(x, y + 26, value_text(known[-1], strip.unit) + of, "ink", 13, True)
    aside = strip.aside
    if strip.key in ("gpu_memory", "gpu_power") and strip.key in model.limits:
        aside = f"of {value_text(model.limits[strip.key], strip.unit)}"
    yield Text(x, y + 40, aside, "ink3", 11)


def _steps(
    points: list[tuple[float, float]], before: float | None
) -> Iterator[list[tuple[float, float]]]:
    """Stair lines: a value holds from the sample before to its own; a gap begins a new line.

    before: since when the first value holds, None where that is not known.
    """
    run: list[tuple[float, float]] = []
    for t, value in points:
        if math.isnan(value):
            if run:
                yield run
            run = []
        elif t >= 0:
            start = max(0.0, t if before is None else before)
            run += [(start, value), (t, value)]
        before = t
    if run:
        yield run


def thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most about `most` points: of each stretch the least and the most, in their order."""
    if len(points) <= most:
        return points
    size, kept = math.ceil(len(points) / (most / 2)), []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        known = [p for p in part if not math.isnan(p[1])] or part[:1]
        ends = {min(known, key=lambda p: p[1]), max(known, key=lambda p: p[1]), part[-1]}
        kept += sorted(ends)
    return kept
