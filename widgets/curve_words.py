"""What a throughput curve says, in words and as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from widgets.numbers import THIN, fixed, number3, plain
from widgets.still import Cell, Table

if TYPE_CHECKING:
    from widgets.curve_model import CurveModel, Point


def headline(curve: CurveModel) -> str:
    """The finding: what the line in focus gains at its sweet spot, and at what price."""
    line = curve.lines.get(curve.focus or "")
    points = line.drawn if line else []
    if not points:
        return ""
    spot, first = curve.sweet_spot(line), points[0]
    if spot is None:
        return f"{line.name}: no load keeps {_ms(curve.slo_ms)} per token."
    if spot.point is first:
        where = f"{line.load_name} {plain(first.load)}"
        return f"{line.name}: {number3(first.tok_s)} tokens per second at {where}."
    gain, price = spot.point.tok_s / first.tok_s, spot.point.ms / first.ms
    return (
        f"{line.name}: {_times(gain)} the tokens per second at {line.load_name} "
        f"{plain(spot.point.load)}, for {_times(price)} the time per token."
    )


def subtitle(curve: CurveModel) -> str:
    if curve.empty:
        return ""
    if curve.slo_ms is None:
        return "The star is the most throughput seen."
    return f"The star is the most throughput within {_ms(curve.slo_ms)} per token."


def note(curve: CurveModel) -> str:
    """What a reader has to know before comparing heights."""
    models = list(dict.fromkeys(line.model for line in curve.lines.values() if line.drawn))
    notes = []
    if len(models) > 1:
        notes.append("The lines run different models: compare shapes, not heights.")
    if any(spot and spot.at_end for spot in map(curve.sweet_spot, curve.lines.values())):
        notes.append("≥ : the sweep ends before the limit does.")
    return " ".join(notes)


def describe(curve: CurveModel) -> str:
    """The chart in sentences."""
    parts = ["Throughput against time per token."]
    for line in curve.lines.values():
        if not line.drawn:
            continue
        first, last, spot = line.drawn[0], line.drawn[-1], curve.sweet_spot(line)
        best = f"{line.load_name} {plain(spot.point.load)}" if spot else "none"
        parts.append(
            f"{line.name}, {line.provenance}: from {number3(first.tok_s)} tokens per second at "
            f"{_ms(first.ms)} to {number3(last.tok_s)} at {_ms(last.ms)}; sweet spot {best}."
        )
    parts += [f"{p.name}, published: {number3(p.tok_s)} at {_ms(p.ms)}." for p in curve.published]
    return " ".join(parts)


def table(curve: CurveModel) -> Table:
    """A row a point, its source last."""
    columns = ("line", "load", "ms per token", "p99 ms", "tok/s", "runs", "SLO", "source")
    rows: list[list[Cell]] = []
    for line in curve.lines.values():
        spot = curve.sweet_spot(line)
        for point in line.drawn:
            star = " ★" if spot and spot.point is point else ""
            rows.append([
                line.name, f"{line.load_name} {plain(point.load)}{star}", _round(point.ms),
                _round(point.p99_ms), _round(point.tok_s), len(point.runs), _verdict(curve, point),
                " ".join([line.provenance, line.detail]).strip(),
            ])  # fmt: skip
    for one in curve.published:
        rows.append([one.name, one.load or None, _round(one.ms), None, _round(one.tok_s), None,
                     None, f"published: {one.source}"])  # fmt: skip
    return columns, rows


def _verdict(curve: CurveModel, point: Point) -> str | None:
    if curve.slo_ms is None:
        return None
    return "meets" if curve.meets(point) else "over"


def _ms(value: float) -> str:
    return f"{plain(value)}{THIN}ms"


def _times(ratio: float) -> str:
    return f"{fixed(ratio, 0 if ratio >= 9.5 else 1).removesuffix('.0')}×"


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
