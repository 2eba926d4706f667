"""A simulated run as a JSON object: the core's metrics, latencies with more percentiles, KV use.

Times in milliseconds where the name says so; shares between 0 and 1; missing is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean

from minillm.core import LLMEngine, percentile
from minillm.core.metrics import RequestMetrics, Tally, summarize_together
from minillm.sim.cluster import Cluster, ClusterRun
from minillm.sim.cluster_spec import ReplicaSpec

PERCENTILES = (50, 90, 95, 99)


def latencies(requests: Iterable[RequestMetrics]) -> dict[str, float | None]:
    """Mean and percentiles of TTFT, TPOT, ITL, E2E and queueing time of completed requests."""
    done = [request for request in requests if request.completed]
    seconds = {
        "ttft": [r.ttft for r in done],
        "tpot": [r.tpot for r in done],
        "itl": [gap for r in done for gap in r.itl],
        "e2e": [r.e2e for r in done],
        "queue": [r.queue_time for r in done],
    }
    figures: dict[str, float | None] = {}
    for name, values in seconds.items():
        known = sorted(value * 1e3 for value in values if value is not None)
        figures[f"{name}_mean_ms"] = fmean(known) if known else None
        for q in PERCENTILES:
            figures[f"{name}_p{q}_ms"] = percentile(known, q)
        figures[f"{name}_max_ms"] = known[-1] if known else None
    return figures


def engine_report(
    requests: Sequence[RequestMetrics], engines: Sequence[LLMEngine], tallies: Sequence[Tally]
) -> dict[str, object]:
    """The figures of one replica: `engines` are its engine and those it had before failures.

    kv_used_*: blocks in use ÷ blocks; the mean is over the time in steps (busy_s).
    """
    cache = engines[0].config.cache
    busy = sum(tally.busy_s for tally in tallies)
    used = sum(tally.kv_block_s for tally in tallies)
    return {
        **asdict(summarize_together(requests, tallies)),
        **latencies(requests),
        "num_blocks": cache.num_blocks,
        "kv_tokens": cache.num_tokens,
        "kv_used_mean": used / busy / cache.num_blocks if busy else None,
        "kv_used_max": max(tally.kv_used_max for tally in tallies) / cache.num_blocks,
        "prefix_hit_rate": hit_rate(engines),
        "busy_s": busy,
    }


def hit_rate(engines: Sequence[LLMEngine]) -> float | None:
    """Prompt tokens found in the prefix cache ÷ prompt tokens looked up."""
    queries = sum(engine.kv.prefix_queries for engine in engines)
    hits = sum(engine.kv.prefix_hits for engine in engines)
    return hits / queries if queries else None


def cluster_report(
    cluster: Cluster, run: ClusterRun, specs: Sequence[ReplicaSpec]
) -> dict[str, object]:
    """The figures of the cluster, and under "replicas" of each replica by its number.

    A replica's `requests` are those it had last; `sent` counts every attempt routed to it.
    """
    replicas = []
    for replica, spec in zip(cluster.replicas, specs, strict=True):
        index, engines = replica.index, list(replica.engines)
        head = {
            "replica": index, "gpu": str(spec), "sent": run.sent[index],
            "failures": len(engines) - 1 if replica.up else len(engines),
        }  # fmt: skip
        report = engine_report(run.by_replica[index], engines, run.tallies[index])
        replicas.append({**head, **report})
    tallies = [tally for each in run.tallies.values() for tally in each]
    return {
        **asdict(summarize_together(run.requests, tallies)),
        **latencies(run.requests),
        "prefix_hit_rate": hit_rate([e for replica in cluster.replicas for e in replica.engines]),
        "retries": run.num_retries,
        "lost_attempts": run.num_lost,
        "replicas": replicas,
    }
