"""What the CUDA path reaches on a machine with one NVIDIA GPU, as one JSON object.

    bash benchmarks/gpu.sh > gpu.json             # at most 10 minutes, no network
    bash benchmarks/gpu.sh --tiny --device cpu    # a dry run: shows that the script works

Weights are random, in the shape of Llama-3.1-8B: speed depends on the shape alone. Each part runs
in a process of its own, so that one that fails, hangs or breaks the GPU's context is recorded as
{"error": …} and the others go on. Parts for which no time is left are recorded as {"skipped": …}.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MARK = "\x1eminillm-part "  # before a part's JSON, which other output may surround
LEAST_S = 15.0  # with less time left than this a part isn't begun


def machine(device: str) -> dict[str, Any]:
    """What the figures have to be read with."""
    import torch

    from minillm.bench.machine import machine as common
    from minillm.bench.machine import version

    found = {**common(), "torch": torch.__version__, "cuda": torch.version.cuda, "device": device}
    found |= {package: version(package) for package in ("triton", "transformers")}
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        found |= {"gpu": gpu.name, "sm": f"{gpu.major}{gpu.minor}", "memory": gpu.total_memory}
    return found


def run_part(name: str, tiny: bool, device: str, limit_s: float) -> dict[str, Any]:
    """A part's result from a process of its own; what went wrong, if something did."""
    command = [sys.executable, "-m", "benchmarks.gpu", "--part", name, "--device", device]
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, *(["--tiny"] if tiny else [])], cwd=ROOT, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its own children too: tests run in one
        process.communicate()
        return {"error": f"not done within {limit_s:.0f} s"}
    result = next((json.loads(t) for t in out.split(MARK)[1:]), None)
    if result is None:
        last = (errors.strip().splitlines() or ["no output"])[-1]
        result = {"error": f"ended with code {process.returncode}: {last[:300]}"}
    return {**result, "wall_s": round(time.monotonic() - began, 1)}


def report(tiny: bool, device: str, chosen: list[str], limit_s: float) -> dict[str, Any]:
    """All chosen parts, one after the other, within the time."""
    from benchmarks.gpu_parts import PARTS

    end = time.monotonic() + limit_s
    parts: dict[str, Any] = {}
    for name in chosen:
        left = end - time.monotonic()
        if left < LEAST_S:
            parts[name] = {"skipped": f"{max(0.0, left):.0f} s were left"}
        else:
            limit = left if tiny else min(left, PARTS[name][1])
            parts[name] = run_part(name, tiny, device, limit)
        print(f"{name}: {json.dumps(parts[name])[:200]}", file=sys.stderr, flush=True)
    return {
        "schema": 1, "command": "benchmarks.gpu", "provenance": "measured", "tiny": tiny,
        "machine": machine(device), "parts": parts,
    }  # fmt: skip


def one_part(name: str, tiny: bool, device: str) -> dict[str, Any]:
    """Measure here. A failure is a result."""
    import torch

    from benchmarks.gpu_parts import PARTS
    from benchmarks.gpu_setup import Scale

    if tiny:
        torch.set_num_threads(1)
    try:
        return PARTS[name][0](Scale(device, tiny))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def parse(argv: list[str] | None) -> argparse.Namespace:
    from benchmarks.gpu_parts import PARTS

    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and short runs")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated; default: all")
    parser.add_argument("--limit", type=float, default=570, metavar="S", help="seconds for all")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    unknown = sorted(set(args.parts.split(",")) - set(PARTS))
    if unknown:
        parser.error(f"unknown parts {', '.join(unknown)}: choose of {', '.join(PARTS)}")
    if not args.tiny and args.device == "cpu":
        parser.error("--device cpu needs --tiny: an 8B model would take hours on a CPU")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.part:
        print(MARK + json.dumps(one_part(args.part, args.tiny, args.device)))
        return 0
    if args.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            print("benchmarks/gpu.sh: torch finds no CUDA GPU here.", file=sys.stderr)
            return 2
    result = report(args.tiny, args.device, args.parts.split(","), args.limit)
    print(json.dumps(result, indent=1, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
