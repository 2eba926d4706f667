"""What a GPU, or a cluster of them, would do: the engine's own scheduler on a simulated device.

No GPU and no model is needed; only `calibrate` measures this machine. Every figure is simulated,
except where `validate` and `calibrate` put measured ones beside it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minillm.cli import options
from minillm.cli.output import Output
from minillm.core.config import POLICIES
from minillm.data import read_text, trace_names
from minillm.sim.routers import ROUTERS
from minillm.sim.simulate import DEFAULT_MODEL, EngineOptions, simulate_cluster, simulate_run
from minillm.sim.step_table import step_table
from minillm.sim.validate import validate_report

SUMMARY = "a simulated GPU or cluster: steps, runs, routers, validation"
EXAMPLES = """\
examples:
  minillm simulate step --gpu H100-80GB-SXM --batch 1,8,32,128 --context 512
  minillm simulate run --gpu A100-80GB-SXM --trace azure2023-conv --rate 4 --requests 500
  minillm simulate cluster --replicas 2xA100-80GB-SXM,2xH100-80GB-SXM --router least_conn --rate 40
  minillm simulate cluster --replicas 4xA100-80GB-SXM --rate 24 --fail 2@30s-60s
  minillm simulate validate
  minillm simulate calibrate
"""
LATENCIES = ("ttft", "tpot", "itl", "e2e", "queue")
COLUMNS = ("mean", "p50", "p90", "p99")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", metavar="WHAT", required=True)

    def kind(name: str, text: str) -> argparse.ArgumentParser:
        return kinds.add_parser(name, help=text, description=text)

    step = kind("step", "How long a decode step takes at several batch sizes, and why.")
    _add_gpu(step)
    step.add_argument("--batch", default="1,8,32,128", metavar="N,N", help="sequences in the step")
    step.add_argument(
        "--context", type=options.at_least_one, default=512, metavar="N",
        help="tokens of each sequence so far (default: 512)",
    )  # fmt: skip
    run = kind("run", "One replica under a trace or a rate: latencies, throughput, KV use.")
    _add_gpu(run)
    _add_engine(run)
    _add_workload(run)
    cluster = kind("cluster", "Several replicas behind a router.")
    cluster.add_argument(
        "--replicas", default="4xA100-80GB-SXM", metavar="NxGPU,…",
        help="such as 3xA100-80GB-SXM:tp4,2xH100-80GB-SXM (default: 4xA100-80GB-SXM)",
    )  # fmt: skip
    cluster.add_argument(
        "--router", default="least_conn", metavar="NAME", help=f"one of {', '.join(ROUTERS)}"
    )
    cluster.add_argument(
        "--load-info-age", type=float, default=0.0, metavar="S",
        help="how old the router's view of the load may be, in seconds (default: 0)",
    )  # fmt: skip
    cluster.add_argument(
        "--fail", default="", metavar="K@A-B", help="replica K is down from A to B, as in 2@30s-60s"
    )
    cluster.add_argument(
        "--on-failure", choices=("retry", "fail"), default="retry",
        help="what becomes of a dead replica's requests (default: retry)",
    )  # fmt: skip
    _add_model(cluster)
    _add_engine(cluster)
    _add_workload(cluster)
    validate = kind("validate", "Published measurements beside what the simulator predicts.")
    validate.add_argument(
        "--measured", metavar="FILE", help="a CSV of the same columns (default: the package's own)"
    )
    calibrate = kind("calibrate", "Measure this machine for seconds, fit, predict its steps.")
    options.add_model(calibrate)
    for each in (step, run, cluster, validate, calibrate):
        options.add_json(each)


def run(args: argparse.Namespace) -> int:
    output = Output(f"simulate {args.kind}", args.json)
    report = {
        "step": _step, "run": _run, "cluster": _cluster, "validate": _validate,
        "calibrate": _calibrate,
    }[args.kind](args, output)  # fmt: skip
    output.write_json(report)
    return 0


# ── options ─────────────────────────────────────────────────────────────────────────────────


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=DEFAULT_MODEL, metavar="NAME", help="a known model")
    parser.add_argument("--preset", default="vllm-v1", metavar="NAME", help="an engine's software")
    parser.add_argument("--dtype", default="bf16", help="bf16 or fp8 (default: bf16)")
    parser.add_argument(
        "--gpu-memory-utilization", type=options.above_zero, default=0.9, metavar="X",
        help="share of the GPU's memory that the engine may claim (default: 0.9)",
    )  # fmt: skip


def _add_gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpu", default="A100-80GB-SXM", metavar="NAME", help="a known GPU")
    for name, text in (("tp", "tensor"), ("pp", "pipeline")):
        parser.add_argument(
            f"--{name}", type=options.at_least_one, default=1, metavar="N",
            help=f"{text} parallel over N GPUs (default: 1)",
        )  # fmt: skip
    _add_model(parser)


def _add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batching")
    group.add_argument("--policy", default="continuous", help=f"one of {', '.join(POLICIES)}")
    for name in ("max-num-seqs", "max-num-batched-tokens"):
        group.add_argument(f"--{name}", type=options.at_least_one, metavar="N")
    group.add_argument("--no-chunked-prefill", action="store_true")


def _add_workload(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workload")
    names = ", ".join(trace_names())
    group.add_argument("--trace", default="azure2023-conv", metavar="NAME", help=f"one of {names}")
    group.add_argument("--rate", type=float, metavar="R", help="requests a second, in the mean")
    group.add_argument(
        "--requests", type=options.at_least_one, metavar="N", help="only the first N"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N")


def _engine_options(args: argparse.Namespace) -> EngineOptions:
    return EngineOptions(
        model=args.model, dtype=args.dtype, preset=args.preset, policy=args.policy,
        max_num_seqs=args.max_num_seqs, max_num_batched_tokens=args.max_num_batched_tokens,
        chunked_prefill=not args.no_chunked_prefill,
        gpu_memory_utilization=args.gpu_memory_utilization, seed=args.seed,
    )  # fmt: skip


def _workload(args: argparse.Namespace) -> dict[str, Any]:
    return {"trace": args.trace, "rate": args.rate, "requests": args.requests, "seed": args.seed}


def _batches(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--batch takes integers such as 1,8,32, got {text!r}.") from None


# ── commands ────────────────────────────────────────────────────────────────────────────────


def _step(args: argparse.Namespace, output: Output) -> dict:
    report = step_table(
        args.gpu, args.model, batches=_batches(args.batch), context=args.context, tp=args.tp,
        pp=args.pp, preset=args.preset, dtype=args.dtype,
        gpu_memory_utilization=args.gpu_memory_utilization,
    )  # fmt: skip
    output.say(f"simulated  {report['gpu']}, {report['model']} {report['dtype']}, {args.preset}")
    names = list(report["steps"][0]["terms"])
    rows = [
        [str(s["batch"]), f"{s['ms']:.2f}", f"{s['tok_s']:,.0f}"]
        + [f"{s['terms'][name]:.2f}" for name in names]
        + ["" if s["fits"] else "more than the KV cache holds"]
        for s in report["steps"]
    ]
    output.table(["batch", "ms", "tok/s", *names, ""], rows)
    return report


def _run(args: argparse.Namespace, output: Output) -> dict:
    report = simulate_run(
        args.gpu, None, _engine_options(args), tp=args.tp, pp=args.pp, **_workload(args)
    )
    output.say(f"simulated  {report['gpu']} tp{args.tp} pp{args.pp}, {args.model}, {args.policy}")
    _say_figures(report, output)
    return report


def _cluster(args: argparse.Namespace, output: Output) -> dict:
    report = simulate_cluster(
        args.replicas, args.router, None, _engine_options(args),
        load_info_age=args.load_info_age, fail=args.fail, on_failure=args.on_failure,
        **_workload(args),
    )  # fmt: skip
    output.say(f"simulated  {args.replicas}, {args.model}, router {args.router}")
    _say_figures(report, output)
    rows = [
        [f"{i} {replica['gpu']}", str(replica["requests"]), _number(replica["ttft_p50_ms"]),
         _number(replica["ttft_p99_ms"]), _number(replica["output_tok_s"])]
        for i, replica in enumerate(report["replicas"])
    ]  # fmt: skip
    output.table(["replica", "requests", "TTFT p50", "TTFT p99", "tok/s"], rows)
    return report


def _say_figures(report: dict, output: Output) -> None:
    rows = [
        [name.upper() if name != "queue" else "queued"]
        + [_number(report[f"{name}_{column}_ms"]) for column in COLUMNS]
        for name in LATENCIES
        if f"{name}_mean_ms" in report
    ]
    output.table(["ms", *COLUMNS], rows)
    output.say(
        f"{report['completed']} of {report['requests']} requests, "
        f"{_number(report['output_tok_s'])} output tokens/s, "
        f"{report['preemptions']} preemptions, {_number(report['mean_running'], 1)} running. "
        f"Simulated in {report['sim_seconds']:.2f} s: {report['sim_steps_per_s']:,.0f} steps/s."
    )
    if report.get("few_for_p99"):
        output.say(f"n = {report['completed']}, too few for p99.")


def _validate(args: argparse.Namespace, output: Output) -> dict:
    if args.measured:
        lines = Path(args.measured).read_text(encoding="utf-8").splitlines()
    else:
        lines = read_text("measured.csv").splitlines()
    report = validate_report(lines)
    rows = [
        [name, str(part["n"]), _number(part["mape"], 1), _number(part["bias"], 1)]
        for name, part in report.items()
        if isinstance(part, dict) and "mape" in part
    ]
    output.say("published measurements against the simulator, in percent")
    output.table(["", "n", "MAPE", "bias"], rows)
    coverage = report["coverage"]
    suspect = sum(len(group["lines"]) for group in report["suspect"])
    output.say(
        f"{coverage['modelled']} of {coverage['numeric']} numeric rows modelled, {suspect} rows "
        f"suspect and set apart, {len(report['skipped'])} skipped."
    )
    return report


def _calibrate(args: argparse.Namespace, output: Output) -> dict:
    from minillm.bench.calibrate import calibrate
    from minillm.llm import LLM

    with LLM(**options.model_settings(args)) as llm:
        output.note(
            f"Measuring products and steps of {llm.info.model} on {llm.info.device}: about 20 s "
            "when nothing else runs, much longer beside other work."
        )
        report = calibrate(llm)
    output.say(f"measured on {report['device']}, {report['model']} {report['dtype']}")
    rows = [
        [step["kind"], str(step["sequences"]), f"{step['measured_ms']:.2f}",
         f"{step['predicted_ms']:.2f}", f"{step['error']:+.0f} %",
         "held out" if step["held_out"] else "fitted"]
        for step in report["steps"]
    ]  # fmt: skip
    output.table(["step", "rows", "measured ms", "predicted ms", "error", ""], rows)
    error = report["error"]
    output.say(
        f"Mean error {error['fit']} % on the fitted steps, {error['held_out']} % on those held "
        f"out; {report['seconds']} s."
    )
    return report


def _number(value: float | None, digits: int = 0) -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}"
