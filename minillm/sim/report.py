"""A simulated run as a JSON object: the core's metrics, latencies with more percentiles, KV use.

Times in milliseconds where the name says so; shares between 0 and 1; missing is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean

from minillm.core import LLMEngine, percentile
from minillm.core.metrics import RequestMetrics, summarize_together
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


def kv_figures(engines: Sequence[LLMEngine]) -> dict[str, float | int | None]:
    """Blocks in use (share of the pool; mean over time while steps ran) and prefix hits.

    prefix_hit_rate: prompt tokens found in the cache ÷ prompt tokens looked up.
    """
    busy = used = 0.0
    most = 0
    for engine in engines:
        for step in engine.trace.steps:
            length = step.t_end - step.t_start
            busy += length
            used += length * step.kv_used
            most = max(most, step.kv_used)
    blocks = engines[0].config.cache.num_blocks
    queries = sum(engine.kv.prefix_queries for engine in engines)
    hits = sum(engine.kv.prefix_hits for engine in engines)
    return {
        "num_blocks": blocks,
        "kv_tokens": engines[0].config.cache.num_tokens,
        "kv_used_mean": used / busy / blocks if busy else None,
        "kv_used_max": most / blocks if busy else None,
        "prefix_hit_rate": hits / queries if queries else None,
        "busy_s": busy,
    }


def engine_report(requests: Sequence[RequestMetrics], engines: Sequence[LLMEngine]) -> dict:
    """The figures of one replica: `engines` are its engine and those it had before failures."""
    summary = summarize_together(requests, [engine.trace for engine in engines])
    return {**asdict(summary), **latencies(requests), **kv_figures(engines)}


def cluster_report(
    cluster: Cluster, run: ClusterRun, specs: Sequence[ReplicaSpec]
) -> dict[str, object]:
    """The figures of the cluster, and under "replicas" of each replica by its number.

    A replica's `requests` are those it had last; `sent` counts every attempt routed to it.
    """
    replicas = []
    for replica, spec in zip(cluster.replicas, specs, strict=True):
        report = engine_report(run.by_replica[replica.index], replica.engines)
        head = {
            "replica": replica.index, "gpu": str(spec), "sent": run.sent[replica.index],
            "failures": len(replica.engines) - 1 if replica.up else len(replica.engines),
        }  # fmt: skip
        replicas.append({**head, **report})
    engines = [engine for replica in cluster.replicas for engine in replica.engines]
    queries = sum(engine.kv.prefix_queries for engine in engines)
    hits = sum(engine.kv.prefix_hits for engine in engines)
    return {
        **asdict(summarize_together(run.requests, [engine.trace for engine in engines])),
        **latencies(run.requests),
        "prefix_hit_rate": hits / queries if queries else None,
        "retries": run.num_retries,
        "lost_attempts": run.num_lost,
        "replicas": replicas,
    }
