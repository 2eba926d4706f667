"""What a strip chart says: a headline, sentences, a table of what was read and what was not."""

from __future__ import annotations

import math
from dataclasses import asdict

from minillm.core.metrics import percentile
from minillm.core.trace import TraceHeader
from widgets.numbers import THIN, fixed, number3
from widgets.still import Cell, Table
from widgets.strip_model import Strip, StripModel


def header_dict(header: TraceHeader) -> dict:
    """What the view says of the run."""
    known = asdict(header)
    return {name: known[name] for name in ("provenance", "device", "model", "dtype")}


def value_text(value: float | None, unit: str) -> str:
    """98 %, 11.4 GB/s, 742 MB, 512 W, 12: n/a for what is missing."""
    if value is None or math.isnan(value):
        return "n/a"
    if unit == "%":
        return f"{99 if 99 < value < 100 else fixed(value)}{THIN}%"
    if unit in ("B", "B/s"):
        for size, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
            if value >= size:
                return f"{number3(value / size)}{THIN}{name}{unit[1:]}"
        return f"{number3(value / 1e3)}{THIN}kB{unit[1:]}"
    gap = THIN if unit else ""
    return f"{number3(value) if value != int(value) else f'{int(value):,}'}{gap}{unit}"


def values(model: StripModel, strip: Strip) -> list[float]:
    """A strip's known values."""
    return [value for _, value in model.series(strip) if not math.isnan(value)]


def headline(model: StripModel) -> str:
    """How full the rows were and how busy the device, as time-weighted shares of the run."""
    shown = {strip.key: strip for strip in model.shown()}
    if "running" not in shown:
        return ""
    rows = _mean_over_time(model, shown["running"])
    slots = model.limits.get("running")
    words = [f"{rows:.1f} of {slots:.0f} rows in use" if slots else f"{rows:.1f} rows in use"]
    for key, name in (("gpu_busy", "SM busy"), ("sim_busy", "GPU busy"), ("duty", "engine busy")):
        if key in shown:
            share = _mean_over_time(model, shown[key])
            words.append(f"{name} {value_text(share, '%')} of the time")
            break
    return ", ".join(words) + ", on average."


def _mean_over_time(model: StripModel, strip: Strip) -> float:
    points = [(t, v) for t, v in model.series(strip) if not math.isnan(v)]
    weighted = [(points[i][1], points[i][0] - points[i - 1][0]) for i in range(1, len(points))]
    total = sum(seconds for _, seconds in weighted)
    return sum(v * s for v, s in weighted) / total if total > 0 else points[0][1]


def describe(model: StripModel) -> str:
    """The chart in sentences."""
    parts = ["Strips over time."]
    for strip in model.shown():
        known = values(model, strip)
        middle, most = percentile(known, 50), max(known)
        parts.append(
            f"{strip.label}: median {value_text(middle, strip.unit)}, "
            f"at most {value_text(most, strip.unit)}."
        )
    for reason, labels in model.missing():
        parts.append(f"{', '.join(labels)}: n/a ({reason}).")
    return " ".join(parts)


def table(model: StripModel) -> Table:
    """A row a strip, those that were not read with their reason."""
    columns = ("strip", "last", "median", "p95", "most", "where from")
    where = model.header.provenance if model.header else ""
    rows: list[list[Cell]] = []
    for strip in model.shown():
        known = values(model, strip)
        found = (known[-1], percentile(known, 50), percentile(known, 95), max(known))
        rows.append([strip.label, *(value_text(each, strip.unit) for each in found), where])
    for reason, labels in model.missing():
        rows += [[label, None, None, None, None, reason] for label in labels]
    return columns, rows
