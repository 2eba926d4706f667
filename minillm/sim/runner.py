"""SimulatedRunner: takes the scheduler's rows and answers with seconds instead of tensors."""

from __future__ import annotations

import zlib
from typing import Protocol

from minillm.core.batch import SchedulerOutput, StepResult
from minillm.core.config import CacheConfig
from minillm.core.runner import Runner, RunnerInfo
from minillm.sim.cost_model import CostModel
from minillm.sim.gpu_cost_model import GPUCostModel


class StepCost(Protocol):
    """What prices a step: CostModel, GPUCostModel, or one of your own."""

    def terms(self, rows: list) -> dict[str, float]:
        """Seconds of each part of the step; the step takes their sum."""


class SimulatedRunner(Runner):
    """A device of that cost model. The tokens are made up, but always the same for a sequence.

    A token is a hash of (seed, request id, position): batch mates, chunks, preemption and policy
    cannot change it. Ids in [3, vocab_size), below the EOS of the usual vocabularies.
    """

    def __init__(
        self,
        cost_model: StepCost | None = None,
        *,
        device: str = "A100 80 GB (three constants)",
        model: str = "Llama-3.1-8B",
        dtype: str = "bf16",
        vocab_size: int = 32_000,
        seed: int = 0,
    ) -> None:
        if vocab_size < 4:
            raise ValueError(f"vocab_size must be at least 4, got {vocab_size}.")
        self.cost_model = cost_model or CostModel()
        self.vocab_size = vocab_size
        self.info = RunnerInfo("simulated", device, model, dtype)
        self._salts = Salts(seed)

    @classmethod
    def for_gpu(
        cls,
        gpu: str = "A100-80GB-SXM",
        model: str = "llama-3.1-8b",
        *,
        preset: str = "vllm-v1",
        tp: int = 1,
        pp: int = 1,
        dtype: str = "bf16",
        seed: int = 0,
    ) -> SimulatedRunner:
        """A model on tp × pp GPUs. Raises ValueError for unknown names and what cannot be."""
        cost = GPUCostModel(gpu, model, preset=preset, tp=tp, pp=pp, dtype=dtype)
        name = cost.gpu.name if tp * pp == 1 else f"{tp * pp} × {cost.gpu.name} (TP{tp} PP{pp})"
        return cls(cost, device=name, model=cost.model.name, dtype=cost.dtype.name, seed=seed)

    def on_gpu(self, gpu: str) -> SimulatedRunner:
        """The same model on another GPU: its steps take another time, its tokens are the same.

        Raises ValueError for a name that is unknown and for a runner that was not made by for_gpu.
        """
        cost = self.cost_model
        if not isinstance(cost, GPUCostModel):
            raise ValueError(f"{self.info.device} is no simulated GPU that could be another one.")
        return self.for_gpu(
            gpu, cost.model.name, preset=cost.preset.name, tp=cost.tp, pp=cost.pp,
            dtype=cost.dtype.name, seed=self._salts.seed,
        )  # fmt: skip

    def cache_config(
        self,
        gpu_memory_utilization: float = 0.9,
        *,
        block_size: int = 16,
        enable_prefix_caching: bool = True,
    ) -> CacheConfig:
        """The KV cache that fits beside the weights. Raises ValueError if the model does not."""
        if not isinstance(self.cost_model, GPUCostModel):
            raise ValueError("Only a runner made by for_gpu knows its memory: give num_blocks.")
        tokens = self.cost_model.kv_tokens(gpu_memory_utilization)
        return CacheConfig(max(tokens // block_size, 1), block_size, enable_prefix_caching)

    def execute(self, output: SchedulerOutput) -> StepResult:
        terms = self.cost_model.terms(output.rows)
        for request_id in output.finished_ids:
            self._salts.pop(request_id, None)
        return StepResult(self._tokens(output.rows), sum(terms.values()), terms)

    def _tokens(self, rows: list) -> dict[str, int]:
        """A Weyl sequence over the position, mixed with the request's salt (both below 2^30)."""
        salts, span = self._salts, self.vocab_size - 3
        tokens: dict[str, int] = {}
        for request, start, num_tokens, _, samples, _, _ in rows:
            if samples:
                name = request.request_id
                tokens[name] = 3 + (salts[name] ^ (start + num_tokens) * 7919) % span
        return tokens


class Salts(dict[str, int]):
    """Each request's share of the hash by its id, made when first asked for."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def __missing__(self, request_id: str) -> int:
        salt = self[request_id] = zlib.crc32(f"{self.seed} {request_id}".encode()) >> 2
        return salt
