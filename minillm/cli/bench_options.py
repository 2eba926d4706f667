"""The options of `minillm bench`, and what they mean: a target, a workload, times to send at."""

from __future__ import annotations

import argparse
import json
import math

from minillm.bench.arrivals import RAMP_SYNTAX, Ramp, parse_ramp
from minillm.bench.client import ENDPOINTS, KEY_VARIABLES, Target, find_api_key, normalize_url
from minillm.bench.plan import DATASETS, Workload
from minillm.bench.summary import SLO, parse_slo
from minillm.bench.targets import BenchTarget, EndpointTarget, engine_target, simulated_target
from minillm.cli import options
from minillm.core.config import POLICIES
from minillm.data import trace_names
from minillm.sim.simulate import DEFAULT_MODEL, EngineOptions

SIMULATED_GPU = "A100-80GB-SXM"
SLOTS = 8  # of a real engine, unless told; a simulated one has its preset's


def share(text: str) -> float:
    """A number from 0 to 1, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, got {text!r}")
    return number


def positive_or_inf(text: str) -> float | None:
    """A number > 0; inf is None."""
    return None if text == "inf" else options.above_zero(text)


def shape(text: str) -> float:
    """A number > 0, inf included."""
    return math.inf if text == "inf" else options.above_zero(text)


def json_object(text: str) -> dict:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"must be a JSON object, got {text!r}")
    return value


def add_target(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to load (one of the first three)")
    which = group.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--base-url", metavar="URL",
        help="an OpenAI-compatible server, such as http://127.0.0.1:8000/v1; --model is then the "
        "model's name there (default: the first it lists)",
    )  # fmt: skip
    which.add_argument(
        "--engine", action="store_true", help="an engine in this process, with a real model"
    )
    which.add_argument(
        "--simulate", nargs="?", const=SIMULATED_GPU, metavar="GPU[:tpN]",
        help=f"a simulated GPU, in no time; --model is then one of the simulator's (defaults: "
        f"{SIMULATED_GPU}, {DEFAULT_MODEL})",
    )  # fmt: skip
    group.add_argument(
        "--endpoint", choices=list(ENDPOINTS), default="completions",
        help="which of the server's (default: completions)",
    )  # fmt: skip
    group.add_argument(
        "--api-key", metavar="KEY",
        help=f"better in the environment: {' or '.join(KEY_VARIABLES)} is read too",
    )  # fmt: skip
    group.add_argument(
        "--timeout", type=options.above_zero, default=600.0, metavar="S",
        help="longest time of one request at a server (default: 600 s)",
    )  # fmt: skip
    group.add_argument(
        "--extra-body", type=json_object, default={}, metavar="JSON",
        help="more fields of each request to a server",
    )  # fmt: skip
    group.add_argument(
        "--respect-eos", action="store_true",
        help="outputs may end early; without it ignore_eos is sent, which some servers refuse",
    )  # fmt: skip
    group.add_argument(
        "--policy", choices=list(POLICIES), default="continuous",
        help="of an engine of this process (default: continuous)",
    )  # fmt: skip
    options.add_model(parser)
    options.add_scheduler(parser)
    parser.set_defaults(max_num_seqs=None)


def add_workload(parser: argparse.ArgumentParser, replay: bool = False) -> None:
    group = parser.add_argument_group("workload")
    if not replay:
        group.add_argument(
            "--dataset", choices=DATASETS, default="fixed",
            help="lengths: all the same, lognormal, of a recorded trace; or 64 real prompts with "
            "outputs of 4 to 160 tokens (default: fixed)",
        )  # fmt: skip
        for name, default in (("input", 128), ("output", 64)):
            group.add_argument(
                f"--{name}-len", type=options.at_least_one, default=default, metavar="N",
                help=f"tokens; the median where lengths are lognormal (default: {default})",
            )  # fmt: skip
        group.add_argument(
            "--sigma", type=float, default=0.8, metavar="X",
            help="standard deviation of ln(length) where lengths are lognormal (default: 0.8)",
        )  # fmt: skip
    group.add_argument(
        "--num-prompts", type=options.at_least_one, default=None if replay else 100, metavar="N",
        help="requests " + ("(default: the whole trace)" if replay else "(default: 100)"),
    )  # fmt: skip
    group.add_argument(
        "--trace", default="azure2023-conv", metavar="NAME",
        help=f"{', '.join(trace_names())}, or a .csv file of the same columns",
    )  # fmt: skip
    for name in ("input", "output"):
        group.add_argument(
            f"--max-{name}-len", type=options.at_least_one, metavar="N",
            help="cut what is longer to N tokens",
        )  # fmt: skip
    group.add_argument(
        "--prefix-len", type=options.at_least_one, default=0, metavar="N",
        help="tokens of a shared prefix before each prompt (with --tenants)",
    )  # fmt: skip
    group.add_argument(
        "--tenants", type=options.at_least_one, default=0, metavar="N",
        help="how many shared prefixes there are",
    )  # fmt: skip
    group.add_argument(
        "--seed", type=int, default=0, metavar="N",
        help="the same seed gives the same requests at the same times (default: 0)",
    )  # fmt: skip


def add_arrivals(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("load")
    group.add_argument(
        "--request-rate", type=positive_or_inf, metavar="R",
        help="open loop: R requests a second on average, whatever the server does (default: inf, "
        "all at once, or a closed loop with --max-concurrency)",
    )  # fmt: skip
    group.add_argument("--ramp", metavar="A:B:S", help=f"a rate that changes: {RAMP_SYNTAX}")
    add_burstiness(group)
    group.add_argument(
        "--max-concurrency", type=options.at_least_one, metavar="N",
        help="without a rate, closed loop: N users, each sends when its last answer has ended; "
        "with a rate: at most N at a time, the others wait in the client",
    )  # fmt: skip


def add_burstiness(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--burstiness", type=shape, default=1.0, metavar="X",
        help="of the gaps between requests: 1 is Poisson, less comes in bursts, inf is an even "
        "beat (the gamma distribution's shape; default: 1)",
    )  # fmt: skip


def add_result(parser: argparse.ArgumentParser, max_error_rate: float) -> None:
    group = parser.add_argument_group("result")
    group.add_argument(
        "--goodput", nargs="+", default=[], metavar="NAME:MS",
        help="count requests within all these limits: ttft:500 tpot:50 e2el:4000, in ms",
    )  # fmt: skip
    group.add_argument(
        "--max-error-rate", type=share, default=max_error_rate, metavar="X",
        help=f"exit with 1 if a larger share of the requests fails (default: {max_error_rate:g})",
    )  # fmt: skip
    group.add_argument("--html", metavar="FILE", help="also write a page with figures")
    group.add_argument("--save-requests", action="store_true", help="each request in the JSON too")
    options.add_json(parser)


def open_target(args: argparse.Namespace) -> BenchTarget:
    """Raises ValueError for a server that isn't there, a model that can't be, and the like."""
    if args.base_url is not None:
        return EndpointTarget(Target(
            normalize_url(args.base_url), args.model or "", args.endpoint,
            find_api_key(args.api_key), args.timeout, not args.respect_eos,
            extra_body=args.extra_body,
        ))  # fmt: skip
    if args.simulate is not None:
        chosen = EngineOptions(
            model=args.model or DEFAULT_MODEL, policy=args.policy,
            dtype="bf16" if args.dtype == "auto" else args.dtype, max_num_seqs=args.max_num_seqs,
            max_num_batched_tokens=args.max_num_batched_tokens,
            chunked_prefill=not args.no_chunked_prefill, max_model_len=args.max_model_len,
        )  # fmt: skip
        return simulated_target(args.simulate, chosen)
    from minillm.llm import LLM

    args.max_num_seqs = args.max_num_seqs or SLOTS
    llm = LLM(**options.model_settings(args), **options.scheduler_settings(args))
    return engine_target(llm, args.policy, not args.respect_eos)


def workload(args: argparse.Namespace) -> Workload:
    mine = {
        name: getattr(args, name)
        for name in (
            "dataset", "input_len", "output_len", "sigma", "trace", "tenants", "prefix_len",
            "max_input_len", "max_output_len", "seed",
        )
        if hasattr(args, name)
    }  # fmt: skip
    return Workload(**{"dataset": "trace", **mine})


def rate_of(args: argparse.Namespace) -> float | Ramp | None:
    if args.ramp is None:
        return args.request_rate
    if args.request_rate is not None:
        raise ValueError("Give --request-rate or --ramp, not both.")
    return parse_ramp(args.ramp)


def slo_of(args: argparse.Namespace) -> SLO:
    return parse_slo(args.goodput)
