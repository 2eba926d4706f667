"""Recorded runs: which ones come with the course, and how to open them in other tools.

A run is a trace: JSON lines, one a step of the engine or an event of a request, plain or packed
with gzip (docs/contracts.md). In a notebook `widgets.replay.Replay("chat-continuous")` plays it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minillm.cli import options
from minillm.cli.output import Output, check_writable
from minillm.core import Trace, summarize
from minillm.core.export import chrome_text, csv_text
from minillm.recordings import load_recording, recordings, trace_from_bytes, trace_to_bytes

SUMMARY = "recorded runs: list them, turn one into CSV or Perfetto JSON"
EXAMPLES = """\
examples:
  minillm trace list
  minillm trace export chat-continuous --to chrome --out run.json    open it in ui.perfetto.dev
  minillm trace export mine.jsonl.gz --to csv > mine.csv
"""
FORMATS = {
    "chrome": lambda trace: chrome_text(trace).encode(),
    "csv": lambda trace: csv_text(trace).encode(),
    "jsonl": trace_to_bytes,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="WHAT", required=True)
    text = "The recorded runs that come with the course."
    options.add_json(kinds.add_parser("list", help=text, description=text))
    text = "One run as a file for another tool."
    export = kinds.add_parser("export", help=text, description=text)
    export.add_argument("run", metavar="RUN", help="a recorded run's name, or a trace file")
    export.add_argument("--to", choices=FORMATS, default="chrome", help="default: chrome")
    export.add_argument("--out", default="-", metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> int:
    return {"list": _list, "export": _export}[args.kind](args)


def _list(args: argparse.Namespace) -> int:
    output = Output("trace list", args.json)
    rows, found = [], []
    for recording in recordings():
        summary = summarize(recording.trace)
        header = recording.header
        rows.append([
            recording.name, header.provenance, header.device, header.policy,
            f"{summary.requests}", f"{summary.steps:,}", f"{summary.makespan_s:.2f}",
        ])  # fmt: skip
        found.append({
            "name": recording.name, "title": recording.title, "provenance": header.provenance,
            "device": header.device, "model": header.model, "dtype": header.dtype,
            "policy": header.policy, "recorded_on": recording.recorded_on,
            "source": recording.source, "requests": summary.requests, "steps": summary.steps,
            "output_tokens": summary.output_tokens, "makespan_s": summary.makespan_s,
        })  # fmt: skip
    output.table(["run", "", "device", "policy", "requests", "steps", "seconds"], rows)
    output.write_json({"recordings": found})
    return 0


def _export(args: argparse.Namespace) -> int:
    if args.out != "-":
        check_writable(args.out)
    content = FORMATS[args.to](_trace(args.run))
    if args.out == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(args.out).write_bytes(content)
        print(f"Wrote {args.out}, {len(content) / 1000:,.1f} kB.", file=sys.stderr)
    return 0


def _trace(run: str) -> Trace:
    """A recorded run by its name, or a file; ValueError with the line for what is no trace."""
    if run in {recording.name for recording in recordings()}:
        return load_recording(run).trace
    path = Path(run)
    if not path.exists():
        known = ", ".join(recording.name for recording in recordings())
        raise ValueError(f"{run} is no file, and no recorded run: those are {known}.")
    try:
        return trace_from_bytes(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from None
