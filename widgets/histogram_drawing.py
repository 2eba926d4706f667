"""Histograms as a static drawing: a column a metric, a row a run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from widgets.axes import Scale, log_range, nice_limit
from widgets.distribution import bars, bin_edge
from widgets.histogram_model import METRICS, HistogramModel, RunLatencies, floored
from widgets.labels import Labels
from widgets.numbers import THIN, fixed, plain, seconds
from widgets.shapes import Drawing, Line, Path, Rect, Shape, Text
from widgets.still import top

WIDTH, GAP, TALL, BARS = 900.0, 30.0, 84.0, 44
CLIP = 1.6  # a linear axis ends at this many times the p99, and says what lies beyond


def draw(model: HistogramModel, headline: str, subtitle: str) -> Drawing:
    """All metrics that have a value, those of two runs on the same axes."""
    headers = [lane.header for lane in model.lanes if lane.header]
    origins = list(dict.fromkeys(
        (header.provenance, f"{header.device}, {header.model} {header.dtype}") for header in headers
    ))  # fmt: skip
    shapes, y = top(headline, subtitle, origins, WIDTH)
    names = [name for name in METRICS if any(lane.found[name].n for lane in model.lanes)]
    wide = (WIDTH - GAP * (len(names) - 1)) / len(names)
    for lane in model.lanes:
        if lane.title:
            y += 16
            shapes.append(Text(0, y, lane.title, "ink", 14, True))
            y += 6
        for column, name in enumerate(names):
            shapes += panel(model, lane, name, column * (wide + GAP), y, wide)
        y += TALL + 118
    return Drawing(WIDTH, y, shapes)


def span(model: HistogramModel, name: str, log: bool) -> tuple[float, float]:
    """The ends of a metric's axis in seconds, shared by the runs."""
    found = [lane.found[name] for lane in model.lanes if lane.found[name].n]
    limit = model.slo_ms.get(name, 0) / 1000
    if log:
        ends = [bin_edge(index) for each in found for index, _ in each.bins()]
        return log_range([*ends, limit], 1.1)
    most = max(each.most for each in found)
    p99 = max(each.percentiles(99)[0] for each in found)
    return 0.0, nice_limit(min(most, max(p99 * CLIP, limit * 1.15)))


def edges(low: float, high: float, log: bool, count: int = BARS) -> list[float]:
    """The ends of `count` bars."""
    if log:
        return [low * (high / low) ** (i / count) for i in range(count + 1)]
    return [low + (high - low) * i / count for i in range(count + 1)]


def panel(
    model: HistogramModel, lane: RunLatencies, name: str, left: float, y: float, wide: float
) -> Iterator[Shape]:
    """One histogram: title, figures, bars, marks, axis."""
    found, limit = lane.found[name], model.slo_ms.get(name)
    yield Text(left, y + 14, METRICS[name], "ink", 12.5, True)
    yield Text(left + wide, y + 14, f"n = {found.n:,}", "ink3", 11, False, "end")
    p50, p95, p99 = found.percentiles(50, 95, 99)
    shown = [("p50", seconds(p50)), ("p95", seconds(p95)),
             ("p99", "too few" if found.n < 100 else seconds(p99))]  # fmt: skip
    if limit is not None:
        shown.append(("in SLO", floored(found.share_within(limit / 1000)) or "n/a"))
    for column, (label, value) in enumerate(shown):
        x = left + column * wide / len(shown)
        yield Text(x, y + 32, label, "ink3", 10.5)
        yield Text(x, y + 49, value, "ink", 14, True)
    if not found.n:
        return
    low, high = span(model, name, model.log)
    scale = Scale(low, high, left, left + wide, model.log)
    yield from _bars(model, lane, name, scale, y + 72)
    yield from _marks(scale, y + 72, limit, [("p50", p50), ("p95", p95)]
                      + ([] if found.n < 100 else [("p99", p99)]))  # fmt: skip
    beyond = found.n - sum(bars(found.bins(), edges(low, high, model.log)))
    if beyond >= 0.5:
        words = f"{fixed(beyond)} beyond, up to {seconds(found.most)}"
        yield Text(left + wide, y + 72 + TALL + 30, words, "ink3", 10.5, False, "end")


def _bars(
    model: HistogramModel, lane: RunLatencies, name: str, scale: Scale, y: float
) -> Iterator[Shape]:
    ends = edges(scale.low, scale.high, scale.log)
    each = [bars(one.found[name].bins(), ends) for one in model.lanes]
    tallest = math.sqrt(max(1.0, *(max(counts) for counts in each)))
    counts = each[model.lanes.index(lane)]
    limit = model.slo_ms.get(name, math.inf) / 1000
    if math.isfinite(limit):
        width = scale.at(min(limit, scale.high)) - scale.start
        yield Rect(scale.start, y, width, TALL, "ok_soft")
    for i, count in enumerate(counts):
        if count > 0:
            tall = max(1.0, math.sqrt(count) / tallest * (TALL - 4))
            x = scale.at(ends[i])
            color = "waste" if ends[i] >= limit - 1e-12 else "decode"
            width = max(0.8, scale.at(ends[i + 1]) - x - 1)
            yield Rect(x, y + TALL - tall, width, tall, color)
    yield Line(scale.start, y + TALL, scale.end, y + TALL, "line")
    unit_s = scale.high >= 2
    for value, label in Scale(
        scale.low * (1 if unit_s else 1000), scale.high * (1 if unit_s else 1000),
        scale.start, scale.end, scale.log,
    ).ticks(70):  # fmt: skip
        x = scale.at(value / (1 if unit_s else 1000))
        last = x > scale.end - 20
        words = f"{label}{THIN}{'s' if unit_s else 'ms'}" if last else label
        yield Text(x, y + TALL + 15, words, "ink3", 10.5, False, "end" if last else "middle")


def _marks(
    scale: Scale, y: float, limit: float | None, marks: list[tuple[str, float]]
) -> Iterator[Shape]:
    labels = Labels((scale.start - 4, y - 22, scale.end + 6, y + TALL))
    if limit is not None:
        inside = limit / 1000 < scale.high
        x = scale.at(limit / 1000) if inside else scale.end + 4
        if inside:
            yield Path([(x, y - 4), (x, y + TALL)], "ok", 1.4, (5, 3))
        words = f"SLO {plain(limit)}{THIN}ms" + ("" if inside else " →")
        yield from labels.beside(words, x, y - 9, size=10.5, color="ok_text",
                                 bold=True, sides=("e", "w"), gap=2, force=True)  # fmt: skip
    for i, (name, value) in enumerate(marks):
        if value > scale.high:
            continue
        x, start = scale.at(value), y + 6 + 16 * i
        yield Line(x, start, x, y + TALL, "ink", 1.4)
        yield from labels.beside(name, x, start + 4, size=10.5, color="ink", bold=True,
                                 sides=("e", "w"), gap=4, force=True)  # fmt: skip
