"""How a peer's process talks with benchmarks.peers: one JSON object a line, both ways.

Standard library only: the peer's interpreter has its engine, and nothing of this project's needs.
The first line that comes in is the settings, each further one a list of requests to run; the
answers go to what was standard output at the start, which is then pointed at standard error, for
engines print there as they please.

settings: model (a folder), dtype, threads, max_num_seqs, max_num_batched_tokens.
request: id, prompt_ids, max_tokens. Greedy, the EOS ignored.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

Run = Callable[[list[dict]], list[int]]  # requests → how many tokens each got


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of these packages; those that are missing are left out."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def peak_rss_mb() -> int:
    """Peak resident memory so far, in MB: this process and its largest ended child."""
    usage = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return round(max(resource.getrusage(who).ru_maxrss for who in usage) * 1024 / 1e6)


def measure(run: Run, requests: list[dict]) -> dict:
    """One timed run. Raises RuntimeError if a request got another number of tokens than asked."""
    began = time.perf_counter()
    counts = run(requests)
    seconds = time.perf_counter() - began
    asked = [request["max_tokens"] for request in requests]
    if counts != asked:
        raise RuntimeError(f"{sum(counts)} tokens came out, {sum(asked)} were asked for.")
    return {"seconds": seconds, "output_tokens": sum(counts), "peak_rss_mb": peak_rss_mb()}


def serve(load: Callable[[dict], Run], packages: tuple[str, ...]) -> None:
    """Answer until standard input ends. load(settings) makes what runs a list of requests."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run: Run | None = None
    for line in sys.stdin:
        message = json.loads(line)
        try:
            if run is None:
                run = load(message)
                answer = {"versions": versions(*packages)}
            else:
                answer = measure(run, message)
        except Exception as error:  # whatever the engine throws is the answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
