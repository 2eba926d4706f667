"""transformers on the same shape and workload, for benchmarks/gpu.py."""

from __future__ import annotations

import time
from typing import Any

import torch

from benchmarks.gpu_setup import Scale


def load(scale: Scale) -> Any:
    """A model of the scale's shape with random weights, made on the device."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    settings = {k: v for k, v in scale.config.to_dict().items() if v is not None}
    config = LlamaConfig(**{**settings, "eos_token_id": None, "bos_token_id": None})
    with torch.device(scale.device):
        return AutoModelForCausalLM.from_config(config, dtype=scale.dtype).eval()


@torch.inference_mode()
def static_generate(model: Any, scale: Scale, prompts: list, wanted: list[int]) -> float:
    """Wanted tokens/s of one `generate` over all prompts, which ends with the longest output."""
    ids = torch.tensor(prompts, device=scale.device)
    mask = torch.ones_like(ids)

    def run(tokens: int) -> None:
        model.generate(
            ids, attention_mask=mask, do_sample=False, max_new_tokens=tokens,
            min_new_tokens=tokens, eos_token_id=None, pad_token_id=0,
        )  # fmt: skip
        scale.synchronize()

    run(2)
    began = time.perf_counter()
    run(max(wanted))
    return sum(wanted) / (time.perf_counter() - began)


def continuous_batching(model: Any, scale: Scale, prompts: list, wanted: list[int]) -> float:
    """Tokens/s of transformers' continuous batching, with its own choice of memory and budget."""
    from transformers import GenerationConfig

    # −1 is no token: nothing ends before its max_new_tokens.
    config = GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
    settings = {}
    if scale.tiny:  # else it takes most of the memory
        from transformers import ContinuousBatchingConfig

        settings["continuous_batching_config"] = ContinuousBatchingConfig(num_blocks=64)
    manager = model.init_continuous_batching(generation_config=config, **settings)
    manager.start()

    def run(tokens: list[int]) -> int:
        for prompt, count in zip(prompts, tokens, strict=True):
            manager.add_request(list(prompt), max_new_tokens=count)
        made = 0
        for _ in prompts:
            result = manager.get_result(timeout=100)
            if result is None or result.error:
                raise RuntimeError(f"transformers gave no result: {result and result.error}")
            made += len(result.generated_tokens)
        return made

    try:
        run([2] * len(prompts))  # warm up
        began = time.perf_counter()
        made = run(wanted)
        return made / (time.perf_counter() - began)
    finally:
        manager.stop(block=True)
