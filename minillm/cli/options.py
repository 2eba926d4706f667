"""Options that several commands share, with one wording each."""

from __future__ import annotations

import argparse
import math
from typing import Any

from minillm.core import SamplingParams


def at_least_one(text: str) -> int:
    """An integer ≥ 1, for argparse."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return number


def above_zero(text: str) -> float:
    """A finite number > 0, for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return number


def add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model", metavar="NAME",
        help="a folder with safetensors, a .gguf file or a hub id (owner/name); default: "
        "$MINILLM_MODEL, else the small model that comes with the course",
    )  # fmt: skip
    group.add_argument("--device", default="auto", help="auto, cpu, cuda or mps (default: auto)")
    group.add_argument(
        "--dtype", default="auto",
        help="auto, float32, bfloat16, float16 or float64; auto takes what is fastest here",
    )  # fmt: skip
    group.add_argument("--threads", type=at_least_one, metavar="N", help="CPU threads to use")
    group.add_argument(
        "--max-model-len", type=at_least_one, metavar="N",
        help="most tokens of one request, prompt and output together (default: the model's limit)",
    )  # fmt: skip
    group.add_argument(
        "--tensor-parallel-size", "-tp", type=at_least_one, default=1, metavar="N",
        help="split each layer over N processes, or GPUs (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--pipeline-parallel-size", "-pp", type=at_least_one, default=1, metavar="N",
        help="split the layers into N stages, each on processes or GPUs of its own (default: 1)",
    )  # fmt: skip


def add_token_budget(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-num-batched-tokens", type=at_least_one, metavar="N",
        help="tokens in one step of continuous batching (default: 512 on a CPU, 2048 on a GPU)",
    )  # fmt: skip


def add_scheduler(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batching")
    group.add_argument(
        "--max-num-seqs", type=at_least_one, default=8, metavar="N",
        help="sequences in one step; the batch size of static and dynamic (default: 8)",
    )  # fmt: skip
    add_token_budget(group)
    group.add_argument(
        "--no-chunked-prefill", action="store_true", help="compute each prompt in one step, whole"
    )


def add_sampling(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    """defaults: SamplingParams fields whose default differs from that class's."""
    group = parser.add_argument_group("sampling")
    base = SamplingParams(**defaults)

    def option(name: str, kind: type, text: str) -> None:
        value = getattr(base, name)
        shown = "" if value is None else f" (default: {value:g})"
        flag = "--" + name.replace("_", "-")
        metavar = "N" if kind is int else "X"
        group.add_argument(flag, type=kind, default=value, metavar=metavar, help=text + shown)

    option("max_tokens", int, "most tokens to generate")
    option("temperature", float, "0 takes the likeliest token each time; up to 2, more is wilder")
    option("top_k", int, "draw from the k likeliest tokens only; 0 is off")
    option("top_p", float, "draw from the likeliest tokens that together have this probability")
    option("min_p", float, "leave out tokens below this share of the likeliest one's probability")
    option("repetition_penalty", float, "above 1 makes tokens that came before less likely")
    option("seed", int, "the same seed gives the same draws")
    group.add_argument(
        "--stop", action="append", default=[], metavar="TEXT",
        help="end before this text; may be given several times",
    )  # fmt: skip
    group.add_argument("--ignore-eos", action="store_true", help="go on to --max-tokens")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE",
        help="also write the result as one JSON object; - is stdout, and all else goes to stderr",
    )  # fmt: skip


def sampling_params(args: argparse.Namespace) -> SamplingParams:
    return SamplingParams(
        max_tokens=args.max_tokens, temperature=args.temperature, top_k=args.top_k,
        top_p=args.top_p, min_p=args.min_p, repetition_penalty=args.repetition_penalty,
        seed=args.seed, stop=tuple(args.stop), ignore_eos=args.ignore_eos,
    )  # fmt: skip


def model_settings(args: argparse.Namespace) -> dict[str, Any]:
    """LLM's arguments of add_model."""
    names = (
        "model", "device", "dtype", "threads", "max_model_len",
        "tensor_parallel_size", "pipeline_parallel_size",
    )  # fmt: skip
    return {name: getattr(args, name) for name in names}


def scheduler_settings(args: argparse.Namespace) -> dict[str, Any]:
    """LLM's arguments of add_scheduler."""
    return {
        "max_num_seqs": args.max_num_seqs,
        "max_num_batched_tokens": args.max_num_batched_tokens,
        "enable_chunked_prefill": not args.no_chunked_prefill,
    }
