"""Measures minillm beside other engines: same weights, same machine, in turns.

    python -m benchmarks.peers --workload W1,W2 --peers hf_static,hf_cb,vllm_cpu,openvino \\
        --peer-python vllm_cpu=/venvs/vllm/bin/python --json benchmarks/results/peers.json

Each engine runs in a process of its own that is stopped while another is measured. A round is one
run of each; a round in which other processes took more than a tenth of the CPU is discarded and
tried again, up to twice as many rounds as asked for. The table goes to standard error.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.offline import QUIET, WORKLOADS, OthersLoad, machine
from benchmarks.peer_catalogue import OURS, PEERS, VARIABLE, chosen_pythons, find_peers
from benchmarks.peer_process import PeerError, PeerProcess
from benchmarks.peers_table import Round, is_quiet, markdown, summarise
from minillm.model.default_model import ensure_default_model
from minillm.model.devices import choose_device, choose_dtype, usable_cores

CHOICES = ("W0", "W1", "W2", "B1")  # W3's arrivals need a server


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def load_requests(workload: str) -> list[dict]:
    """The workload as the protocol wants it; B1, a batch of one, is the first request of W1."""
    workloads = json.loads(WORKLOADS.read_text(encoding="utf-8"))["workloads"]
    requests = workloads["W1"][:1] if workload == "B1" else workloads[workload]
    return [{key: r[key] for key in ("id", "prompt_ids", "max_tokens")} for r in requests]


def start(
    pythons: Mapping[str, Path], settings: dict, scratch: Path, stack: ExitStack
) -> tuple[dict[str, PeerProcess], dict[str, dict], dict[str, str]]:
    """Load each engine in turn: (processes, versions, {failed engine: why}).

    Raises PeerError if ours fails, for then there is nothing to compare.
    """
    processes, versions, failed = {}, {}, {}
    for name, python in pythons.items():
        peer = PEERS[name]
        say(f"loading {peer.title}")
        log = stack.enter_context((scratch / f"{name}.log").open("w"))
        environment = peer.environment(python, settings["threads"])
        process = PeerProcess(name, peer.runner, python, environment, log)
        stack.callback(process.close)
        try:
            versions[name] = process.ask({**settings, **dict(peer.settings)})["versions"]
            process.ask(load_requests("W0"))
            process.pause()
            processes[name] = process
        except PeerError as error:
            if name == OURS:
                raise
            process.close()
            failed[name] = f"{error} Its log is {name}.log in --scratch."
            say(failed[name])
    return processes, versions, failed


def run_round(processes: Mapping[str, PeerProcess], order: Sequence[str], workload: str) -> Round:
    """One run of each engine, in that order."""
    requests = load_requests(workload)
    runs = {}
    for name in order:
        process = processes[name]
        process.resume()
        with OthersLoad(process.pid) as load:
            runs[name] = process.ask(requests)
        process.pause()
        runs[name]["others_cpu_share"] = load.share
        say(
            f"  {name}: {runs[name]['output_tokens'] / runs[name]['seconds']:.1f} output tokens/s, "
            f"others took {load.share:.0%} of the CPU"
        )
    return {name: runs[name] for name in processes}


def measure(processes: Mapping[str, PeerProcess], workload: str, wanted: int) -> list[Round]:
    """A warm-up, then rounds until `wanted` were quiet or twice as many are done.

    Each round starts with another engine, so that none always follows the same one.
    """
    names = list(processes)
    say(f"{workload}: warm-up")
    run_round(processes, names, workload)
    rounds: list[Round] = []
    while len(rounds) < 2 * wanted and sum(is_quiet(r, QUIET) for r in rounds) < wanted:
        turn = len(rounds) % len(names)
        say(f"{workload}: round {len(rounds) + 1}")
        rounds.append(run_round(processes, names[turn:] + names[:turn], workload))
    return rounds


def report(args: argparse.Namespace) -> dict:
    """Everything that the command prints, as one object."""
    pythons, missing = find_peers([OURS, *args.peers], chosen_pythons(args.peer_python, os.environ))
    for name, how in missing.items():
        say(f"{PEERS[name].title} is missing: {how}")
    if OURS not in pythons:
        raise ValueError(missing[OURS])
    model = Path(args.model) if args.model else ensure_default_model()
    dtype = str(choose_dtype(args.dtype, choose_device("cpu"))).removeprefix("torch.")
    threads = args.threads or usable_cores()
    with ExitStack() as stack:
        scratch = Path(args.scratch or stack.enter_context(tempfile.TemporaryDirectory()))
        scratch.mkdir(parents=True, exist_ok=True)
        settings = {
            "model": str(model), "dtype": dtype, "threads": threads, "scratch": str(scratch),
            "max_num_seqs": args.max_num_seqs,
            "max_num_batched_tokens": args.max_num_batched_tokens,
        }  # fmt: skip
        processes, versions, failed = start(pythons, settings, scratch, stack)
        rounds = {name: measure(processes, name, args.rounds) for name in args.workload}
    return {
        "schema": 1,
        "command": "benchmarks.peers",
        "provenance": "measured",
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "model": model.name,
        "settings": {k: v for k, v in settings.items() if k not in ("model", "scratch")},
        "engines": versions,
        "missing": {**missing, **failed},
        "workloads": {name: summarise(found, QUIET) for name, found in rounds.items()},
        "rounds": rounds,
    }


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    others = [name for name in PEERS if name != OURS]

    def names(choices: Sequence[str]):
        def split(text: str) -> list[str]:
            found = list(filter(None, text.split(",")))
            for name in found:
                if name not in choices:
                    raise argparse.ArgumentTypeError(f"{name!r}: choose of {', '.join(choices)}")
            return found

        return split

    parser.add_argument("--workload", type=names(CHOICES), default=["W1"], metavar="W1,W2")
    parser.add_argument("--peers", type=names(others), default=others, metavar="NAMES",
                        help=f"of {','.join(others)} (default: all)")  # fmt: skip
    parser.add_argument("--peer-python", action="append", default=[], metavar="NAME=PATH",
                        help=f"the Python that has that peer; also the variable {VARIABLE}, "
                        "comma-separated; default: this Python")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=5, help="quiet rounds wanted (default: 5)")
    parser.add_argument("--model", help="folder with safetensors; default: the default model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int, help="default: the physical cores")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--max-num-batched-tokens", type=int, default=512, help="token budget")
    parser.add_argument("--scratch", metavar="FOLDER", help="keeps what the engines print, and "
                        "the model as some want it (default: nothing is kept)")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", default="-", help="where to write; - is stdout")
    args = parser.parse_args(argv)
    for option in ("rounds", "max_num_seqs", "max_num_batched_tokens"):
        if getattr(args, option) < 1:
            parser.error(f"--{option.replace('_', '-')} must be at least 1")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no stopped engine remains
    try:
        result = report(args)
    except (ValueError, PeerError) as error:
        print(f"benchmarks.peers: {error}", file=sys.stderr)
        return 2
    say("\n" + markdown(result))
    text = json.dumps(result, indent=1, ensure_ascii=False, allow_nan=False)
    if args.json == "-":
        print(text)
    else:
        Path(args.json).parent.mkdir(parents=True, exist_ok=True)
        Path(args.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
