"""Two fast replicas and a slow one behind a real nginx: what each way to choose makes of it.

    python -m benchmarks.replicas --repeat 3 --json -

Replicas are simulated GPUs, paced in real time: twice llama-3.1-8b on an A100 (12 ms a step), once
llama-3.1-70b on four RTX-A6000 in a row (about 16 times as long). Poisson arrivals, each request
with 16 prompt and 12 output tokens; the same arrivals for each router, another seed each repeat.
Latencies are measured by the client, so a busy machine shows in them: read the load beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from statistics import fmean, median

import httpx
from prometheus_client.parser import text_string_to_metric_families

from minillm.bench.arrivals import send_times
from minillm.bench.client import Target
from minillm.bench.load import measure
from minillm.bench.machine import machine
from minillm.bench.plan import Workload
from minillm.serve.replica import ReplicaPlan
from minillm.serve.replicas import Replicas

SAME_NAME = ("--served-model-name", "model")
FAST = ("--simulate", "A100-80GB-SXM", *SAME_NAME)
SLOW = ("--simulate", "RTX-A6000", "--sim-model", "llama-3.1-70b", "-pp", "4", *SAME_NAME)
ROUTES = (  # router, nginx workers, zone
    ("round_robin", 2, True),
    ("random", 2, True),
    ("power_of_two", 2, True),
    ("least_conn", 1, True),
    ("least_conn", 4, True),
    ("least_conn", 4, False),
)
RELOAD_S = 1.0  # for nginx's new workers to take over


@dataclass(frozen=True, slots=True)
class Result:
    """One run. shares: requests that each replica finished. E2E in milliseconds."""

    router: str
    workers: int
    zone: bool
    shares: list[int]
    failed: int
    mean_e2e_ms: float
    median_e2e_ms: float
    load_average: float


def finished(url: str) -> int:
    """Requests that a replica has finished so far."""
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
    return int(sum(
        sample.value for family in families for sample in family.samples
        if sample.name == "minillm:request_success_total"
    ))  # fmt: skip


def run_once(cluster: Replicas, router: str, workers: int, zone: bool, count: int, rate: float,
             seed: int) -> Result:  # fmt: skip
    cluster.route(router, workers=workers, zone=zone)
    time.sleep(RELOAD_S)
    urls = [replica.url for replica in cluster.replicas]
    before = [finished(url) for url in urls]
    work = Workload(dataset="fixed", input_len=16, output_len=12, seed=seed)
    plan = work.plan(send_times(count, rate, burstiness=1.0, seed=seed))
    run = measure(Target(f"{cluster.url}/v1", "model"), plan)
    done = [r.chunk_times[-1] - r.scheduled for r in run.requests if r.completed]
    shares = [finished(url) - then for url, then in zip(urls, before, strict=True)]
    return Result(
        router, workers, zone, shares, sum(r.failed for r in run.requests),
        fmean(done) * 1e3, median(done) * 1e3, os.getloadavg()[0],
    )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=90, metavar="N")
    parser.add_argument("--rate", type=float, default=30.0, metavar="R", help="requests a second")
    parser.add_argument("--repeat", type=int, default=3, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="- is stdout")
    args = parser.parse_args(argv)
    results = []
    plans = [ReplicaPlan("fast", FAST), ReplicaPlan("fast", FAST), ReplicaPlan("slow", SLOW)]
    with Replicas(plans) as cluster:
        for seed in range(args.repeat):
            for route in ROUTES:  # interleaved: a busy minute meets all of them
                result = run_once(cluster, *route, args.requests, args.rate, seed)
                results.append(result)
                print(row(result), file=sys.stderr, flush=True)
    report = {
        "machine": machine(), "provenance": "measured, simulated replicas",
        "requests": args.requests, "rate": args.rate, "results": [asdict(r) for r in results],
    }  # fmt: skip
    if args.json == "-":
        print(json.dumps(report, indent=2))
    elif args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
    return 0


def row(result: Result) -> str:
    zone = "zone" if result.zone else "no zone"
    shares = "/".join(map(str, result.shares))
    return (
        f"{result.router:13} {result.workers} workers, {zone:8} {shares:10} mean "
        f"{result.mean_e2e_ms:5.0f} ms, median {result.median_e2e_ms:5.0f} ms, {result.failed} "
        f"failed (load {result.load_average:.1f})"
    )


if __name__ == "__main__":
    raise SystemExit(main())
