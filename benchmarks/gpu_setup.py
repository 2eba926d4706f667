"""What the parts of benchmarks/gpu.py measure with: a model of random weights, runs, peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    drive,
)
from minillm.model.config import ModelConfig
from minillm.model.loader import expected_shapes
from minillm.model.runner import ModelRunner

LLAMA_3_1_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0, "max_position_embeddings": 16384, "tie_word_embeddings": False,
}  # fmt: skip
TINY = {
    **LLAMA_3_1_8B, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
    "max_position_embeddings": 1024,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scale:
    """How large a run is: the real one for a GPU, a tiny one that only shows that it runs."""

    device: str
    tiny: bool

    @property
    def config(self) -> ModelConfig:
        if self.tiny:
            return ModelConfig.from_dict(TINY, name="tiny, random weights")
        return ModelConfig.from_dict(LLAMA_3_1_8B, name="Llama-3.1-8B's shape, random weights")

    def pick(self, real: Any, tiny: Any) -> Any:
        return tiny if self.tiny else real

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.device == "cpu" else torch.bfloat16

    def synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


class RandomWeights(Mapping[str, torch.Tensor]):
    """Weights made on the device when they're asked for, so that none lies there twice."""

    def __init__(self, config: ModelConfig, scale: Scale) -> None:
        self.shapes, self.scale = expected_shapes(config), scale

    def __getitem__(self, name: str) -> torch.Tensor:
        shape = self.shapes[name]
        options = {"dtype": self.scale.dtype, "device": self.scale.device}
        if name.endswith("norm.weight"):
            return torch.ones(shape, **options)
        return torch.empty(shape, **options).normal_(0.0, 0.02)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def make_runner(scale: Scale, **options: Any) -> ModelRunner:
    """The scale's model with random weights and the KV cache that memory gives."""
    config = scale.config
    usual = {"num_blocks": scale.pick(None, 512), "max_num_batched_tokens": 8192}
    if scale.tiny:
        usual["threads"] = 1
    weights = RandomWeights(config, scale)
    return ModelRunner(config, weights, device=scale.device, dtype=scale.dtype, **(usual | options))


def random_prompts(count: int, length: int, vocab: int, seed: int = 0) -> list[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        tuple(torch.randint(3, vocab, (length,), generator=generator).tolist())
        for _ in range(count)
    ]


def run_engine(
    runner: ModelRunner, arrivals: list[Arrival], *, max_num_seqs: int, budget: int, **limits: Any
) -> LLMEngine:
    """Run the requests to their end. Raises RuntimeError when a step failed."""
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs, max_num_batched_tokens=budget,
        max_model_len=runner.max_model_len, **limits,
    )  # fmt: skip
    cache = CacheConfig(runner.num_blocks, runner.block_size, enable_prefix_caching=False)
    vocab = runner.model_config.vocab_size
    engine = LLMEngine(EngineConfig(cache, scheduler, vocab_size=vocab), runner)
    for _ in drive(engine, arrivals, time.sleep):
        pass
    if engine.last_error is not None:
        raise RuntimeError(f"A step failed: {engine.last_error}") from engine.last_error
    return engine


def at_once(prompts: list[tuple[int, ...]], max_tokens: int) -> list[Arrival]:
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    return [Arrival(str(i), prompt, params) for i, prompt in enumerate(prompts)]


def decode_step_s(engine: LLMEngine, batch: int) -> float:
    """Median seconds of the steps in which exactly `batch` sequences decode, but for two."""
    times = [
        step.t_end - step.t_start
        for step in engine.trace.steps
        if len(step.rows) == batch and all(row.n_tokens == 1 and row.start for row in step.rows)
    ]
    return median(times[2:] or times)


def seconds(compute: Callable[[], object], scale: Scale, repeat: int) -> float:
    """Median time of one call, in a run of calls that the device works through."""
    compute()
    times = []
    for _ in range(3):
        scale.synchronize()
        began = time.perf_counter()
        for _ in range(repeat):
            compute()
        scale.synchronize()
        times.append((time.perf_counter() - began) / repeat)
    return median(times)


def measured_peaks(scale: Scale) -> dict[str, float]:
    """What this device reaches: bytes/s of a large copy, FLOP/s of a large matrix product."""
    size = scale.pick(1 << 30, 1 << 20)
    source = torch.empty(size, dtype=torch.uint8, device=scale.device)
    target = torch.empty_like(source)
    n = scale.pick(8192, 128)
    a = torch.randn(n, n, dtype=scale.dtype, device=scale.device)
    return {
        "bandwidth": 2 * size / seconds(lambda: target.copy_(source), scale, 10),
        "flops": 2 * n**3 / seconds(lambda: a @ a, scale, 10),
    }


def published_peaks() -> dict[str, Any] | None:
    """The data sheet's figures, as the simulator has them; None for a GPU that it doesn't know."""
    from minillm.sim.hardware import GPUS

    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    total = torch.cuda.get_device_properties(0).total_memory / 1e9
    words = name.upper().replace("NVIDIA", "").replace("-", " ").split()
    near = [gpu for gpu in GPUS.values() if gpu.name.upper().split("-")[0] in words]
    if not near:
        return None
    gpu = min(near, key=lambda gpu: abs(gpu.memory / 1e9 - total))
    return {"gpu": gpu.name, "bandwidth": gpu.bandwidth, "flops": gpu.peak_flops}
