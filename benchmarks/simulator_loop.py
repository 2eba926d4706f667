"""Where the time of the simulator's loop goes: `minillm simulate run`, part by part.

    python -m benchmarks.simulator_loop [--requests 1000] [--repeat 3]

azure2023-conv at 4 requests/s on one A100 and one H100, Llama-3.1-8B, everything on: scheduler,
KV manager, prefix cache, plan check, trace, metrics. First without a stopwatch: steps and rows a
second of CPU time, the best of so many runs, beside the machine's pace (a fixed pure-Python loop).
Then with one around each part: a part's time leaves out the parts called in it. Prints Markdown.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time

from benchmarks.core import pace
from minillm.core import ContinuousScheduler, KVCacheManager, LLMEngine, engine
from minillm.core.contract import PlanCheck
from minillm.core.metrics import Tally
from minillm.sim import GPUCostModel, SimulatedRunner
from minillm.sim.cluster import Cluster
from minillm.sim.cluster_spec import ReplicaSpec
from minillm.sim.simulate import make_workload, run_cluster

GPUS = ("A100-80GB-SXM", "H100-80GB-SXM")
PARTS = {  # what a reader calls it: where it is
    "schedule: a row for each sequence": [(ContinuousScheduler, "schedule")],
    "KV blocks: hand out, take back": [
        (KVCacheManager, name) for name in ("admit", "allocate_slots", "free")
    ],
    "KV blocks: hash the full ones": [(KVCacheManager, "cache_blocks")],
    "check the plan": [(PlanCheck, "check")],
    "price the step": [(GPUCostModel, "terms")],
    "make up tokens": [(SimulatedRunner, "execute")],
    "take the tokens in: append, end, free": [(ContinuousScheduler, "update")],
    "trace: rows of the record": [(engine, "step_rows")],
    "trace: add up for the metrics": [(Tally, "drain")],
    "rest of LLMEngine.step": [(LLMEngine, "step")],
    "requests: prompt, checks, queue": [
        (LLMEngine, "add_request"), (Cluster, "_arrive"), (Cluster, "_queue"),
    ],
    "events and the router's books": [(Cluster, "serve")],
}  # fmt: skip


class Stopwatch:
    """Seconds by part; while one runs, the part that called it stands still."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def turn_to(self, part: str | None) -> None:
        """Begin a part, or (None) go back to the one before."""
        now = perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        if part is None:
            self._open.pop()
        else:
            self._open.append(part)
        self._since = perf_counter()

    def around(self, part: str, call: Callable) -> Callable:
        def timed(*args, **kwargs):
            self.turn_to(part)
            try:
                return call(*args, **kwargs)
            finally:
                self.turn_to(None)

        return timed


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """One around every part, taken off again at the end."""
    watch, originals = Stopwatch(), []
    for part, places in PARTS.items():
        for owner, name in places:
            originals.append((owner, name, getattr(owner, name)))
            setattr(owner, name, watch.around(part, originals[-1][2]))
    try:
        yield watch
    finally:
        for owner, name, call in originals:
            setattr(owner, name, call)


def run(gpu: str, work: list) -> tuple[float, int, int]:
    """One run: (CPU seconds, steps, rows)."""
    start = process_time()
    _, made, _ = run_cluster([ReplicaSpec(gpu)], work, keep_traces=False)
    (tally,) = made.tallies[0]
    return process_time() - start, tally.steps, tally.rows


def seconds_by_part(gpu: str, work: list) -> dict[str, float]:
    """One run with a stopwatch around each part."""
    with stopwatch() as watch:
        run(gpu, work)
    return watch.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts")
    args = parser.parse_args()
    work = make_workload("azure2023-conv", rate=4.0, requests=args.requests)
    paces, shares = [pace()], []
    print("| GPU | steps/s | rows/s | mean running | steps |\n|---|---|---|---|---|")
    for gpu in GPUS:
        seconds, steps, rows = min(run(gpu, work) for _ in range(args.repeat))
        paces.append(pace())
        print(f"| {gpu} | {steps / seconds:,.0f} | {rows / seconds:,.0f} | {rows / steps:.1f} | "
              f"{steps:,} |")  # fmt: skip
        by_part = [seconds_by_part(gpu, work) for _ in range(args.repeat)]
        shares.append(min(by_part, key=lambda seconds: sum(seconds.values())))
    print(f"\nPace: {min(paces):.0f} to {max(paces):.0f} million loops a second, "
          f"Python {sys.version.split()[0]}.\n")  # fmt: skip
    print(f"| part | {' | '.join(GPUS)} |\n|---|---|---|")
    for part in sorted(PARTS, key=lambda part: -shares[0][part]):
        cells = [f"{100 * each[part] / sum(each.values()):.0f} %" for each in shares]
        print(f"| {part} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
