"""Throughput against latency, point by point: runs of each load, the sweet spot, who is ahead.

x is the time between a user's tokens in ms, y the output tokens a second of all users. A point is
the median of its runs; the bars are their least and most. No ipywidgets, no numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minillm.core.metrics import percentile
from widgets import curve_words
from widgets.still import Table

LOADS = ("batch", "concurrency", "rate")
PROVENANCES = ("measured", "simulated")


class Run(NamedTuple):
    """One run at one load: ms between tokens (median of its users), tok/s of all, p99 in ms."""

    ms: float
    tok_s: float
    p99_ms: float | None


@dataclass(slots=True)
class Point:
    """A load of a line. failed: runs that gave no figure (nothing completed)."""

    load: float
    runs: list[Run] = field(default_factory=list)
    failed: int = 0

    @property
    def ms(self) -> float:
        return percentile([run.ms for run in self.runs], 50)

    @property
    def tok_s(self) -> float:
        return percentile([run.tok_s for run in self.runs], 50)

    @property
    def p99_ms(self) -> float | None:
        return percentile([run.p99_ms for run in self.runs if run.p99_ms is not None], 50)

    def as_dict(self) -> dict:
        ms, tok = [run.ms for run in self.runs], [run.tok_s for run in self.runs]
        return {
            "load": self.load, "ms": self.ms, "tok_s": self.tok_s, "p99_ms": self.p99_ms,
            "ms_range": [min(ms), max(ms)], "tok_range": [min(tok), max(tok)],
            "runs": len(self.runs), "failed": self.failed,
        }  # fmt: skip


@dataclass(slots=True)
class Line:
    """One engine on one device over a walk of loads.

    load_name: what is walked, one of LOADS. planned: the loads to come, in order. runs: how many
    of each are planned. running: (load, number of the run, from 1). done: no more will come.
    """

    key: str
    name: str
    provenance: str
    detail: str = ""
    model: str = ""
    load_name: str = "batch"
    planned: tuple[float, ...] = ()
    runs: int = 1
    points: dict[float, Point] = field(default_factory=dict)
    running: tuple[float, int] | None = None
    done: bool = False

    @property
    def drawn(self) -> list[Point]:
        """The points that have a figure, by load."""
        return [self.points[load] for load in sorted(self.points) if self.points[load].runs]

    @property
    def upcoming(self) -> float | None:
        """The load that comes after the last one begun."""
        begun = max([*self.points, self.running[0] if self.running else 0], default=0)
        return None if self.done else next((load for load in self.planned if load > begun), None)


class Published(NamedTuple):
    """A figure from a source: ms between tokens and tok/s, of what, and where it stands."""

    name: str
    ms: float
    tok_s: float
    source: str
    load: str = ""


class Spot(NamedTuple):
    """The most throughput within the limit. at_end: the walk ended first, so it is ≥ this."""

    point: Point
    at_end: bool


class CurveModel:
    """See the module's docstring. slo_ms: the limit on the time between tokens; None: no limit."""

    def __init__(self, slo_ms: float | None = None) -> None:
        self.version = 0
        self.lines: dict[str, Line] = {}
        self.published: list[Published] = []
        self.focus: str | None = None
        self._slo_ms: float | None = None
        self.slo_ms = slo_ms

    @property
    def slo_ms(self) -> float | None:
        return self._slo_ms

    @slo_ms.setter
    def slo_ms(self, limit: float | None) -> None:
        if limit is not None:
            _positive("The limit", limit)
        self._slo_ms = limit
        self.version += 1

    @property
    def empty(self) -> bool:
        return not self.published and not any(line.drawn for line in self.lines.values())

    # ── what comes in ───────────────────────────────────────────────────────────────────────

    def add_line(
        self,
        key: str,
        name: str,
        *,
        provenance: str,
        detail: str = "",
        model: str = "",
        load_name: str = "batch",
        planned: Iterable[float] = (),
        runs: int = 1,
        focus: bool = False,
    ) -> Line:
        """A new, empty line; the same key again starts it anew. focus: the one that is named."""
        if provenance not in PROVENANCES:
            raise ValueError(f"A line is measured or simulated, got {provenance!r}.")
        if load_name not in LOADS:
            raise ValueError(f"load_name must be one of {', '.join(LOADS)}, got {load_name!r}.")
        if runs < 1:
            raise ValueError(f"runs must be at least 1, got {runs!r}.")
        loads = tuple(sorted(planned))
        line = Line(key, name, provenance, detail, model, load_name, loads, runs)
        self.lines[key] = line
        if focus or self.focus is None:
            self.focus = key
        self.version += 1
        return line

    def begin(self, key: str, load: float) -> None:
        """A run at this load begins: it is shown as the running point."""
        line = self._line(key)
        point = line.points.get(load)
        line.running = (load, (len(point.runs) if point else 0) + 1)
        self.version += 1

    def add_run(
        self, key: str, load: float, ms: float | None, tok_s: float | None,
        p99_ms: float | None = None,
    ) -> None:  # fmt: skip
        """What a run gave; None for ms or tok_s: it completed nothing."""
        line = self._line(key)
        _positive("A load", load)
        point = line.points.setdefault(load, Point(load))
        if ms is None or tok_s is None:
            point.failed += 1
        else:
            for name, value in (("ms", ms), ("tok/s", tok_s)):
                _positive(name, value)
            point.runs.append(Run(ms, tok_s, p99_ms))
        line.running = None
        self.version += 1

    def add_summary(self, key: str, summary: dict[str, Any]) -> None:
        """A point of `minillm.bench`: its summary, with the load in "load".

        The time between tokens is ITL; where only chunks are seen, TPOT.
        """
        itl = summary["median_itl_ms"]
        name = "tpot" if itl is None else "itl"
        self.add_run(
            key, summary["load"], summary[f"median_{name}_ms"], summary["output_throughput"],
            summary[f"p99_{name}_ms"],
        )  # fmt: skip

    def add_step_table(self, table: dict[str, Any], name: str, *, focus: bool = False) -> None:
        """A line from minillm.sim.step_table: simulated decode steps, batches that fit."""
        gpu = table["gpu"]
        detail = f"{table['model']} {table['dtype']}, context {table['context']:,}"
        loads = [step["batch"] for step in table["steps"]]
        self.add_line(
            gpu, name, provenance="simulated", detail=detail, model=table["model"], planned=loads,
            focus=focus,
        )  # fmt: skip
        for step in table["steps"]:
            if step["fits"]:
                self.add_run(gpu, step["batch"], step["ms"], step["tok_s"])
        self.finish(gpu)

    def add_published(self, point: Published) -> None:
        for name, value in (("ms", point.ms), ("tok/s", point.tok_s)):
            _positive(name, value)
        self.published.append(point)
        self.version += 1

    def finish(self, key: str) -> None:
        """No more points of this line will come."""
        line = self._line(key)
        line.running, line.done = None, True
        self.version += 1

    def _line(self, key: str) -> Line:
        if key not in self.lines:
            known = ", ".join(self.lines) or "none"
            raise ValueError(f"There is no line {key!r}: add_line() first; there are {known}.")
        return self.lines[key]

    # ── what it comes to ────────────────────────────────────────────────────────────────────

    def meets(self, point: Point) -> bool:
        """Whether a point keeps the limit."""
        return self.slo_ms is None or point.ms <= self.slo_ms

    def sweet_spot(self, line: Line) -> Spot | None:
        """The point of most throughput within the limit; of equals the smaller load."""
        good = [point for point in line.drawn if self.meets(point)]
        if not good:
            return None
        best = max(good, key=lambda point: (point.tok_s, -point.load))
        return Spot(best, best is line.drawn[-1])

    def front(self) -> list[tuple[Line, Point]]:
        """The points that no other beats in both: by rising ms, each with more throughput."""
        points = [(line, point) for line in self.lines.values() for point in line.drawn]
        points.sort(key=lambda pair: (pair[1].ms, -pair[1].tok_s))
        ahead, most = [], 0.0
        for line, point in points:
            if point.tok_s > most:
                most = point.tok_s
                ahead.append((line, point))
        return ahead

    def as_dict(self) -> dict:
        """All of it as plain data for the browser."""
        return {
            "focus": self.focus,
            "note": curve_words.note(self),
            "lines": [
                {
                    "key": line.key, "name": line.name, "provenance": line.provenance,
                    "detail": line.detail, "load_name": line.load_name,
                    "points": [point.as_dict() for point in line.drawn],
                    "running": list(line.running) if line.running else None,
                    "next": line.upcoming, "planned_runs": line.runs, "done": line.done,
                    "failed": [p.load for p in line.points.values() if not p.runs],
                }
                for line in self.lines.values()
            ],
            "published": [point._asdict() for point in self.published],
        }  # fmt: skip

    # ── words ───────────────────────────────────────────────────────────────────────────────

    def headline(self) -> str:
        return curve_words.headline(self)

    def subtitle(self) -> str:
        return curve_words.subtitle(self)

    def describe(self) -> str:
        return curve_words.describe(self)

    def table(self) -> Table:
        return curve_words.table(self)


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a number above 0, got {value!r}.")
