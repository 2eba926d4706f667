"""The throughput curve as a static drawing: the chart, its points and names, no tables."""

from __future__ import annotations

from collections.abc import Iterator

from widgets.axes import Scale, log_range, minor_ticks
from widgets.curve_model import CurveModel, Line, Point
from widgets.labels import Labels
from widgets.numbers import plain
from widgets.shapes import Drawing, Mark, Path, Rect, Shape, Text
from widgets.shapes import Line as Rule
from widgets.still import top

WIDTH, HEIGHT, LEFT = 900.0, 430.0, 62.0


def draw(curve: CurveModel, headline: str, subtitle: str) -> Drawing:
    """Headline, provenance and chart. The curve must have a point."""
    shapes, y0 = top(headline, subtitle, _origins(curve), WIDTH)
    y0 += 20
    x, y = _scales(curve, y0)
    shapes += _region(curve, x, y)
    shapes += _frame(x, y)
    ahead = [(x.at(point.ms), y.at(point.tok_s)) for _, point in curve.front()]
    if len(ahead) > 1:
        shapes.append(Path(ahead, "grid", 12))
    labels = Labels((x.start, y.end, WIDTH, y.start))
    shapes += _limit_words(curve, labels, x, y)
    for one in curve.published:
        shapes.append(Mark(x.at(one.ms), y.at(one.tok_s), "published"))
        _block(labels, shapes[-1])
    for line in curve.lines.values():
        shapes += _line(curve, line, x, y, labels)
    for line in curve.lines.values():
        shapes += _names(curve, line, x, y, labels)
    for one in curve.published:
        place = x.at(one.ms), y.at(one.tok_s)
        shapes += labels.beside(one.name, *place, size=10.5, color="ink3")
    return Drawing(WIDTH, y.start + 44, shapes)


def _origins(curve: CurveModel) -> list[tuple[str, str]]:
    origins = []
    for provenance in ("measured", "simulated"):
        lines = [c for c in curve.lines.values() if c.provenance == provenance and c.drawn]
        details = dict.fromkeys(line.detail for line in lines if line.detail)
        if lines:
            names = ", ".join(line.name for line in lines)
            origins.append((provenance, ", ".join([names, *details])))
    if curve.published:
        origins.append(("published", "sources in the table"))
    return origins


def _scales(curve: CurveModel, y0: float) -> tuple[Scale, Scale]:
    runs = [run for line in curve.lines.values() for point in line.drawn for run in point.runs]
    ms = [run.ms for run in runs] + [one.ms for one in curve.published]
    tok = [run.tok_s for run in runs] + [one.tok_s for one in curve.published]
    ms += [curve.slo_ms] if curve.slo_ms else []
    x = Scale(*log_range(ms, 1.12), LEFT, WIDTH - 8, True)
    return x, Scale(*log_range(tok, 1.6), y0 + HEIGHT, y0, True)


def _region(curve: CurveModel, x: Scale, y: Scale) -> Iterator[Shape]:
    if curve.slo_ms is None:
        return
    at = x.at(curve.slo_ms)
    yield Rect(x.start, y.end, at - x.start, y.start - y.end, "ok_soft")
    yield Path([(at, y.end), (at, y.start)], "ok", 1.6, (6, 4))


def _limit_words(curve: CurveModel, labels: Labels, x: Scale, y: Scale) -> list[Text]:
    if curve.slo_ms is None:
        return []
    at, words = x.at(curve.slo_ms), f"meets the SLO: ITL ≤ {plain(curve.slo_ms)}\u2009ms"
    inside = labels.beside(
        words, at, y.end + 12, size=11.5, color="ok_text", bold=True, sides=("w", "e"), force=True
    )
    return inside + labels.beside("too slow per user", at, y.end + 12, color="ink3", sides=("e",))


def _block(labels: Labels, mark: Mark) -> None:
    labels.block((mark.x - 6, mark.y - 6, mark.x + 6, mark.y + 6))


def _frame(x: Scale, y: Scale) -> Iterator[Shape]:
    for value, name in x.ticks():
        yield Rule(x.at(value), y.end, x.at(value), y.start + 5, "grid", 0.8)
        yield Text(x.at(value), y.start + 18, name, "ink3", 11, False, "middle")
    for value, name in y.ticks():
        yield Rule(x.start, y.at(value), x.end, y.at(value), "grid", 0.8)
        yield Text(x.start - 8, y.at(value) + 4, name, "ink3", 11, False, "end")
    for value in minor_ticks(x.low, x.high):
        yield Rule(x.at(value), y.start, x.at(value), y.start + 3, "line")
    for value in minor_ticks(y.low, y.high):
        yield Rule(x.start - 3, y.at(value), x.start, y.at(value), "line")
    yield Rule(x.start, y.start, x.end, y.start, "line")
    yield Text(x.start, y.end - 8, "output tokens per second, all users (log) ↑", "ink2", 11)
    caption = "ms per token for each user (log) → slower"
    yield Text(x.end, y.start + 36, caption, "ink2", 11, False, "end")


def _color(curve: CurveModel, line: Line) -> str:
    if line.provenance == "measured":
        return "decode"
    return "ink" if line.key == curve.focus else "ink3"


def _line(
    curve: CurveModel, line: Line, x: Scale, y: Scale, labels: Labels
) -> Iterator[Shape]:  # fmt: skip
    points, color = line.drawn, _color(curve, line)
    if not points:
        return
    places = [(x.at(point.ms), y.at(point.tok_s)) for point in points]
    yield Path(places, color, 1.8, () if line.provenance == "measured" else (5, 3.5))
    spot = curve.sweet_spot(line)
    for point, place in zip(points, places, strict=True):
        yield from _bars(point, x, y, color)
        star = spot is not None and spot.point is point
        mark = Mark(*place, "star" if star else line.provenance, "ok" if star else color)
        _block(labels, mark)
        yield mark


def _names(
    curve: CurveModel, line: Line, x: Scale, y: Scale, labels: Labels
) -> Iterator[Shape]:  # fmt: skip
    """The line's name at its last point, and its loads where it is the one to read."""
    points, color = line.drawn, _color(curve, line)
    if not points:
        return
    place = x.at(points[-1].ms), y.at(points[-1].tok_s)
    yield from labels.beside(
        line.name, *place, size=12.5, color=color, bold=True, sides=("ne", "e", "nw", "se", "n"),
        force=True,
    )  # fmt: skip
    if color == "ink3":
        return
    for point in points:
        user = point.load == 1 and line.load_name != "rate"
        words = "1 user" if user else plain(point.load)
        yield from labels.beside(words, x.at(point.ms), y.at(point.tok_s), size=10.5, color=color)


def _bars(point: Point, x: Scale, y: Scale, color: str) -> Iterator[Shape]:
    ms, tok = [run.ms for run in point.runs], [run.tok_s for run in point.runs]
    px, py = x.at(point.ms), y.at(point.tok_s)
    left, right = x.at(min(ms)), x.at(max(ms))
    if right - left > 2:
        yield Rule(left, py, right, py, color, 1.3)
        yield from (Rule(end, py - 4, end, py + 4, color, 1.3) for end in (left, right))
    low, high = y.at(min(tok)), y.at(max(tok))
    if low - high > 2:
        yield Rule(px, high, px, low, color, 1.3)
        yield from (Rule(px - 4, end, px + 4, end, color, 1.3) for end in (low, high))
