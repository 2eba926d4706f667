"""Small random models whose heads and layers split by two, and what runs requests through them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from minillm.core import CacheConfig, EngineConfig, LLMEngine, Runner, SchedulerConfig
from minillm.model.config import ModelConfig, RopeScaling
from minillm.model.loader import expected_shapes

BASE = ModelConfig(
    architecture="LlamaForCausalLM", num_layers=4, hidden_size=32, intermediate_size=48,
    num_heads=4, num_kv_heads=2, head_dim=8, vocab_size=20, max_position_embeddings=128,
    torch_dtype="float32",
)  # fmt: skip
CONFIGS = {
    # 11 doesn't divide by 2: the vocabulary is padded (C62).
    "llama-tied-11": replace(BASE, tie_word_embeddings=True, vocab_size=11),
    "llama3-rope": replace(BASE, rope_scaling=RopeScaling("llama3", 8.0)),
    "qwen2-bias": replace(
        BASE, architecture="Qwen2ForCausalLM", attention_bias=True, tie_word_embeddings=True
    ),
    "qwen3-norm": replace(BASE, architecture="Qwen3ForCausalLM", qk_norm=True, head_dim=12),
}


def save_model(config: ModelConfig, folder: Path) -> Path:
    """Random float32 weights: large enough for varied outputs, small enough for exact sums."""
    generator = torch.Generator().manual_seed(1)
    weights = {}
    for name, shape in expected_shapes(config).items():
        weights[name] = torch.empty(shape).normal_(0.0, 0.2, generator=generator)
        if "norm" in name:
            weights[name] += 1.0
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config.to_dict()), encoding="utf-8")
    save_file(weights, folder / "model.safetensors")
    return folder


def run(runner: Runner, requests, policy: str, *, num_blocks: int, chunk: int = 0, cache=False):
    """Requests (prompt, params) to the end on an engine of its own.

    Gives {id: ids}, {id: [log probabilities by token]} and the engine.
    """
    limits = SchedulerConfig(
        max_num_seqs=3, max_num_batched_tokens=32, max_model_len=runner.max_model_len,
        long_prefill_token_threshold=chunk,
    )  # fmt: skip
    config = EngineConfig(CacheConfig(num_blocks, runner.block_size, cache), limits, policy)
    engine = LLMEngine(config, runner)
    for i, (prompt, params) in enumerate(requests):
        engine.add_request(str(i), prompt, params)
    engine.close_input()
    tokens: dict[str, list[int]] = {}
    logprobs: dict[str, list[dict[int, float]]] = {}
    while engine.has_unfinished:
        for output in engine.step():
            tokens.setdefault(output.request_id, []).extend(output.new_token_ids)
            if output.logprobs is not None:
                logprobs.setdefault(output.request_id, []).append(output.logprobs)
        if engine.last_error is not None:
            raise engine.last_error
    engine.kv.check_integrity()
    return tokens, logprobs, engine
