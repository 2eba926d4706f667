"""Recorded request traces: CSV lines in, requests out.

Columns by name, in any order: input_len, output_len (tokens), arrival_s (seconds; a trace of
lengths alone lacks it), block_hashes (ids of the prompt's 512-token blocks, Mooncake's format:
equal ids mean an equal prefix), measured_queue_s, measured_ttft_s, measured_e2e_s.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass

from minillm import data
from minillm.sim.workload import (
    BLOCK,
    OWN,
    Segment,
    SimRequest,
    arrival_times,
    retime,
    scale_rate,
)

BLOCK_TOKENS = 512  # of one entry of block_hashes
REQUIRED = ("input_len", "output_len")


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One line of a trace. arrival_s None: the trace has lengths alone."""

    input_len: int
    output_len: int
    arrival_s: float | None = None
    block_hashes: tuple[int, ...] = ()
    measured_queue_s: float | None = None
    measured_ttft_s: float | None = None
    measured_e2e_s: float | None = None


def parse_trace(lines: Iterable[str], name: str = "the trace") -> list[TraceRow]:
    """The rows of a CSV with a heading, in order of arrival.

    Raises ValueError in one sentence: no heading, a column missing, no row, or a row that cannot
    be read (with its line number).
    """
    reader = csv.reader(lines)
    heading = [column.strip() for column in next(reader, [])]
    missing = [column for column in REQUIRED if column not in heading]
    if missing:
        raise ValueError(f"Line 1 of {name} names no column {' and '.join(missing)}.")
    rows = []
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        try:
            if len(cells) != len(heading):
                raise ValueError(f"it has {len(cells)} cells, the heading has {len(heading)}")
            rows.append(_row(dict(zip(heading, cells, strict=True))))
        except ValueError as error:
            raise ValueError(f"Line {reader.line_num} of {name}: {error}.") from None
    if not rows:
        raise ValueError(f"{name[0].upper()}{name[1:]} is empty: it has no request.")
    return sorted(rows, key=lambda row: row.arrival_s or 0.0)


def _row(cells: dict[str, str]) -> TraceRow:
    hashes = tuple(
        _integer("block_hashes", text, 0) for text in cells.get("block_hashes", "").split()
    )
    input_len = _integer("input_len", cells["input_len"], 1)
    if hashes and len(hashes) != math.ceil(input_len / BLOCK_TOKENS):
        needed = math.ceil(input_len / BLOCK_TOKENS)
        raise ValueError(
            f"{input_len} tokens are {needed} blocks of {BLOCK_TOKENS}, "
            f"but block_hashes has {len(hashes)}"
        )
    return TraceRow(
        input_len,
        _integer("output_len", cells["output_len"], 1),
        _seconds("arrival_s", cells),
        hashes,
        _seconds("measured_queue_s", cells),
        _seconds("measured_ttft_s", cells),
        _seconds("measured_e2e_s", cells),
    )


def _integer(column: str, text: str, low: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if value < low:
        raise ValueError(f"{column} must be an integer ≥ {low}, got {text.strip()!r}")
    return value


def _seconds(column: str, cells: dict[str, str]) -> float | None:
    if column not in cells:
        return None
    text = cells[column]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{column} must be a number of seconds ≥ 0, got {text.strip()!r}")
    return value


def request_of(index: int, row: TraceRow) -> SimRequest:
    """The row as a request; its block hashes become segments, so equal ids share their KV."""
    segments = []
    for i, number in enumerate(row.block_hashes):
        length = min(BLOCK_TOKENS, row.input_len - i * BLOCK_TOKENS)
        segments.append(Segment(BLOCK, number, length))
    own = (Segment(OWN, index, row.input_len),)
    return SimRequest(f"r{index}", row.arrival_s or 0.0, tuple(segments) or own, row.output_len)


def trace_workload(
    rows: list[TraceRow],
    *,
    rate: float | None = None,
    count: int | None = None,
    arrivals: str = "trace",
    seed: int = 0,
    cv: float = 2.0,
) -> list[SimRequest]:
    """The first `count` requests of a trace, in time.

    arrivals "trace": as recorded, all gaps scaled alike to the mean `rate` (None: not scaled);
    "poisson", "gamma", "constant": the trace's lengths at drawn times.
    """
    if count is not None:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError(f"The number of requests must be an integer ≥ 1, got {count!r}.")
        if count > len(rows):
            raise ValueError(f"The trace has {len(rows)} requests, fewer than {count}.")
        rows = rows[:count]
    requests = [request_of(i, row) for i, row in enumerate(rows)]
    timed = rows[0].arrival_s is not None
    if arrivals == "trace" and timed:
        return requests if rate is None else scale_rate(requests, rate)
    if rate is None:
        raise ValueError("These arrivals need a rate in requests a second: the trace gives none.")
    kind = "poisson" if arrivals == "trace" else arrivals
    return retime(requests, arrival_times(len(requests), rate, seed, kind, cv))


def named_trace(name: str) -> list[TraceRow]:
    """A trace of the package (minillm.data.trace_names()). ValueError for an unknown name."""
    return parse_trace(data.read_trace(name), name)
