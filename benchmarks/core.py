"""How fast the engine's own Python is: steps/s and rows/s with scheduler, KV manager and trace on.

    python -m benchmarks.core [--profile] [--json -]

Two workloads on the three-constant simulated device, so that nearly all time is the core's:
`azure`: azure2023-conv's first 1,000 requests at 4 requests/s, `full`: 64 always running.
Beside them the machine's pace: a fixed pure-Python loop, in million iterations a second.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import sys
import time

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    drive,
)
from minillm.data import read_trace
from minillm.sim import SimulatedRunner


def azure(count: int = 1000, rate: float = 4.0) -> tuple[LLMEngine, list[Arrival]]:
    """The conversation trace's own lengths and gaps, its times scaled to `rate` requests/s."""
    rows = [line.split(",")[:3] for line in read_trace("azure2023-conv")[1 : count + 1]]
    scale = (count / rate) / max(float(rows[-1][0]), 1e-9)
    arrivals = [
        Arrival(
            f"r{i}",
            (i,) * int(float(prompt)),
            SamplingParams(max_tokens=max(1, int(float(output))), ignore_eos=True),
            float(when) * scale,
        )
        for i, (when, prompt, output) in enumerate(rows)
    ]
    return _engine(256, 2048), arrivals


def full(count: int = 200, running: int = 64) -> tuple[LLMEngine, list[Arrival]]:
    """Requests of 128 prompt and 256 output tokens, all there at once: 64 run at any time."""
    params = SamplingParams(max_tokens=256, ignore_eos=True)
    arrivals = [Arrival(f"r{i}", (i,) * 128, params) for i in range(count)]
    return _engine(running, 2048), arrivals


def _engine(seqs: int, budget: int) -> LLMEngine:
    limits = SchedulerConfig(seqs, budget, max_model_len=16_384)
    return LLMEngine(EngineConfig(CacheConfig(28_000), limits), SimulatedRunner())


def measure(build) -> dict[str, float]:
    """One run's steps/s, rows/s and mean running."""
    engine, arrivals = build()
    start = time.perf_counter()
    for _ in drive(engine, arrivals):
        pass
    seconds = time.perf_counter() - start
    steps = len(engine.trace.steps)
    rows = sum(len(step.rows) for step in engine.trace.steps)
    return {
        "steps_per_s": steps / seconds, "rows_per_s": rows / seconds, "steps": steps,
        "mean_running": rows / steps, "seconds": seconds,
    }  # fmt: skip


def pace(iterations: int = 3_000_000) -> float:
    """Million iterations a CPU second of a fixed loop: how fast this machine runs Python now."""
    start = time.process_time()
    total = 0
    for i in range(iterations):
        total += i & 7
    return iterations / (time.process_time() - start) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the best counts")
    parser.add_argument("--json", metavar="FILE", help="write the figures; - is standard output")
    args = parser.parse_args()
    report: dict = {"schema": 1, "command": "benchmarks.core", "pace_mloops_s": pace()}
    for build in (azure, full):
        runs = [measure(build) for _ in range(args.repeat)]
        report[build.__name__] = max(runs, key=lambda run: run["steps_per_s"])
        if args.profile:
            profile = cProfile.Profile()
            profile.runcall(measure, build)
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(22)
    text = json.dumps(report, indent=1)
    if args.json and args.json != "-":
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
