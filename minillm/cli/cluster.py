"""Several replicas behind a real nginx: `minillm serve` processes on this machine, and their load.

Each replica serves the model, or a simulated GPU; nginx shares the requests out and is reached as
one server. One that dies is started again, after a growing pause. Ctrl-C or SIGTERM closes the
door, lets running requests finish and ends everything. See docs/serving.md.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any

from minillm.bench.machine import usable_cpus
from minillm.cli import options, serve
from minillm.cli.cluster_view import show
from minillm.cli.options import at_least_one
from minillm.sim.cluster_spec import REPLICAS_SYNTAX, ReplicaSpec, parse_replicas
from minillm.telemetry import installed_gpus

if TYPE_CHECKING:
    from minillm.serve.replica import ReplicaPlan
    from minillm.serve.replicas import Replicas

SUMMARY = "several replicas behind nginx, their load shown live"
EXAMPLES = """\
examples:
  minillm cluster --replicas 3 --simulate            three simulated A100 behind 127.0.0.1:8000
  minillm cluster --simulate 2xH200-141GB-SXM,1xRTX4090 --router round_robin
  minillm cluster --replicas 2 --max-num-seqs 8      the course's model, twice
  minillm cluster --replicas 3 --simulate --print-config > nginx.conf
"""
DEFAULT_REPLICAS = 2
VIEW_S = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--replicas", type=at_least_one, metavar="N",
        help=f"how many (default: as many as --simulate names, else {DEFAULT_REPLICAS})",
    )  # fmt: skip
    group.add_argument(
        "--router", default="nginx", metavar="NAME",
        help="nginx (its least_conn), round_robin, least_conn, random, power_of_two, or hash (by "
        "X-Session-Id, else by address)",
    )  # fmt: skip
    group.add_argument(
        "--simulate", nargs="?", const=serve.SIMULATED_GPU, metavar="NxGPU,…",
        help=f"simulated GPUs, paced in real time: {REPLICAS_SYNTAX} (default: "
        f"{serve.SIMULATED_GPU})",
    )  # fmt: skip
    group.add_argument(
        "--port", type=int, default=8000,
        help="nginx's, on 127.0.0.1; the replicas take the next free ones; 0 takes any "
        "(default: 8000)",
    )  # fmt: skip
    group.add_argument(
        "--nginx-workers", type=at_least_one, default=2, metavar="N",
        help="nginx's worker processes (default: 2)",
    )  # fmt: skip
    group.add_argument(
        "--print-config", action="store_true", help="print nginx's configuration and start nothing"
    )
    _add_replica(parser)


def _add_replica(parser: argparse.ArgumentParser) -> None:
    """What each replica is told: options of `minillm serve`, by the same names."""
    options.add_model(parser)
    group = parser.add_argument_group("each replica's server")
    serve.add_limits(group)
    serve.add_simulated_model(group)
    serve.add_engine(parser)


def run(args: argparse.Namespace) -> int:
    # Here and not above: `minillm --help` works without the server's packages.
    from minillm.serve.nginx import Upstream, find_nginx
    from minillm.serve.ports import choose_ports
    from minillm.serve.replicas import Replicas

    cluster = Replicas(
        plans(args), args.router, port=args.port, workers=args.nginx_workers, grace_s=args.grace
    )
    if args.print_config:
        port, ports = choose_ports(args.port, len(cluster.plans))
        upstream = Upstream(tuple(ports), args.router, args.nginx_workers)
        sys.stdout.write(upstream.config(port))
        return 0
    find_nginx()
    print(f"Starting replicas: {kinds(cluster)} …", flush=True)
    with Signals(cluster) as signals:
        cluster.start()
        announce(cluster)
        signals.serving = True
        with show(cluster) as view:
            while not signals.stop.wait(VIEW_S):
                view.update()
            ending = threading.Thread(target=cluster.stop)
            ending.start()
            while ending.is_alive():
                view.update()
                ending.join(VIEW_S)
    return 130 if signals.first == signal.SIGINT else 0


class Signals:
    """The first signal ends the cluster gently, the second one at once."""

    def __init__(self, cluster: Replicas) -> None:
        self.cluster = cluster
        self.stop = threading.Event()
        self.first: int | None = None
        self.serving = False

    def __enter__(self) -> Signals:
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        heeded = [n for n in wanted if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
        self._before = {number: signal.signal(number, self._handle) for number in heeded}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.serving:
            raise KeyboardInterrupt
        if self.first is not None:
            self.cluster.abort()
        self.first = self.first or number
        self.stop.set()


def kinds(cluster: Replicas) -> str:
    """Which replicas there are, the like ones together."""
    names = [plan.name for plan in cluster.plans]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def announce(cluster: Replicas) -> None:
    """Where it is reached, who is behind it, and how to end it."""
    upstream = cluster.upstream
    method = "least_conn" if upstream.router == "nginx" else upstream.router
    first, last = upstream.ports[0], upstream.ports[-1]
    print(
        f"{kinds(cluster)} behind nginx ({method}, {upstream.workers} workers).\n"
        f"Serving {cluster.url}/v1; each replica has its own /metrics and /trace, on ports {first} "
        f"to {last}. Ctrl-C ends it, after at most {cluster.grace_s:g} s for what runs.",
        flush=True,
    )


# ── what to start ───────────────────────────────────────────────────────────────────────────


def plans(args: argparse.Namespace) -> list[ReplicaPlan]:
    """The replicas to start. Raises ValueError for numbers that don't go together."""
    from minillm.serve.replica import ReplicaPlan

    flags = replica_flags(args)
    if args.simulate:
        if args.model:
            raise ValueError("--simulate runs no model: leave out --model, or give --sim-model.")
        specs = [
            replace(  # -tp and -pp are for those that don't say it themselves
                spec,
                tp=spec.tp if spec.tp > 1 else args.tensor_parallel_size,
                pp=spec.pp if spec.pp > 1 else args.pipeline_parallel_size,
            )
            for spec in simulated_replicas(args.simulate, args.replicas)
        ]
        return [
            ReplicaPlan(
                f"simulated {spec}",
                ("--simulate", spec.gpu, *flags, "-tp", str(spec.tp), "-pp", str(spec.pp)),
            )
            for spec in specs
        ]
    count = args.replicas or DEFAULT_REPLICAS
    each = args.tensor_parallel_size * args.pipeline_parallel_size
    devices = gpus_for(args.device, count, each)
    if devices:
        return [
            ReplicaPlan(f"GPU {device}", flags, {"CUDA_VISIBLE_DEVICES": device})
            for device in devices
        ]
    if args.threads is None:  # each would take all processors for itself
        flags = (*flags, f"--threads={max(usable_cpus() // count, 1)}")
    return [ReplicaPlan("CPU", flags)] * count


def simulated_replicas(text: str, count: int | None) -> list[ReplicaSpec]:
    """The specs that `text` names; a single one `count` times."""
    specs = parse_replicas(text)
    if count is not None and len(specs) == 1:
        return specs * count
    if count is not None and count != len(specs):
        raise ValueError(f"--replicas says {count}, but --simulate {text} names {len(specs)}.")
    return specs


def gpus_for(device: str, count: int, each: int) -> list[str]:
    """`each` GPUs for each replica, as CUDA_VISIBLE_DEVICES has it; none where they use the CPU.

    ValueError if there are too few: two engines on one GPU would both claim its memory.
    """
    if device not in ("auto", "cuda") or not installed_gpus()[0]:
        return []
    import torch

    if not torch.cuda.is_available():
        return []
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    there = asked.split(",") if asked else [str(i) for i in range(torch.cuda.device_count())]
    if len(there) < count * each:
        raise ValueError(_too_few(count, each, len(there)))
    return [",".join(there[i * each : (i + 1) * each]) for i in range(count)]


def _too_few(count: int, each: int, there: int) -> str:
    """One sentence with the numbers, and what would do."""
    who, needs = ("1 replica", "needs") if count == 1 else (f"{count} replicas", "need")
    shape = "" if each == 1 else f" on {each} GPUs{' each' * (count > 1)}"
    fits = f"--replicas {there // each}, " if there >= each else ""
    return (
        f"{who} of a real model{shape} {needs} {count * each} GPUs, but {there} can be used here: "
        f"give {fits}--device cpu, or --simulate."
    )


def replica_flags(args: argparse.Namespace) -> tuple[str, ...]:
    """The options of `_add_replica` that were given, as `minillm serve` wants them."""
    parser = argparse.ArgumentParser()
    _add_replica(parser)
    flags: list[str] = []
    for name, default in vars(parser.parse_args([])).items():
        value, flag = getattr(args, name), "--" + name.replace("_", "-")
        if value == default:
            continue
        if isinstance(value, bool):
            flags.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            flags.append(f"{flag}={_text(value)}")
    return tuple(flags)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
