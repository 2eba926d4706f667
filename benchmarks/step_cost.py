"""Where a step's time goes on a CPU: the model, sampling, and everything that is Python around.

    python -m benchmarks.step_cost --running 64 --context 96 --json -

Decode steps of so many running sequences, and a prefill step of a full token budget. *Overhead*
is what a step takes beside the model's forward pass and the sampler: schedule, pack, plan
attention, update, record. --operators adds what torch's operators take, from its own profiler.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.offline import QUIET, OthersLoad, machine
from minillm.core import CacheConfig, EngineConfig, LLMEngine, SamplingParams, SchedulerConfig
from minillm.model.loader import load_weights
from minillm.model.runner import ModelRunner

WARM_UP = 5  # steps


class Timer:
    """Seconds spent in functions, by name, since the last take()."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def around(self, name: str, function: Callable) -> Callable:
        def timed(*args, **kwargs):
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds[name] += time.perf_counter() - began

        return timed

    def take(self) -> dict[str, float]:
        seconds, self._seconds = dict(self._seconds), defaultdict(float)
        return seconds


def fill(runner: ModelRunner, running: int, context: int, steps: int, budget: int) -> LLMEngine:
    """An engine with that many requests added, none computed yet."""
    cache = CacheConfig(runner.num_blocks, runner.block_size, enable_prefix_caching=False)
    limits = SchedulerConfig(
        max_num_seqs=running, max_num_batched_tokens=max(budget, running),
        max_model_len=runner.max_model_len,
    )  # fmt: skip
    vocab = runner.model_config.vocab_size
    engine = LLMEngine(EngineConfig(cache, limits, vocab_size=vocab), runner)
    params = SamplingParams(max_tokens=steps + running + WARM_UP, ignore_eos=True)
    for number in range(running):
        prompt = [(7 * number + i) % vocab for i in range(context)]
        engine.add_request(str(number), prompt, params)
    return engine


def measure(engine: LLMEngine, timer: Timer, steps: int) -> list[dict[str, float]]:
    """Per step, milliseconds: step, forward, sample and overhead, the rest."""
    found = []
    for _ in range(steps):
        timer.take()
        began = time.perf_counter()
        engine.step()
        step = time.perf_counter() - began
        if engine.last_error is not None:
            raise RuntimeError("A step of the benchmark failed.") from engine.last_error
        parts = {"forward": 0.0, "sample": 0.0, **timer.take()}
        parts = {"step": step, **parts, "overhead": step - sum(parts.values())}
        found.append({name: 1e3 * seconds for name, seconds in parts.items()})
    return found


def summary(steps: list[dict[str, float]]) -> dict:
    """Medians in ms, and the overhead as a share of the step: the median of the steps' own."""
    parts = {f"{name}_ms": round(median(s[name] for s in steps), 3) for name in steps[0]}
    share = median(s["overhead"] / s["step"] for s in steps)
    return {**parts, "overhead_share": round(share, 4), "steps": len(steps)}


def operators(engine: LLMEngine, steps: int) -> list[dict]:
    """The costliest torch operators of a step: ms a step, calls a step."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(steps):
            engine.step()
    events = sorted(found.key_averages(), key=lambda e: -e.self_cpu_time_total)[:20]
    return [
        {
            "operator": event.key,
            "ms": round(event.self_cpu_time_total / 1e3 / steps, 3),
            "calls": round(event.count / steps, 1),
        }
        for event in events
    ]


def report(args: argparse.Namespace) -> dict:
    """Everything that the command prints, as one object."""
    config, weights = load_weights(args.model)
    runner = ModelRunner(config, weights, device="cpu", dtype=args.dtype, threads=args.threads)
    del weights
    room = runner.max_model_len - args.context
    needed = 2 * args.steps + args.running + WARM_UP
    if needed > room:
        raise ValueError(f"{needed} steps need a shorter context: the model holds {room} more.")
    timer = Timer()
    runner.model.forward = timer.around("forward", runner.model.forward)
    runner.sampler.sample = timer.around("sample", runner.sampler.sample)
    engine = fill(runner, args.running, args.context, 2 * args.steps, args.max_num_batched_tokens)
    with OthersLoad() as load:
        prefill = []
        while not _all_decode(engine, args.running):
            prefill += measure(engine, timer, 1)
        measure(engine, timer, WARM_UP)
        decode = measure(engine, timer, args.steps)
    result = {
        "schema": 1,
        "command": "benchmarks.step_cost",
        "provenance": "measured",
        "machine": machine(),
        "device": runner.info.device,
        "model": runner.info.model,
        "dtype": runner.info.dtype,
        "running": args.running,
        "context": args.context,
        "others_cpu_share": load.share,
        "quiet": load.share <= QUIET,
        "decode": summary(decode),
        "prefill": summary(prefill),
    }
    if args.operators:
        result["decode_operators"] = operators(engine, args.steps)
    return result


def _all_decode(engine: LLMEngine, running: int) -> bool:
    members = engine.scheduler.running
    return len(members) == running and all(r.num_output_tokens for r in members)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_cost", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--running", type=int, default=64, help="decoding sequences (default: 64)")
    parser.add_argument("--context", type=int, default=96, help="prompt tokens (default: 96)")
    parser.add_argument("--steps", type=int, default=30, help="decode steps (default: 30)")
    parser.add_argument("--max-num-batched-tokens", type=int, default=512, help="token budget")
    parser.add_argument("--operators", action="store_true", help="torch's operators, too")
    parser.add_argument("--model", help="folder, .gguf or hub id; default: the default model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    parser.add_argument("--json", metavar="FILE", default="-", help="where to write; - is stdout")
    args = parser.parse_args(argv)
    for option in ("running", "context", "steps", "max_num_batched_tokens"):
        if getattr(args, option) < 1:
            parser.error(f"--{option.replace('_', '-')} must be at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    try:
        result = report(args)
    except ValueError as error:
        print(f"benchmarks.step_cost: {error}", file=sys.stderr)
        return 2
    decode = result["decode"]
    print(
        f"{args.running} running: a decode step takes {decode['step_ms']:.1f} ms, of it Python "
        f"around the model {decode['overhead_ms']:.2f} ms ({decode['overhead_share']:.1%}); "
        f"others took {result['others_cpu_share']:.0%} of the CPU",
        file=sys.stderr,
    )
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    if args.json == "-":
        print(text)
    else:
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
