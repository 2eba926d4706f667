"""ParallelRunner: the Runner of a model that is split over worker processes.

The engine, its scheduler and its block tables stay here and know nothing of the split; each step
goes to all workers, and the rank that samples answers with the tokens. Tensor parallelism
computes a layer on several workers at once. Pipeline stages take turns within a step: a
synchronous step() has no second batch to fill the pipeline with, so of S stages one is busy at a
time, and what is gained is memory. (What overlapping batches would gain: minillm/sim/pipeline.py.)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from minillm.core.batch import SchedulerOutput, StepResult
from minillm.core.runner import Runner, RunnerInfo
from minillm.model import devices
from minillm.model.config import ModelConfig
from minillm.model.loader import load_weights
from minillm.model.runner import GiB, ModelRunner
from minillm.model.shard import ParallelConfig
from minillm.model.wire import Setup, StepEncoder, WorkerReport
from minillm.model.workers import WorkerGroup


def load_runner(
    source: str | Path | ModelConfig,
    config: ModelConfig,
    tensor_parallel_size: int,
    pipeline_parallel_size: int,
    **options: Any,
) -> ModelRunner | ParallelRunner:
    """The model in this process or, where one of the sizes is above 1, split over workers."""
    parallel = ParallelConfig(tensor_parallel_size, pipeline_parallel_size)
    if parallel.num_workers > 1:
        return ParallelRunner(source, config, parallel, **options)
    _, weights = load_weights(source)
    return ModelRunner(config, weights, **options)


class ParallelRunner(Runner):
    """source, config: what loader.load_weights reads, and its config. options: ModelRunner's.

    kv_cache_memory (CPU) is shared by all workers; gpu_memory_utilization is of each one's GPU.
    threads: CPU threads altogether; the workers that compute at the same time share them.
    group: workers of another runner that is no longer used, or None: own ones.
    Raises ValueError, before anything is started, for a model or a machine that can't be split so.
    """

    def __init__(
        self,
        source: str | Path | ModelConfig,
        config: ModelConfig,
        parallel: ParallelConfig,
        *,
        device: str = "auto",
        threads: int | None = None,
        kv_cache_memory: int = GiB,
        group: WorkerGroup | None = None,
        **options: Any,
    ) -> None:
        self.model_config, self.parallel = config, parallel
        kind = check_split(config, parallel, device)
        each = max(1, devices.choose_threads(threads) // parallel.num_workers)
        self._group = group or WorkerGroup(parallel.num_workers, device=kind, threads=each)
        self._owned = group is None
        self._encoder = StepEncoder()
        options["kv_cache_memory"] = kv_cache_memory // parallel.num_workers
        options["threads"] = self._group.threads
        setup = Setup(source, config, parallel, options)
        try:
            ranks = range(parallel.num_workers)
            self.workers: list[WorkerReport] = self._group.ask(lambda: setup, ranks)
        except BaseException:
            self.close()
            raise
        first = self.workers[0]
        self.num_blocks = first.num_blocks
        self.block_size, self.max_model_len = first.block_size, first.max_model_len
        device = device_text(first.device, parallel)
        self.info = RunnerInfo("measured", device, config.name, first.dtype)

    def execute(self, output: SchedulerOutput) -> StepResult:
        """One forward pass over all workers. RunnerLostError if one fails: none is left then."""
        (result,) = self._group.ask(
            lambda: self._encoder.encode(output), [self.parallel.reporter]
        )  # fmt: skip
        return result

    def close(self) -> None:
        """End the workers, unless somebody else brought them."""
        if self._owned:
            self._group.close()


def check_split(config: ModelConfig, parallel: ParallelConfig, device: str = "auto") -> str:
    """The kind of device, "cpu" or "cuda"; ValueError where the split can't be."""
    parallel.check(config)
    chosen = devices.choose_device(device)
    count = parallel.num_workers
    if chosen.type == "mps":
        raise ValueError(
            f"tensor_parallel_size · pipeline_parallel_size = {count} needs {count} devices, and "
            "a Mac has one GPU; device cpu runs the workers as processes."
        )
    if chosen.type == "cuda" and torch.cuda.device_count() < count:
        raise ValueError(
            f"tensor_parallel_size {parallel.tensor_parallel_size} · pipeline_parallel_size "
            f"{parallel.pipeline_parallel_size} needs {count} GPUs, but torch finds "
            f"{torch.cuda.device_count()}; device cpu runs the workers as processes."
        )
    return chosen.type


def device_text(one: str, parallel: ParallelConfig) -> str:
    """All workers' devices from one's: "CPU, 2 workers of 1 thread (AMX bf16), TP 2 · PP 1"."""
    count = parallel.num_workers
    sizes = f"TP {parallel.tensor_parallel_size} · PP {parallel.pipeline_parallel_size}"
    if one.startswith("CPU, "):
        return f"CPU, {count} workers of {one.removeprefix('CPU, ')}, {sizes}"
    return f"{count} × {one}, {sizes}"
