"""Send a load and measure what comes back: latencies, throughput, goodput.

run: one load, open loop (a rate) or closed loop (a concurrency). sweep: a row of loads, and the
curve of throughput against latency. replay: a recorded trace at its own times. The target is any
OpenAI-compatible server, an engine in this process, or a simulated GPU.

TTFT counts from the moment a request was due. A failed request counts as failed and improves no
figure. Exit codes: 0 done, 1 too many requests failed, 2 bad input, 130 stopped with Ctrl-C (what
there is is reported).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minillm.bench.arrivals import send_times
from minillm.bench.load import Run
from minillm.bench.page import (
    RUN_HEADING,
    best_row,
    page,
    run_figures,
    run_rows,
    sweep_figures,
)
from minillm.bench.plan import PlannedRequest, replay_plan
from minillm.bench.record import ClientRequest
from minillm.bench.report import best_point, run_table, sweep_table, text_plot
from minillm.bench.summary import summarize_run, warnings
from minillm.bench.sweep import parse_loads, sweep
from minillm.bench.targets import BenchTarget
from minillm.cli import bench_options, options
from minillm.cli.output import Output, check_writable

SUMMARY = "load a server or an engine and measure it: run, sweep, replay"
EXAMPLES = """\
examples:
  minillm bench run --base-url http://127.0.0.1:8000/v1 --request-rate 4 --goodput ttft:500 tpot:50
  minillm bench run --simulate --max-concurrency 32 --num-prompts 500
  minillm bench run --engine --dataset prompts --num-prompts 24 --html run.html
  minillm bench sweep --simulate H100-80GB-SXM --concurrency 1,2,4,8,16,32,64,128
  minillm bench sweep --base-url http://127.0.0.1:8000/v1 --rate 1,2,4,8 --html sweep.html
  minillm bench replay --simulate --trace azure2023-conv --rate-scale 2 --num-prompts 1000
"""
PROGRESS_S = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    modes = parser.add_subparsers(dest="mode", metavar="run|sweep|replay", required=True)
    run_parser = modes.add_parser("run", help="one load, one table")
    bench_options.add_target(run_parser)
    bench_options.add_workload(run_parser)
    bench_options.add_arrivals(run_parser)
    bench_options.add_result(run_parser, max_error_rate=0.0)

    walk = modes.add_parser("sweep", help="a row of loads: throughput against latency")
    bench_options.add_target(walk)
    bench_options.add_workload(walk)
    group = walk.add_argument_group("load (one of the first two)")
    which = group.add_mutually_exclusive_group(required=True)
    which.add_argument("--concurrency", metavar="A,B,…", help="closed loop: so many at a time")
    which.add_argument("--rate", metavar="A,B,…", help="open loop: so many requests a second")
    bench_options.add_burstiness(group)
    bench_options.add_result(walk, max_error_rate=1.0)

    replay = modes.add_parser("replay", help="a recorded trace at its own times")
    bench_options.add_target(replay)
    bench_options.add_workload(replay, replay=True)
    group = replay.add_argument_group("load")
    pace = group.add_mutually_exclusive_group()
    pace.add_argument(
        "--rate-scale", type=options.above_zero, metavar="X",
        help="X times as fast as recorded (default: 1)",
    )  # fmt: skip
    pace.add_argument(
        "--rate", type=options.above_zero, metavar="R", help="R requests a second on average"
    )
    group.add_argument(
        "--max-concurrency", type=options.at_least_one, metavar="N",
        help="at most N at a time, the others wait in the client",
    )  # fmt: skip
    bench_options.add_result(replay, max_error_rate=0.0)


def run(args: argparse.Namespace) -> int:
    output = Output(f"bench {args.mode}", args.json)
    if args.html:
        check_writable(args.html)
    return {"run": run_once, "sweep": run_sweep, "replay": run_once}[args.mode](args, output)


def run_once(args: argparse.Namespace, output: Output) -> int:
    """`run` and `replay`: a plan, its table, JSON and page."""
    slo, work = bench_options.slo_of(args), bench_options.workload(args)
    if args.mode == "replay":
        closed, burstiness, asked = False, None, args.rate
        plan = replay_plan(work, count=args.num_prompts, rate_scale=args.rate_scale, rate=args.rate)
    else:
        rate = bench_options.rate_of(args)
        closed = rate is None and args.max_concurrency is not None
        burstiness, asked = args.burstiness, rate if isinstance(rate, float) else args.ramp
        times = send_times(args.num_prompts, rate, burstiness=burstiness, seed=args.seed)
        plan = work.plan(times)
    target = bench_options.open_target(args)
    try:
        done = serve(target, plan, args.max_concurrency, closed)
        summary = summarize_run(done.requests, slo)
        notes = warnings(summary, closed, args.max_concurrency is not None)
        if done.interrupted:
            notes.insert(0, interrupted_note(done))
        for line in run_table(summary, target.source):
            output.say(line)
        for note in notes:
            output.say(f"* {note}")
        if args.html:
            title = f"Serving benchmark: {target.info['model']}"
            write_page(output, args.html, page(
                title, target.source, run_figures(done.requests, summary["slo"]), RUN_HEADING,
                run_rows(summary), notes,
            ))  # fmt: skip
        load = {
            "num_prompts": len(plan), "request_rate": asked, "burstiness": finite(burstiness),
            "max_concurrency": args.max_concurrency, "closed_loop": closed,
        }  # fmt: skip
        output.write_json({
            **target.info, "workload": work.described, **load, "interrupted": done.interrupted,
            **summary, "notes": notes,
            **({"requests": [asdict(r) for r in done.requests]} if args.save_requests else {}),
        })  # fmt: skip
        return exit_code(done.interrupted, [summary], args.max_error_rate, output)
    finally:
        target.close()


def run_sweep(args: argparse.Namespace, output: Output) -> int:
    """`sweep`: a row for each load, then the curve."""
    slo, work = bench_options.slo_of(args), bench_options.workload(args)
    walk = "concurrency" if args.concurrency else "rate"
    loads = parse_loads(args.concurrency or args.rate, walk)
    target = bench_options.open_target(args)
    points: list[dict[str, Any]] = []
    requests: list[list[ClientRequest]] = []
    interrupted = False
    try:

        def run_point(load: float, number: int) -> Run:
            rate = None if walk == "concurrency" else load
            times = send_times(args.num_prompts, rate, burstiness=args.burstiness, seed=args.seed)
            plan = work.plan(times, first=number * args.num_prompts)
            limit = None if rate else int(load)
            return serve(target, plan, limit, rate is None, f"{walk} {load:g}: ")

        for summary, done in sweep(loads, run_point, slo):
            points.append(summary)
            requests.append(done.requests if args.save_requests else [])
            interrupted = done.interrupted
        notes = sweep_notes(walk, loads, points, interrupted)
        show_sweep(output, walk, points, target.source, notes)
        if args.html:
            heading, rows = sweep_table(walk, points)
            write_page(output, args.html, page(
                f"Throughput against latency: {target.info['model']}", target.source,
                sweep_figures(walk, points), heading, rows, notes, best_row(points),
            ))  # fmt: skip
        best = best_point(points)
        if args.save_requests:
            for point, each in zip(points, requests, strict=True):
                point["requests"] = [asdict(r) for r in each]
        output.write_json({
            **target.info, "workload": work.described, "num_prompts": args.num_prompts,
            "walk": walk, "loads": loads, "burstiness": finite(args.burstiness),
            "interrupted": interrupted, "slo": asdict(slo),
            "best_load": best["load"] if best else None,
            "best_goodput": best["request_goodput"] if best else None,
            "points": points, "notes": notes,
        })  # fmt: skip
        return exit_code(interrupted, points, args.max_error_rate, output)
    finally:
        target.close()


def show_sweep(
    output: Output, walk: str, points: Sequence[dict[str, Any]], source: str, notes: Sequence[str]
) -> None:
    heading, rows = sweep_table(walk, points)
    output.say(source)
    output.table(heading, rows)
    output.say("(times in ms" + (", * fewer than 100 samples" if "*" in str(rows) else "") + ")\n")
    marks = [
        (p["output_throughput"], p["median_tpot_ms"], f"•{p['load']:g}")
        for p in points
        if None not in (p["output_throughput"], p["median_tpot_ms"])
    ]
    for line in text_plot(marks, "output tokens/s", f"median TPOT (ms), marked with the {walk}"):
        output.say(line)
    for note in notes:
        output.say(note)


def sweep_notes(
    walk: str, loads: Sequence[float], points: Sequence[dict[str, Any]], interrupted: bool
) -> list[str]:
    notes = []
    if interrupted:
        notes.append("Stopped early: the last point is incomplete.")
    elif len(points) < len(loads):
        notes.append(f"Nothing was completed at {walk} {points[-1]['load']:g}: the walk ends.")
    best = best_point(points)
    if best is not None:
        notes.append(
            f"Highest goodput: {best['request_goodput']:.2f} requests/s within the limits, at "
            f"{walk} {best['load']:g}."
        )
    elif any(points[0]["slo"].values()):
        notes.append("No request kept the limits at any load.")
    return notes


def serve(
    target: BenchTarget, plan: Sequence[PlannedRequest], limit: int | None, closed: bool,
    label: str = "",
) -> Run:  # fmt: skip
    progress = Progress(label)
    try:
        return target.serve(plan, limit, closed, progress if progress.live else None)
    finally:
        progress.clear()


class Progress:
    """One line on stderr that moves while a load runs; silent where stderr is no terminal."""

    def __init__(self, label: str) -> None:
        self.label, self.live, self._due = label, sys.stderr.isatty(), 0.0

    def __call__(self, run: Run) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PROGRESS_S
        done = [r for r in run.requests if r.completed]
        failed = sum(r.failed for r in run.requests)
        tokens = sum(len(r.chunk_times) for r in run.requests)
        text = (
            f"{self.label}{run.wall_s:.1f} s · {len(done)} of {run.planned} done · "
            f"{run.in_flight} in flight · {failed} failed · {tokens:,} chunks"
        )
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def interrupted_note(run: Run) -> str:
    return f"Stopped early: {len(run.requests)} of {run.planned} requests were due by then."


def write_page(output: Output, path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")
    output.note(f"The figures are in {path}: open it in a browser.")


def finite(value: float | None) -> float | str | None:
    """JSON has no infinity."""
    return "inf" if value == float("inf") else value


def exit_code(
    interrupted: bool, summaries: Sequence[dict[str, Any]], limit: float, output: Output
) -> int:
    if interrupted:
        return 130
    worst = max((s["error_rate"] or 0.0 for s in summaries), default=0.0)
    if worst > limit:
        output.note(f"{worst:.0%} of the requests failed, more than the {limit:.0%} allowed.")
        return 1
    return 0
