"""What a step takes whole, and split over processes: tensor and pipeline parallelism measured.

    python -m benchmarks.parallel --rounds 5

All layouts are loaded, then take turns round by round. On one machine without GPUs the workers
share the same cores, so nothing gets faster here: the table shows what the splitting costs.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from statistics import median

from benchmarks.offline import QUIET, OthersLoad, machine
from minillm.core import Runner, SamplingParams
from minillm.llm import LLM

LAYOUTS = ((1, 1), (3, 1), (1, 2))  # TP, PP: the default model's heads split by 3
BATCHES = (1, 8)
PROMPT, OUTPUT = 64, 16  # tokens of each request


def steps(llm: LLM, batch: int) -> dict[str, float]:
    """Median milliseconds of a prefill step and of a decode step with that many requests."""
    engine = llm.new_engine(enable_prefix_caching=False, max_num_seqs=batch)
    for number in range(batch):
        prompt = [100 + (number * 977 + i * 31) % 40_000 for i in range(PROMPT)]
        engine.add_request(str(number), prompt, SamplingParams(max_tokens=OUTPUT, ignore_eos=True))
    while engine.has_unfinished:
        engine.step()
    if engine.last_error is not None:
        raise RuntimeError("A step of the benchmark failed.") from engine.last_error
    times: dict[str, list[float]] = {"prefill_ms": [], "decode_ms": []}
    for step in engine.trace.steps:
        kind = "prefill_ms" if step.rows[0].n_tokens > 1 else "decode_ms"
        times[kind].append((step.t_end - step.t_start) * 1e3)
    return {kind: median(values) for kind, values in times.items()}


def name(layout: tuple[int, int]) -> str:
    return "one process" if layout == (1, 1) else f"TP {layout[0]} · PP {layout[1]}"


def memory(runner: Runner) -> float | None:
    """The largest worker's weights in MB; None in one process."""
    workers = getattr(runner, "workers", None)
    return round(max(worker.weight_bytes for worker in workers) / 1e6) if workers else None


def report(args: argparse.Namespace) -> dict:
    rows: dict[tuple[int, int, int], list[dict[str, float]]] = {}
    with ExitStack() as stack, OthersLoad() as load:
        models = {
            layout: stack.enter_context(LLM(
                args.model, dtype=args.dtype, max_model_len=256, num_blocks=256,
                tensor_parallel_size=layout[0], pipeline_parallel_size=layout[1],
            ))
            for layout in LAYOUTS
        }  # fmt: skip
        for number in range(args.rounds + 1):
            for layout, llm in models.items():
                for batch in BATCHES:
                    measured = steps(llm, batch)
                    if number:  # the first round warms up
                        rows.setdefault((*layout, batch), []).append(measured)
            print(f"round {number} of {args.rounds} done", file=sys.stderr)
        info = {layout: (llm.info, memory(llm.runner)) for layout, llm in models.items()}
    results = [
        {
            "layout": name((tp, pp)), "device": info[tp, pp][0].device, "batch": batch,
            "worker_weights_mb": info[tp, pp][1],
            **{kind: round(median(r[kind] for r in each), 1) for kind in each[0]},
            "rounds": each,
        }
        for (tp, pp, batch), each in rows.items()
    ]  # fmt: skip
    one = info[1, 1][0]
    return {
        "schema": 1, "command": "benchmarks.parallel", "machine": machine(),
        "provenance": "measured", "model": one.model, "dtype": one.dtype,
        "prompt_tokens": PROMPT, "others_cpu_share": load.share, "results": results,
    }  # fmt: skip


def table(result: dict) -> str:
    lines = ["| layout | batch | prefill step, ms | decode step, ms |", "| --- | --: | --: | --: |"]
    lines += [
        f"| {r['layout']} | {r['batch']} | {r['prefill_ms']} | {r['decode_ms']} |"
        for r in result["results"]
    ]
    share, device = result["others_cpu_share"], result["machine"]
    made = f"{result['model']}, {result['dtype']}, {device['cpu']}, {device['cores']} cores"
    lines += ["", f"Measured: {made}, torch {device['torch']}."]
    if share > QUIET:
        lines.append(f"Other programs took {share:.0%} of the CPU: these figures say little.")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parallel", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", help="default: the default model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="the whole result, not the table")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {args.rounds}")
    result = report(args)
    print(json.dumps(result, indent=1, ensure_ascii=False) if args.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
