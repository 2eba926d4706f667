"""Runs a fixed workload through the engine, in one process and without a server.

    python -m benchmarks.offline --workload W1 --policy continuous --repeat 5 --json -

Greedy, EOS ignored, so every run makes the same number of tokens. Each repeat notes which share
of the CPU other processes took meanwhile: a run next to a busy neighbour says little. The figure
is the median of the quiet runs; TTFT and ITL are minillm.core.metrics', from the same trace.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from statistics import median

import psutil

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    drive,
    summarize,
)
from minillm.core.config import POLICIES
from minillm.model.devices import cpu_name, usable_cores
from minillm.model.loader import load_weights
from minillm.model.runner import ModelRunner

WORKLOADS = Path(__file__).with_name("workloads.json")
QUIET = 0.10  # others' share of the CPU up to which a run counts as quiet


def load_workload(name: str) -> list[Arrival]:
    """The requests of a workload in workloads.json (see README.md), as timed arrivals."""
    requests = json.loads(WORKLOADS.read_text(encoding="utf-8"))["workloads"][name]
    return [
        Arrival(
            str(request["id"]),
            tuple(request["prompt_ids"]),
            SamplingParams(max_tokens=request["max_tokens"], ignore_eos=True),
            request["arrival"],
        )
        for request in requests
    ]


def machine() -> dict:
    """What a figure has to be read with: processor, cores, memory, versions."""
    import torch  # here, so that minillm.model sets the thread pool up before torch is loaded

    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


class OthersLoad:
    """Which share of the CPU, of 1, others than a process and its children took meanwhile."""

    def __init__(self, pid: int | None = None) -> None:
        self._process = psutil.Process(pid)

    def __enter__(self) -> OthersLoad:
        self._began = time.perf_counter()
        self._busy, self._own = _busy_seconds(), self._own_seconds()
        self.share: float | None = None
        return self

    def __exit__(self, *error: object) -> None:
        wall = time.perf_counter() - self._began
        own = self._own_seconds() - self._own
        others = _busy_seconds() - self._busy - own
        self.share = round(max(0.0, others) / (wall * (psutil.cpu_count() or 1)), 3)

    def _own_seconds(self) -> float:
        family = [self._process, *self._process.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in family)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0)


def run_once(
    runner: ModelRunner, arrivals: list[Arrival], policy: str, limits: SchedulerConfig
) -> dict:
    """One pass over the workload with an empty cache: the metrics of its trace, as a dict.

    Raises RuntimeError when a step failed or a request did not end with all its tokens.
    """
    cache = CacheConfig(runner.num_blocks, runner.block_size, enable_prefix_caching=False)
    vocab = runner.model_config.vocab_size
    engine = LLMEngine(EngineConfig(cache, limits, policy, vocab_size=vocab), runner)
    with OthersLoad() as load:
        for _ in drive(engine, arrivals, time.sleep):
            pass
    if engine.last_error is not None:
        raise RuntimeError("A step of the benchmark failed.") from engine.last_error
    summary = summarize(engine.trace)
    expected = sum(arrival.params.max_tokens for arrival in arrivals)
    if summary.output_tokens != expected:
        raise RuntimeError(f"{summary.output_tokens} tokens came out, {expected} were asked for.")
    return {**asdict(summary), "others_cpu_share": load.share}


def report(args: argparse.Namespace) -> dict:
    """Everything that the command prints, as one object."""
    config, weights = load_weights(args.model)
    runner = ModelRunner(config, weights, dtype=args.dtype, device=args.device,
                         threads=args.threads, max_model_len=args.max_model_len)  # fmt: skip
    del weights
    limits = SchedulerConfig(
        max_num_seqs=args.max_num_seqs, max_num_batched_tokens=args.max_num_batched_tokens,
        max_model_len=runner.max_model_len,
    )  # fmt: skip
    arrivals = load_workload(args.workload)
    run_once(runner, load_workload("W0"), args.policy, limits)  # warm up
    repeats = []
    for number in range(1, args.repeat + 1):
        repeats.append(run_once(runner, arrivals, args.policy, limits))
        last = repeats[-1]
        print(
            f"run {number}/{args.repeat}: {last['output_tok_s']:.1f} output tokens/s, others took "
            f"{last['others_cpu_share']:.0%} of the CPU",
            file=sys.stderr,
        )
    quiet = [r for r in repeats if r["others_cpu_share"] <= QUIET]
    chosen = quiet or repeats
    middle = {
        key: median(r[key] for r in chosen)
        for key, value in chosen[0].items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    return {
        "schema": 1,
        "command": "benchmarks.offline",
        "machine": machine(),
        "provenance": "measured",
        "device": runner.info.device,
        "model": runner.info.model,
        "dtype": runner.info.dtype,
        "attention": runner.backend.name,
        "workload": args.workload,
        "policy": args.policy,
        "max_num_seqs": args.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "rss_mb": round(psutil.Process().memory_info().rss / 1e6),
        **{key: middle.get(key) for key in chosen[0]},
        "quiet_runs": len(quiet),
        "repeats": repeats,
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--workload", choices=("W0", "W1", "W2", "W3"), default="W1")
    parser.add_argument("--policy", choices=POLICIES, default="continuous")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--max-num-batched-tokens", type=int, default=512, help="token budget")
    parser.add_argument("--max-model-len", type=int, help="default: the model's own limit")
    parser.add_argument("--model", help="folder, .gguf or hub id; default: the default model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", default="-", help="where to write; - is stdout")
    args = parser.parse_args(argv)
    if args.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {args.repeat}")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        result = report(args)
    except ValueError as error:
        print(f"benchmarks.offline: {error}", file=sys.stderr)
        return 2
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    if args.json == "-":
        print(text)
    else:
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
