"""Serve a model, or a simulated GPU, over OpenAI's API. Flags have vLLM's names where it has them.

/v1/completions and /v1/chat/completions (streaming too), /v1/models, /health, /metrics for
Prometheus, /trace for live timelines. Ctrl-C or SIGTERM lets running requests finish first.
See docs/serving.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from minillm.cli import options
from minillm.cli.options import above_zero, add_token_budget, at_least_one
from minillm.core.config import POLICIES, QUEUE_ORDERS
from minillm.llm import LLM
from minillm.sim import SimulatedRunner

if TYPE_CHECKING:
    from minillm.core import LLMEngine
    from minillm.serve import Classroom

SUMMARY = "an OpenAI-compatible server in front of a model or a simulated GPU"
EXAMPLES = """\
examples:
  minillm serve                                       the course's model on 127.0.0.1:8000
  minillm serve --scheduler dynamic --max-num-seqs 8 --max-queue-delay 0.05
  minillm serve --tensor-parallel-size 3              split over three processes, or GPUs
  minillm serve --simulate H100-80GB-SXM              the same server before a simulated GPU
  minillm serve --simulate A100-80GB-SXM --sim-model llama-3.1-70b --tensor-parallel-size 4
  minillm serve --host 0.0.0.0 --api-key "$(openssl rand -hex 16)"
  minillm serve --simulate A100-80GB-SXM --classroom --host 0.0.0.0
"""
SIMULATED_GPU, SIMULATED_MODEL = "A100-80GB-SXM", "llama-3.1-8b"
SIMULATED_MAX_LEN = 8192
# Sequences in one step, unless told: what the device is good for; a batch for static, dynamic.
REAL_SEQS, SIMULATED_SEQS, BATCH_SIZE = 32, 256, 8
SWITCH_S = 1e-3  # the two threads take turns this often: the loop answers while a step is prepared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    _add_server(parser)
    add_engine(parser)
    _add_simulation(parser)


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", help="address to bind (default: 127.0.0.1)")
    group.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
    group.add_argument(
        "--api-key", action="append", default=[], metavar="KEY",
        help="a key that clients must bear, several times for several; also $MINILLM_API_KEY; "
        "needed for any address but loopback",
    )  # fmt: skip
    add_limits(group)
    group.add_argument(
        "--classroom", action="store_true",
        help="a class on one server: prints a join code for the students and a key for you; "
        "--host 0.0.0.0 lets other machines in",
    )  # fmt: skip
    group.add_argument(
        "--student-limit", type=at_least_one, default=4, metavar="N",
        help="classroom: requests that one student may have in flight; more get 429 (default: 4)",
    )  # fmt: skip
    group.add_argument(
        "--trace-text", action="store_true", help="show prompts and token ids in /trace too"
    )


def add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--served-model-name", metavar="NAME", help="what clients call the model")
    group.add_argument(
        "--max-queue-size", type=at_least_one, default=256, metavar="N",
        help="requests that may wait; more get 503 (default: 256)",
    )  # fmt: skip
    group.add_argument(
        "--deadline", type=above_zero, metavar="S",
        help="seconds that a request may wait to be admitted, then 503 (default: any time)",
    )  # fmt: skip
    group.add_argument(
        "--grace", type=float, default=10.0, metavar="S",
        help="seconds that running requests have when the server is stopped (default: 10)",
    )  # fmt: skip


def add_engine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batching")
    group.add_argument(
        "--scheduler", choices=POLICIES, default="continuous", help="default: continuous"
    )
    group.add_argument(
        "--max-num-seqs", type=at_least_one, metavar="N",
        help=f"sequences in one step; the batch size of static and dynamic (default: {REAL_SEQS}, "
        f"{SIMULATED_SEQS} when simulated, {BATCH_SIZE} for static and dynamic)",
    )  # fmt: skip
    add_token_budget(group)
    group.add_argument(
        "--enable-chunked-prefill", action=argparse.BooleanOptionalAction, default=True,
        help="compute long prompts in pieces, beside the decodes (default: on)",
    )  # fmt: skip
    group.add_argument(
        "--long-prefill-token-threshold", type=int, default=0, metavar="N",
        help="most tokens of one prompt in a step; 0 is off (default: 0)",
    )  # fmt: skip
    group.add_argument(
        "--scheduling-policy", choices=QUEUE_ORDERS, default="fcfs",
        help="order of the queue (default: fcfs)",
    )  # fmt: skip
    group.add_argument(
        "--max-queue-delay", type=float, default=0.05, metavar="S",
        help="dynamic: how long the oldest request waits for company (default: 0.05)",
    )  # fmt: skip
    group.add_argument(
        "--preferred-batch-sizes", type=_sizes, default=(), metavar="N,N",
        help="dynamic: sizes that go before the delay is over",
    )  # fmt: skip
    group.add_argument(
        "--max-wait", type=above_zero, default=1.0, metavar="S",
        help="static: how long a batch that is not full waits (default: 1)",
    )  # fmt: skip
    cache = parser.add_argument_group("KV cache")
    cache.add_argument(
        "--block-size", type=at_least_one, default=16, metavar="N",
        help="tokens in one block (default: 16)",
    )  # fmt: skip
    cache.add_argument(
        "--num-gpu-blocks-override", type=at_least_one, metavar="N",
        help="number of blocks, instead of what memory gives",
    )  # fmt: skip
    cache.add_argument(
        "--gpu-memory-utilization", type=above_zero, default=0.9, metavar="X",
        help="share of a GPU's memory to use (default: 0.9)",
    )  # fmt: skip
    cache.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True,
        help="share equal beginnings of prompts (default: on)",
    )  # fmt: skip


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("simulation")
    group.add_argument(
        "--simulate", nargs="?", const=SIMULATED_GPU, metavar="GPU",
        help="no model here but a simulated GPU, paced in real time; its text is made up "
        f"(default GPU: {SIMULATED_GPU})",
    )  # fmt: skip
    add_simulated_model(group)


def add_simulated_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sim-model", default=SIMULATED_MODEL, metavar="NAME",
        help=f"the model on the simulated GPU (default: {SIMULATED_MODEL})",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    # Here and not above: `minillm --help` works without the server's packages.
    from minillm.serve import (
        Classroom,
        Server,
        ServerSettings,
        address,
        class_address,
        listen,
        make_app,
    )  # fmt: skip

    if args.grace < 0:
        raise ValueError(f"--grace must be at least 0 seconds, got {args.grace:g}.")
    given = os.environ.get("MINILLM_API_KEY")
    keys = (*args.api_key, *([given] if given else []))
    classroom = None
    if args.classroom:
        classroom = Classroom(args.student_limit, instructor_keys=keys)
    settings = ServerSettings(
        api_keys=keys, classroom=classroom, served_model_name=args.served_model_name,
        max_queue_size=args.max_queue_size, deadline_s=args.deadline, trace_text=args.trace_text,
    )  # fmt: skip
    listener = listen(args.host, args.port, settings.guarded)  # first: loading a model takes longer
    with listener, load(args) as llm:
        engine = engine_for(llm, args)
        app = make_app(llm, engine, settings)
        url = address(listener)

        def on_ready() -> None:
            announce(engine, url, args.grace)
            if classroom is not None:
                announce_class(classroom, class_address(listener))

        server = Server(app, grace_s=args.grace, on_ready=on_ready)
        sys.setswitchinterval(SWITCH_S)
        gc.collect()
        gc.freeze()  # what is loaded stays: the collector need not look through it again
        server.run(sockets=[listener])
    return 130 if server.stopped_by == signal.SIGINT else 0


def load(args: argparse.Namespace) -> LLM:
    """The model on this machine, or the simulated GPU."""
    batch = {
        "max_num_seqs": args.max_num_seqs or default_seqs(args),
        "max_num_batched_tokens": args.max_num_batched_tokens,
        "enable_chunked_prefill": args.enable_chunked_prefill,
        "enable_prefix_caching": args.enable_prefix_caching,
        "block_size": args.block_size,
        "policy": args.scheduler,
    }
    if not args.simulate:
        return LLM(
            **options.model_settings(args), **batch, num_blocks=args.num_gpu_blocks_override,
            gpu_memory_utilization=args.gpu_memory_utilization,
        )  # fmt: skip
    if args.model:
        raise ValueError("--simulate runs no model: leave out --model, or give --sim-model NAME.")
    parallel = {"tp": args.tensor_parallel_size, "pp": args.pipeline_parallel_size}
    dtype = "bf16" if args.dtype == "auto" else args.dtype
    runner = SimulatedRunner.for_gpu(args.simulate, args.sim_model, dtype=dtype, **parallel)
    fits = runner.cache_config(args.gpu_memory_utilization, block_size=args.block_size).num_blocks
    return LLM.simulated(
        runner=runner, num_blocks=args.num_gpu_blocks_override or fits,
        max_model_len=args.max_model_len or SIMULATED_MAX_LEN, **batch,
    )  # fmt: skip


def default_seqs(args: argparse.Namespace) -> int:
    """Sequences in one step, where none are asked for."""
    if args.scheduler != "continuous":
        return BATCH_SIZE
    return SIMULATED_SEQS if args.simulate else REAL_SEQS


def engine_for(llm: LLM, args: argparse.Namespace) -> LLMEngine:
    """The engine with the settings that LLM itself has not got."""
    from minillm.serve import serving_engine

    own: dict[str, Any] = {
        "long_prefill_token_threshold": args.long_prefill_token_threshold,
        "scheduling_policy": args.scheduling_policy,
        "max_queue_delay_s": args.max_queue_delay,
        "preferred_batch_sizes": args.preferred_batch_sizes,
        "max_wait_s": args.max_wait,
        "enable_chunked_prefill": args.enable_chunked_prefill,
    }
    return serving_engine(llm, args.scheduler, **own)


def announce(engine: LLMEngine, url: str, grace_s: float) -> None:
    """What is served, where its times come from, and how to end it."""
    info, config = engine.runner.info, engine.config
    device = f"a simulated {info.device}" if info.provenance == "simulated" else info.device
    print(
        f"{info.model} ({info.dtype}) on {device}: {config.policy} batching, up to "
        f"{config.scheduler.max_num_seqs} sequences a step, {config.cache.num_blocks:,} KV blocks "
        f"of {config.cache.block_size} tokens.\n"
        f"Serving {url}/v1 (also {url}/metrics and {url}/trace). "
        f"Ctrl-C ends it, after at most {grace_s:g} s for what runs.",
        flush=True,
    )


def announce_class(classroom: Classroom, url: str) -> None:
    """What students type into a notebook, and what the instructor does."""
    lines = [
        "", f"Classroom at {url}, join code {classroom.code}. In a student's notebook:",
        f'    import widgets; widgets.join("{url}", "{classroom.code}", "your name")',
        "In yours (the key is for you alone):",
        f'    import widgets; widgets.teach("{url}", "{classroom.instructor_key}")',
    ]  # fmt: skip
    if "//127.0.0.1" in url or "//[::1]" in url:
        lines.append("Only this machine reaches that address; --host 0.0.0.0 lets the class in.")
    print("\n".join(lines), flush=True)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(at_least_one(part) for part in text.split(","))
