"""What a decode step takes at several batch sizes: the object of `minillm simulate step`."""

from __future__ import annotations

from collections.abc import Sequence

from minillm.sim.gpu_cost_model import GPUCostModel
from minillm.sim.pipeline import Load


def step_table(
    gpu: str = "A100-80GB-SXM",
    model: str = "llama-3.1-8b",
    *,
    batches: Sequence[int] = (1, 8, 32, 128),
    context: int = 512,
    tp: int = 1,
    pp: int = 1,
    preset: str = "vllm-v1",
    dtype: str = "bf16",
    gpu_memory_utilization: float = 0.9,
) -> dict:
    """Simulated decode steps: {steps: [{batch, ms, tok_s, terms, fits}], …}, terms in ms.

    context: tokens of each sequence, the new one included. fits: whether the KV cache holds the
    batch. Raises ValueError for unknown names, a model that does not fit, and sizes below 1.
    """
    if not batches:
        raise ValueError("Give at least one batch size.")
    for name, value in (*(("batch", batch) for batch in batches), ("context", context)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer ≥ 1, got {value!r}.")
    cost = GPUCostModel(gpu, model, preset=preset, dtype=dtype, tp=tp, pp=pp)
    kv_tokens = cost.kv_tokens(gpu_memory_utilization)
    steps = []
    for batch in batches:
        terms = cost.load_terms(Load(batch, batch * context, (), batch))
        seconds = sum(terms.values())
        steps.append(
            {
                "batch": batch,
                "ms": round(seconds * 1e3, 4),
                "tok_s": round(batch / seconds, 2),
                "terms": {name: round(value * 1e3, 4) for name, value in terms.items()},
                "fits": batch * context <= kv_tokens,
            }
        )
    return {
        "provenance": "simulated",
        "gpu": cost.gpu.name,
        "gpu_source": cost.gpu.source,
        "model": cost.model.name,
        "dtype": cost.dtype.name,
        "preset": cost.preset.name,
        "tp": tp,
        "pp": pp,
        "links": cost.gpu.links,
        "context": context,
        "kv_tokens": kv_tokens,
        "steps": steps,
    }
