"""Published points for a throughput chart: figures of one user at a time, each with its source.

With one user, tokens per second and time per token are the same figure, one the reciprocal of the
other; so the table's TPOT or decode speed gives both coordinates, and nothing is assumed.
"""

from __future__ import annotations

import csv
import re
from importlib.resources import files

from widgets.curve_model import Published

METRICS = {"tpot_p50": "ms", "decode_speed": "tok/s"}


def published_points(
    hardware: str = "", model: str = "", dtypes: tuple[str, ...] = ("bf16", "fp16")
) -> list[Published]:
    """The single-user figures whose hardware and model match (regular expressions, any case)."""
    text = (files("minillm.data") / "measured.csv").read_text(encoding="utf-8")
    points = []
    for row in csv.DictReader(text.splitlines()):
        unit = METRICS.get(row["metric"])
        wanted = unit == row["unit"] and row["batch_or_concurrency"] == "1"
        wanted = wanted and row["dtype"] in dtypes
        wanted = wanted and bool(re.search(hardware, row["hardware"], re.IGNORECASE))
        if not (wanted and re.search(model, row["model"], re.IGNORECASE)):
            continue
        value = float(row["value"])
        ms, tok_s = (value, 1000 / value) if unit == "ms" else (1000 / value, value)
        what = f"{row['model']} {row['dtype']}, {row['engine']}, 1 user: {value:g} {unit}"
        source = f"{row['source']} ({row['url_or_path']}), {what}"
        name = f"{row['hardware']}, {row['engine'].split('+')[0]}"
        points.append(Published(name, ms, tok_s, source, "1 user"))
    return points
