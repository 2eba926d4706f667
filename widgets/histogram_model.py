"""TTFT, ITL and E2E of one or two runs, as they come. No ipywidgets here.

Definitions are minillm.core.metrics': TTFT from arrival to the end of the step that gave the first
token, ITL between consecutive tokens of a request, E2E from arrival to the last token. A live
figure counts each value as it comes, also of requests that fail later.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from minillm.core.metrics import FEW_FOR_P99
from minillm.core.trace import Record, StepRecord, TraceHeader
from widgets.distribution import PER_DECADE, Distribution
from widgets.numbers import THIN, seconds
from widgets.still import Cell, Table

METRICS = {
    "ttft": "Time to first token (TTFT)",
    "itl": "Time between tokens (ITL)",
    "e2e": "Whole answer (E2E)",
}
QS = (50, 95, 99)


@dataclass(slots=True)
class RunLatencies:
    """A run's distributions, filled from its records in order."""

    title: str = ""
    header: TraceHeader | None = None
    found: dict[str, Distribution] = field(
        default_factory=lambda: {name: Distribution() for name in METRICS}
    )
    _arrived: dict[int, float] = field(default_factory=dict)
    _last: dict[int, float] = field(default_factory=dict)
    _ended: dict[int, bool] = field(default_factory=dict)  # index → whether it completed

    def add(self, metric: str, value: float) -> None:
        self.found[metric].add(value)

    def extend(self, records: Iterable[Record]) -> int:
        """Take the next records; returns how many."""
        count = 0
        for record in records:
            count += 1
            if isinstance(record, StepRecord):
                self._step(record)
            elif record.event == "arrive":
                self._arrived[record.req] = record.t
            elif record.event in ("finish", "abort", "refuse"):
                done = record.event == "finish" and record.data.get("reason") in ("stop", "length")
                self._ended[record.req] = done
                # The step of its last token may come before this event or right after it.
                if not done or self._last.get(record.req, -math.inf) >= record.t - 1e-9:
                    self._close()
        return count

    def _close(self) -> None:
        """Take the requests that ended: no more of their tokens will come."""
        for req, done in self._ended.items():
            arrived, last = self._arrived.pop(req, None), self._last.pop(req, None)
            if done and arrived is not None and last is not None:
                self.add("e2e", last - arrived)
        self._ended.clear()

    def _step(self, step: StepRecord) -> None:
        arrived, last_of, end = self._arrived, self._last, step.t_end
        gaps: dict[float, int] = {}  # the last token's time → of how many: mostly one for all
        for req, _, _, _, _, token in step.raw_rows:
            if token is None or req not in arrived:
                continue
            last = last_of.get(req)
            if last is None:
                self.add("ttft", end - arrived[req])
            else:
                gaps[last] = gaps.get(last, 0) + 1
            last_of[req] = end
        for last, count in gaps.items():
            self.found["itl"].add(end - last, count)
        self._close()


class HistogramModel:
    """lanes: one or two runs. slo_ms: a limit by metric."""

    def __init__(self, lanes: int = 1, slo_ms: dict[str, float] | None = None) -> None:
        if lanes not in (1, 2):
            raise ValueError(f"A histogram shows 1 or 2 runs, got lanes={lanes}.")
        for name, limit in (slo_ms or {}).items():
            if name not in METRICS:
                raise ValueError(f"A limit is for one of {', '.join(METRICS)}, got {name!r}.")
            if not (math.isfinite(limit) and limit > 0):
                raise ValueError(f"The limit on {name} must be above 0 ms, got {limit!r}.")
        self.slo_ms = dict(slo_ms or {})
        self.log = False  # the static figure's axes
        self.version = 0
        self.lanes = [RunLatencies() for _ in range(lanes)]

    @property
    def empty(self) -> bool:
        return not any(d.n for lane in self.lanes for d in lane.found.values())

    def reset(self, lane: int, header: TraceHeader | None, title: str = "") -> None:
        self.lanes[lane] = RunLatencies(title, header)
        self.version += 1

    def extend(self, lane: int, records: Iterable[Record]) -> int:
        count = self.lanes[lane].extend(records)
        self.version += bool(count)
        return count

    def add(self, metric: str, value: float, lane: int = 0) -> None:
        """One value, in seconds (of a load generator, say)."""
        if metric not in METRICS:
            raise ValueError(f"There is no metric {metric!r}: {', '.join(METRICS)}.")
        self.lanes[lane].add(metric, value)
        self.version += 1

    def as_dict(self) -> dict:
        return {
            "per_decade": PER_DECADE,
            "slo_ms": self.slo_ms,
            "lanes": [
                {
                    "title": lane.title,
                    "header": _header(lane.header),
                    "metrics": {name: self._figures(lane, name) for name in METRICS},
                }
                for lane in self.lanes
            ],
        }

    def _figures(self, lane: RunLatencies, name: str) -> dict:
        found = lane.found[name]
        values = dict(zip(("p50", "p95", "p99"), found.percentiles(*QS), strict=True))
        limit = self.slo_ms.get(name)
        within = None if limit is None else found.share_within(limit / 1000)
        return {
            "n": found.n, "few": found.n < FEW_FOR_P99, "most": found.most, **values,
            "within": within, "bins": found.bins(),
        }  # fmt: skip

    # ── words ───────────────────────────────────────────────────────────────────────────────

    def headline(self) -> str:
        """The tail against the middle: what half of the users see, and what one in a hundred."""
        found = self.lanes[-1].found["ttft"]
        if not found.n:
            return ""
        p50, p99 = found.percentiles(50, 99)
        name = f"{self.lanes[-1].title}: h" if self.lanes[-1].title else "H"
        if found.n < FEW_FOR_P99:
            return (
                f"{name}alf of {found.n} requests saw a first token within {seconds(p50)}, "
                f"the slowest after {seconds(found.most)}."
            )
        tail = f"one in a hundred only after {seconds(p99)}"
        return f"{name}alf saw a first token within {seconds(p50)}, {tail}."

    def subtitle(self) -> str:
        return "" if self.empty else "Bar heights: square root of counts, so that the tail shows."

    def describe(self) -> str:
        parts = ["Histograms of latency."]
        for row in self.table()[1]:
            parts.append(
                f"{row[0]}: n {row[1]}, p50 {row[2]}, p95 {row[3]}, p99 {row[4]}"
                + (f", within the limit {row[5]}." if row[5] else ".")
            )
        return " ".join(parts)

    def table(self) -> Table:
        columns = ("latency", "n", "p50", "p95", "p99", "within SLO")
        rows: list[list[Cell]] = []
        for lane in self.lanes:
            for name, label in METRICS.items():
                found, limit = lane.found[name], self.slo_ms.get(name)
                p50, p95, p99 = found.percentiles(*QS)
                few = f"n = {found.n}, too few for p99" if found.n < FEW_FOR_P99 else seconds(p99)
                within = None if limit is None else floored(found.share_within(limit / 1000))
                title = f"{lane.title}, {label}" if lane.title else label
                rows.append([title, f"{found.n:,}", seconds(p50), seconds(p95), few, within])
        return columns, rows


def floored(share: float | None) -> str | None:
    """A share as a percentage that is never rounded up: 99.9 %, 85 %."""
    if share is None:
        return None
    percent = math.floor(share * 1000 + 1e-9) / 10
    return (
        f"{percent:g}{THIN}%"
        if percent >= 99 and percent != 100
        else f"{math.floor(percent)}{THIN}%"
    )


def _header(header: TraceHeader | None) -> dict | None:
    if header is None:
        return None
    names = ("provenance", "device", "model", "dtype")
    return {name: getattr(header, name) for name in names}
