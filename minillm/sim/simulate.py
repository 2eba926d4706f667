"""One GPU or a cluster under a workload, in one call: plain arguments in, a JSON object out.

Everything inside is the engine's own: scheduler, KV blocks, prefix cache, preemption, trace,
metrics. Only the runner is simulated. What a user got wrong (an unknown name, a rate of 0, a model
that does not fit) is a ValueError of one sentence.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SchedulerConfig
from minillm.core.config import check_policy
from minillm.sim.cluster import Cluster, ClusterRun
from minillm.sim.cluster_spec import ReplicaSpec, parse_failures, parse_replicas
from minillm.sim.presets import get_preset
from minillm.sim.report import cluster_report, engine_report
from minillm.sim.routers import make_router
from minillm.sim.runner import SimulatedRunner
from minillm.sim.traces import named_trace, trace_workload
from minillm.sim.workload import SimRequest

DEFAULT_MODEL = "llama-3.1-8b"
MAX_MODEL_LEN = 131_072  # Llama 3.1's context; the KV cache may allow less


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What each replica serves, and under which limits. None: the preset's default.

    num_blocks: KV blocks in place of what fits beside the weights. More limits of the scheduler
    (max_wait_s, max_queue_delay_s, preferred_batch_sizes, prefill_first, …) go into `limits`.
    """

    model: str = DEFAULT_MODEL
    dtype: str = "bf16"
    preset: str = "vllm-v1"
    policy: str = "continuous"
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    chunked_prefill: bool = True
    prefix_caching: bool = True
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    num_blocks: int | None = None
    block_size: int = 16
    seed: int = 0
    limits: Mapping[str, object] = field(default_factory=dict)

    def scheduler_config(self) -> SchedulerConfig:
        preset = get_preset(self.preset)
        max_len = self.max_model_len or MAX_MODEL_LEN
        slots = preset.max_num_seqs if self.max_num_seqs is None else self.max_num_seqs
        budget = self.max_num_batched_tokens
        if budget is None:
            budget = max(preset.max_num_batched_tokens, slots)
            budget = budget if self.chunked_prefill else max(budget, max_len)
        return SchedulerConfig(
            max_num_seqs=slots, max_num_batched_tokens=budget, max_model_len=max_len,
            enable_chunked_prefill=self.chunked_prefill, **self.limits,
        )  # fmt: skip

    def cache_config(self, runner: SimulatedRunner) -> CacheConfig:
        if self.num_blocks is None:
            return runner.cache_config(
                self.gpu_memory_utilization, block_size=self.block_size,
                enable_prefix_caching=self.prefix_caching,
            )  # fmt: skip
        return CacheConfig(self.num_blocks, self.block_size, self.prefix_caching)


def make_runner(spec: ReplicaSpec, options: EngineOptions) -> SimulatedRunner:
    """The simulated device of one replica."""
    return SimulatedRunner.for_gpu(
        spec.gpu, options.model, preset=options.preset, tp=spec.tp, pp=spec.pp,
        dtype=options.dtype, seed=options.seed,
    )  # fmt: skip


def engine_config(spec: ReplicaSpec, options: EngineOptions) -> EngineConfig:
    """What one replica's engine is built from. ValueError in one sentence for wrong options."""
    check_policy(options.policy)
    cache = options.cache_config(make_runner(spec, options))
    return EngineConfig(cache, options.scheduler_config(), policy=options.policy)


def make_engine(spec: ReplicaSpec, options: EngineOptions) -> LLMEngine:
    """A fresh engine of that kind, on a virtual clock."""
    return LLMEngine(engine_config(spec, options), make_runner(spec, options))


def make_workload(
    trace: str = "azure2023-conv",
    *,
    rate: float | None = None,
    requests: int | None = None,
    arrivals: str = "trace",
    cv: float = 2.0,
    seed: int = 0,
) -> list[SimRequest]:
    """The first `requests` of a trace of the package, at `rate` requests a second in the mean."""
    return trace_workload(
        named_trace(trace), rate=rate, count=requests, arrivals=arrivals, seed=seed, cv=cv
    )


def simulate_run(
    gpu: str = "A100-80GB-SXM",
    workload: Sequence[SimRequest] | None = None,
    options: EngineOptions | None = None,
    *,
    tp: int = 1,
    pp: int = 1,
    trace: str = "azure2023-conv",
    rate: float | None = None,
    requests: int | None = None,
    arrivals: str = "trace",
    seed: int = 0,
) -> dict:
    """One replica (tp × pp GPUs) under a workload; without one, under a trace of the package."""
    options = options or EngineOptions(seed=seed)
    spec = ReplicaSpec(gpu, tp, pp)
    named = workload is None
    if named:
        workload = make_workload(trace, rate=rate, requests=requests, arrivals=arrivals, seed=seed)
    cluster, run, seconds = run_cluster([spec], workload, options, keep_traces=False, seed=seed)
    engine = cluster.replicas[0].engine
    return {
        **_setting(options, trace if named else None, rate if named else None, seed),
        "gpu": engine.runner.cost_model.gpu.name, "tp": tp, "pp": pp,
        **engine_report(run.requests, [engine], run.tallies[0]),
        **_pace(seconds, run),
    }  # fmt: skip


def simulate_cluster(
    replicas: str | Sequence[ReplicaSpec] = "4xA100-80GB-SXM",
    router: str = "least_conn",
    workload: Sequence[SimRequest] | None = None,
    options: EngineOptions | None = None,
    *,
    trace: str = "azure2023-conv",
    rate: float | None = None,
    requests: int | None = None,
    arrivals: str = "trace",
    weights: Sequence[float] | None = None,
    load_info_age: float = 0.0,
    fail: str = "",
    on_failure: str = "retry",
    seed: int = 0,
) -> dict:
    """Replicas behind a router under a workload: figures of the cluster and of each replica."""
    options = options or EngineOptions(seed=seed)
    specs = parse_replicas(replicas) if isinstance(replicas, str) else list(replicas)
    named = workload is None
    if named:
        workload = make_workload(trace, rate=rate, requests=requests, arrivals=arrivals, seed=seed)
    cluster, run, seconds = run_cluster(
        specs, workload, options, router=router, weights=weights, load_info_age=load_info_age,
        fail=fail, on_failure=on_failure, keep_traces=False, seed=seed,
    )  # fmt: skip
    return {
        **_setting(options, trace if named else None, rate if named else None, seed),
        "router": router, "load_info_age": load_info_age, "on_failure": on_failure,
        "gpus": sum(spec.num_gpus for spec in specs),
        **cluster_report(cluster, run, specs),
        **_pace(seconds, run),
    }  # fmt: skip


def run_cluster(
    specs: Sequence[ReplicaSpec],
    workload: Sequence[SimRequest],
    options: EngineOptions | None = None,
    *,
    router: str = "round_robin",
    weights: Sequence[float] | None = None,
    load_info_age: float = 0.0,
    fail: str = "",
    on_failure: str = "retry",
    keep_traces: bool = True,
    seed: int = 0,
) -> tuple[Cluster, ClusterRun, float]:
    """The cluster after the run (its engines hold the traces), what came of it, wall seconds.

    keep_traces False: only figures are kept, and a run of any length fits into memory.
    """
    options = options or EngineOptions(seed=seed)
    configs = {spec: engine_config(spec, options) for spec in dict.fromkeys(specs)}
    chosen = make_router(
        router, len(specs), weights=weights, seed=seed,
        capacity_tokens=[configs[spec].cache.num_tokens for spec in specs],
    )  # fmt: skip
    cluster = Cluster(
        [partial(make_engine, spec, options) for spec in specs], chosen,
        request_s=[get_preset(options.preset).request_s] * len(specs),
        load_info_age=load_info_age, on_failure=on_failure, keep_traces=keep_traces,
        failures=parse_failures(fail, len(specs)) if fail else (),
    )  # fmt: skip
    with _few_collections():
        start = time.perf_counter()
        cluster.serve(workload)
        seconds = time.perf_counter() - start
        run = cluster.collect(workload)
    for replica in cluster.replicas:
        for engine in replica.engines:
            if engine.last_error is not None:
                raise RuntimeError(f"A simulated engine failed: {engine.last_error}")
    return cluster, run, seconds


@contextmanager
def _few_collections() -> Iterator[None]:
    """A run makes millions of records that stay: looking for garbage among them is in vain."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _setting(options: EngineOptions, trace: str | None, rate: float | None, seed: int) -> dict:
    scheduler = options.scheduler_config()
    return {
        "provenance": "simulated",
        "model": options.model, "dtype": options.dtype, "preset": options.preset,
        "policy": options.policy, "trace": trace, "rate": rate, "seed": seed,
        "config": asdict(scheduler),
    }  # fmt: skip


def _pace(seconds: float, run: ClusterRun) -> dict:
    """How fast the simulation itself ran, on this machine."""
    steps = sum(tally.steps for each in run.tallies.values() for tally in each)
    return {
        "sim_seconds": seconds,
        "sim_steps_per_s": steps / seconds,
        "sim_requests_per_s": len(run.requests) / seconds,
    }


__all__ = [
    "EngineOptions", "engine_config", "make_engine", "make_workload", "run_cluster",
    "simulate_cluster", "simulate_run",
]  # fmt: skip
