"""Serve one workload under several batching policies and put the figures side by side.

The requests: real prompts, lognormal output lengths (median 24 tokens, 4 to 160), all at once
unless --rate says otherwise, on the same weights. Each policy runs after the same warm-up, from
an empty KV cache. Then all run once more in float32, where every output must be the same.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from minillm.bench.compare import (
    Difference,
    PolicyRun,
    compare_policies,
    find_differences,
)
from minillm.bench.text_timeline import EMPTY, LEGEND, PADDING, timelines
from minillm.bench.workload import mixed_workload
from minillm.cli import options
from minillm.cli.output import Output, check_writable
from minillm.core import Arrival, LLMEngine, RunnerInfo
from minillm.core.config import POLICIES, check_policy
from minillm.core.export import chrome_trace
from minillm.llm import LLM
from minillm.sim import SimulatedRunner

SUMMARY = "one workload under static, dynamic and continuous batching"
EXAMPLES = """\
examples:
  minillm compare                                     24 requests at once, batch size 8
  minillm compare --requests 60 --rate 4 --policies dynamic,continuous
  minillm compare --simulate --requests 200           a simulated A100, in a second
  minillm compare --simulate H100-80GB-SXM
  minillm compare --json - | python -m json.tool
  minillm compare --trace trace.json                  open it in ui.perfetto.dev
"""
SIMULATED_GPU = "A100-80GB-SXM"
KEYS = (
    "output_tok_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms",
    "padding_fraction", "row_padding_fraction", "steps", "makespan_s", "output_tokens",
)  # fmt: skip
# What the table shows: label, key, format.
LINES = (
    ("output tokens/s", "output_tok_s", "{:.1f}"),
    ("TTFT p50 (ms)", "ttft_p50_ms", "{:,.0f}"),
    ("TTFT p99 (ms)", "ttft_p99_ms", "{:,.0f}"),
    ("ITL p50 (ms)", "itl_p50_ms", "{:,.1f}"),
    ("ITL p99 (ms)", "itl_p99_ms", "{:,.1f}"),
    ("padding, share of tokens", "padding_fraction", "{:.0%}"),
    ("padding, share of rows", "row_padding_fraction", "{:.0%}"),
    ("steps", "steps", "{:,}"),
    ("makespan (s)", "makespan_s", "{:.2f}"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policies", default=",".join(POLICIES), metavar="A,B",
        help=f"which, in this order (default: {','.join(POLICIES)})",
    )  # fmt: skip
    group = parser.add_argument_group("workload")
    group.add_argument(
        "--requests", type=options.at_least_one, default=24, metavar="N",
        help="how many (default: 24)",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help="the same seed gives the same requests (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--rate", type=options.above_zero, metavar="R",
        help="Poisson arrivals, R a second on average (default: all at once)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=options.at_least_one, default=1, metavar="N",
        help="measure N times, every second time in reverse order, and show the median run of "
        "each policy (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--simulate", nargs="?", const=SIMULATED_GPU, metavar="GPU",
        help=f"on a simulated GPU with an 8B model, not here (default GPU: {SIMULATED_GPU})",
    )  # fmt: skip
    options.add_scheduler(parser)
    options.add_model(parser)
    parser.add_argument(
        "--trace", metavar="FILE",
        help="write what happened for ui.perfetto.dev, a process each policy",
    )  # fmt: skip
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    output = Output("compare", args.json)
    policies = parse_policies(args.policies)
    if args.trace:
        check_writable(args.trace)
    progress = Progress(args.requests)
    with open_llm(args) as llm:
        info, config = llm.info, llm.config.scheduler
        arrivals = mixed_workload(llm.encode, args.requests, args.seed, args.rate)
        runs = compare_policies(llm, policies, arrivals, progress, args.rounds)
        exact = info.provenance == "simulated" or info.dtype in ("float32", "float64")
        if exact:
            differences = find_differences(llm, runs, arrivals)
    if not exact:
        progress.note = "checking outputs in float32"
        differences = check_in_float32(args, policies, arrivals, progress)
    progress.clear()
    figures = {run.policy: {key: getattr(run.summary, key) for key in KEYS} for run in runs}
    real = [d for d in differences if not d.near_tie]
    ties = [asdict(d) for d in differences if d.near_tie]
    sentence = headline(figures, info, args.requests)
    output.say(sentence + "\n")
    for line in timelines([run.trace for run in runs], output.width):
        output.say(paint(line) if output.colour else line)
    output.say(LEGEND + "\n")
    print_table(output, figures, runs[0].summary.few_for_p99)
    output.say(verdict(real, len(ties), args.requests))
    if args.simulate:
        output.say("(A simulation makes its tokens up; only a real model's can go wrong.)")
    if args.trace:
        Path(args.trace).write_text(json.dumps(perfetto(runs)), encoding="utf-8")
        output.note(f"The trace is in {args.trace}: open it in ui.perfetto.dev.")
    output.write_json({
        **asdict(info),
        "workload": {"requests": args.requests, "seed": args.seed, "rate": args.rate},
        "settings": {
            "max_num_seqs": config.max_num_seqs,
            "max_num_batched_tokens": config.max_num_batched_tokens,
            "enable_chunked_prefill": config.enable_chunked_prefill,
            "rounds": args.rounds,
        },
        "headline": sentence,
        "policies": figures,
        "few_for_p99": runs[0].summary.few_for_p99,
        "identical_outputs": not real,
        "differences": [asdict(d) for d in real],
        "near_ties": ties,
    })  # fmt: skip
    return 0


def parse_policies(text: str) -> list[str]:
    """The names in `a,b`, each once and known; ValueError otherwise."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        check_policy(name)
    return list(dict.fromkeys(names))


def open_llm(args: argparse.Namespace, **changes: Any) -> LLM:
    settings = options.scheduler_settings(args)
    if not args.simulate:
        return LLM(**{**options.model_settings(args), **settings, **changes})
    if args.model:
        raise ValueError("--simulate runs no model: leave out --model.")
    if args.max_model_len:
        settings["max_model_len"] = args.max_model_len
    return LLM.simulated(runner=SimulatedRunner.for_gpu(args.simulate), **settings)


def check_in_float32(
    args: argparse.Namespace,
    policies: Sequence[str],
    arrivals: Sequence[Arrival],
    progress: Progress,
) -> list[Difference]:
    """Where the outputs differ between policies in float32, all requests coming at once."""
    at_once = [replace(arrival, time=0.0) for arrival in arrivals]
    with open_llm(args, dtype="float32") as llm:
        runs = compare_policies(llm, policies, at_once, progress, warm_up=False)
        return find_differences(llm, runs, at_once)


class Progress:
    """One line on stderr that moves while policies run; silent where stderr is no terminal."""

    def __init__(self, num_requests: int) -> None:
        self.num_requests = num_requests
        self.note = ""
        self._live = sys.stderr.isatty()
        self._due = 0.0

    def __call__(self, policy: str, engine: LLMEngine, done: int) -> None:
        now = time.monotonic()
        if not self._live or now < self._due:
            return
        self._due = now + 0.1
        note = f" · {self.note}" if self.note else ""
        line = f"{policy}: {done} of {self.num_requests} requests · {len(engine.trace.steps)} steps"
        print(f"\r\033[K{line} · {engine.clock.now():.1f} s{note}", end="", file=sys.stderr)
        sys.stderr.flush()

    def clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def headline(figures: dict[str, dict], info: RunnerInfo, num_requests: int) -> str:
    """The result in one sentence, with where it comes from."""
    source = f"{info.provenance} on {info.device}, {info.model}, {info.dtype}"
    speeds = {policy: values["output_tok_s"] for policy, values in figures.items()}
    best, worst = max(speeds, key=speeds.get), min(speeds, key=speeds.get)
    base = "static" if "static" in speeds and best != "static" else worst
    ratio = speeds[best] / speeds[base]
    if ratio < 1.05:
        names = " and ".join(speeds)
        return f"{num_requests} requests under {names}: {speeds[best]:.0f} tokens/s ({source})."
    return (
        f"{best.capitalize()} batching served the same {num_requests} requests {ratio:.2f} times "
        f"as fast as {base} batching: {speeds[best]:.0f} against {speeds[base]:.0f} output "
        f"tokens/s ({source})."
    )


def paint(line: str) -> str:
    """A timeline's line with its cells in colour: what the widget's palette means, in ANSI."""
    name, bar, cells = line.partition("│")

    def colour(cell: re.Match) -> str:
        text = cell[0]
        code = {PADDING: "31", EMPTY: "2"}.get(text[0]) or ("33" if text.islower() else "34;1")
        return f"\033[{code}m{text}\033[0m"

    return name + bar + re.sub(f"[a-z]+|[A-Z]+|{PADDING}+|{EMPTY}+", colour, cells)


def print_table(output: Output, figures: dict[str, dict], few_for_p99: bool) -> None:
    rows = []
    for label, key, form in LINES:
        values = [values[key] for values in figures.values()]
        cells = ["–" if value is None else form.format(value) for value in values]
        rows.append([label + (" *" if few_for_p99 and "p99" in key else ""), *cells])
    output.table(["", *figures], rows)
    if few_for_p99:
        output.say("* fewer than 100 requests: TTFT's p99 is close to the slowest one's.")
    output.say()


def verdict(real: list[Difference], near_ties: int, num_requests: int) -> str:
    """Whether the outputs were the same, in one sentence."""
    if real:
        first = real[0]
        return (
            f"Outputs DIFFER: {len(real)} of them, first {first.request_id} at token "
            f"{first.position} ({' against '.join(first.policies)}, top-2 gap {first.gap})."
        )
    ties = f", but for {near_ties} near ties of two tokens" if near_ties else ""
    return f"All {num_requests} outputs are the same under every policy{ties}."


def perfetto(runs: Sequence[PolicyRun]) -> dict:
    """The runs as one Chrome/Perfetto trace, a process each."""
    events = []
    for pid, run in enumerate(runs, 1):
        events += [{**event, "pid": pid} for event in chrome_trace(run.trace)["traceEvents"]]
    return {"traceEvents": events, "displayTimeUnit": "ms"}
