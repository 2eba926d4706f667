"""Records the runs that come with the course: traces of the real engine here, and simulated ones.

    python -m benchmarks.record                          all of them, into minillm/data/recorded
    python -m benchmarks.record --only memory-short      one; what else is there stays
    python -m benchmarks.record --model dummy:FOLDER --out /tmp/try

Measured runs take the default model on this machine's own device and name it as the engine does;
how much of the CPU other programs took meanwhile is written beside them. Simulated ones say so. A
run in which a request failed, or that does not show what it is for, is not written. The format:
docs/contracts.md; what reads it: minillm/recordings.py.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.offline import QUIET, OthersLoad, machine
from benchmarks.record_plans import PLANS, Plan
from minillm.core import SamplingParams, Trace, drive
from minillm.core.trace import Record, StepRecord
from minillm.llm import LLM
from minillm.sim import SimulatedRunner

FOLDER = Path(__file__).parents[1] / "minillm" / "data" / "recorded"
DIGITS = 6  # of seconds: microseconds


def record(plan: Plan, llm: LLM) -> Trace:
    """Serve the plan's requests; the trace. RuntimeError when it shows not what it is for."""
    requests = plan.requests(llm)
    warm_up = llm.new_engine("continuous")
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    for _ in drive(warm_up, [replace(requests[0], params=params, time=0.0)], time.sleep):
        pass
    engine = llm.new_engine(plan.policy, **plan.settings)
    for _ in drive(engine, requests, time.sleep):
        pass
    if engine.last_error is not None:
        raise RuntimeError(f"A step of {plan.name} failed.") from engine.last_error
    check(plan, engine.trace, sum(each.params.max_tokens for each in requests))
    return rounded(engine.trace)


def check(plan: Plan, trace: Trace, expected: int) -> None:
    """Raise RuntimeError unless every token came and the run shows what it is for."""
    tokens = sum(row.token_id is not None for step in trace.steps for row in step.rows)
    if tokens != expected:
        raise RuntimeError(f"{plan.name}: {tokens} tokens came out, {expected} were asked for.")
    seen = {event.event for event in trace.events}
    seen |= {op.op for step in trace.steps for op in step.blocks}
    missing = [what for what in plan.shows if what not in seen]
    if missing:
        raise RuntimeError(f"{plan.name} shows no {' and no '.join(missing)}.")


def rounded(trace: Trace) -> Trace:
    """The trace with times of whole microseconds, and none of the day: index.json has that."""
    found = Trace(replace(trace.header, t0_unix=None))
    for each in trace.records:
        found.add(_rounded(each))
    return found


def _rounded(record: Record) -> Record:
    if not isinstance(record, StepRecord):
        return replace(record, t=round(record.t, DIGITS))
    terms = record.terms and {name: round(s, DIGITS + 3) for name, s in record.terms.items()}
    start, end = round(record.t_start, DIGITS), round(record.t_end, DIGITS)
    return record._replace(t_start=start, t_end=end, terms=terms)


def measured_source(others: float) -> str:
    """How a measured run was made, in a sentence."""
    here = machine()
    quiet = "The machine did nothing else" if others <= QUIET else "The machine was shared"
    return (
        f"The real engine on {here['cores']} cores of {here['cpu']}, {here['system']}, Python "
        f"{here['python']}, torch {here['torch']}. {quiet}: other programs took {others:.0%} of "
        "its CPU meanwhile."
    )


def simulated_source() -> str:
    """How a simulated run was made, in a sentence."""
    return (
        "The real scheduler on the course's simulated GPU (preset vllm-v1): the times are the cost "
        "model's, the tokens are made up."
    )


def write(folder: Path, plan: Plan, trace: Trace, source: str) -> int:
    """Write a recording and its entry in index.json; returns its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in trace.to_jsonl())
    file = folder / f"{plan.name}.jsonl.gz"
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    entry = {
        "name": plan.name, "title": plan.title, "description": plan.description,
        "recorded_on": datetime.date.today().isoformat(), "source": source,
    }  # fmt: skip
    write_index(folder, entry)
    return file.stat().st_size


def write_index(folder: Path, entry: dict) -> None:
    """Put the entry in its plan's place; entries without a plan or a file go."""
    index = folder / "index.json"
    known = json.loads(index.read_text(encoding="utf-8"))["recordings"] if index.exists() else []
    entries = {each["name"]: each for each in [*known, entry]}
    ordered = [
        entries[plan.name]
        for plan in PLANS
        if plan.name in entries and (folder / f"{plan.name}.jsonl.gz").exists()
    ]
    text = json.dumps({"recordings": ordered}, indent=1, ensure_ascii=False)
    index.write_text(text + "\n", encoding="utf-8")


def quietest(plan: Plan, llm: LLM, repeat: int) -> tuple[Trace, float]:
    """Of so many runs the one beside which others took least CPU, and their share of it."""
    found = []
    for _ in range(repeat):
        with OthersLoad() as load:
            trace = record(plan, llm)
        found.append((trace, load.share))
    return min(found, key=lambda pair: pair[1])


def record_all(args: argparse.Namespace) -> None:
    """Record the plans, one after the other; the model is loaded when it is first needed."""
    llm: LLM | None = None
    for plan in args.plans:
        if plan.gpu:
            trace = record(plan, LLM.simulated(runner=SimulatedRunner.for_gpu(plan.gpu)))
            source = simulated_source()
        else:
            llm = llm or LLM(args.model, threads=args.threads)
            trace, others = quietest(plan, llm, args.repeat)
            source = measured_source(others)
        size = write(args.out, plan, trace, source)
        seconds = trace.steps[-1].t_end - trace.steps[0].t_start
        print(
            f"{plan.name}: {len(trace.steps):,} steps, {seconds:.2f} s, {size / 1000:.1f} kB",
            file=sys.stderr,
        )


def parse(argv: list[str] | None) -> argparse.Namespace:
    names = [plan.name for plan in PLANS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", metavar="NAME,…", help=f"some of {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--model", help="folder, .gguf or hub id; default: the default model")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    parser.add_argument("--repeat", type=int, default=1, help="keep the quietest of so many runs")
    args = parser.parse_args(argv)
    if args.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {args.repeat}")
    args.plans = PLANS
    if args.only is not None:
        asked = args.only.split(",")
        unknown = [name for name in asked if name not in names]
        if unknown:
            parser.error(f"there is no run {unknown[0]!r}: choose of {', '.join(names)}")
        args.plans = [plan for plan in PLANS if plan.name in asked]
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        record_all(args)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"benchmarks.record: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
