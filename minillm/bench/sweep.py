"""Walks a load upward, concurrency or rate, and collects what each point gives.

Each point is a run of its own with the same lengths but prompts of its own, so that no prefix
cache answers one point from another. The walk ends early when a point completes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minillm.bench.load import Run
from minillm.bench.summary import SLO, summarize_run

WALKS = ("concurrency", "rate")

RunPoint = Callable[[float, int], Run]  # (load, number of the point) → its run


def parse_loads(text: str, walk: str) -> list[float]:
    """`1,2,4,8` in ascending order, each once. Raises ValueError with what is wrong."""
    kind = int if walk == "concurrency" else float
    loads = []
    for part in text.split(","):
        try:
            load = kind(part)
        except ValueError:
            load = 0
        if not 0 < load < float("inf"):
            what = "an integer of at least 1" if kind is int else "a number above 0"
            raise ValueError(f"Each {walk} must be {what}, got {part.strip()!r}.")
        loads.append(load)
    return sorted(set(loads))


def sweep(
    loads: Sequence[float], run_point: RunPoint, slo: SLO | None = None
) -> Iterator[tuple[dict[str, Any], Run]]:
    """Yield each point's figures ({"load": …, **summary}) and its run, as soon as it's there."""
    for number, load in enumerate(loads):
        run = run_point(load, number)
        summary = {"load": load, **summarize_run(run.requests, slo)}
        yield summary, run
        if run.interrupted or not summary["completed"]:
            return
