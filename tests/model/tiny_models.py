"""Tiny random models of each supported family, saved as transformers saves them."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

VOCAB = 211
_SHAPE = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # large, so that greedy outputs vary from token to token
    "eos_token_id": 2,
    "bos_token_id": 1,
}
_LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS = {
    "llama": lambda: LlamaConfig(**_SHAPE, tie_word_embeddings=True),
    "llama3-rope": lambda: LlamaConfig(
        **_SHAPE, tie_word_embeddings=False, rope_parameters=_LLAMA3_ROPE
    ),
    "linear-rope": lambda: LlamaConfig(
        **_SHAPE, rope_parameters={"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0}
    ),
    "mistral": lambda: MistralConfig(**_SHAPE, sliding_window=None, head_dim=12),
    "qwen2": lambda: Qwen2Config(**_SHAPE, use_sliding_window=False),
    "qwen3": lambda: Qwen3Config(**_SHAPE, head_dim=16, use_sliding_window=False),
}


def save_tiny(family: str, folder: Path, seed: int = 0) -> Path:
    """A model of that family with random float64 weights, biases and norms, saved to folder."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[family]()).to(torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.3)
            elif "norm" in name:
                parameter.uniform_(0.5, 1.5)
    model.save_pretrained(folder)
    return folder


class Reference:
    """transformers itself on one folder: the outputs that ours must equal."""

    def __init__(self, folder: Path, dtype: torch.dtype = torch.float64) -> None:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self.model = model.eval()

    @torch.inference_mode()
    def logits(self, token_ids: list[int]) -> torch.Tensor:
        """[tokens, vocab] of one sequence."""
        return self.model(torch.tensor([token_ids])).logits[0]

    @torch.inference_mode()
    def greedy(self, prompt: list[int], max_tokens: int, **options) -> list[int]:
        """Greedy output ids of one prompt run alone, EOS not stopping it."""
        return self._generate(prompt, max_tokens, **options)[0, len(prompt) :].tolist()

    @torch.inference_mode()
    def greedy_with_gap(self, prompt: list[int], max_tokens: int) -> tuple[list[int], float]:
        """The same, and the least gap between the best two logits on the way."""
        out = self._generate(prompt, max_tokens, output_logits=True, return_dict_in_generate=True)
        best = torch.cat(out.logits).topk(2).values
        gap = (best[:, 0] - best[:, 1]).min().item()
        return out.sequences[0, len(prompt) :].tolist(), gap

    def _generate(self, prompt: list[int], max_tokens: int, **options):
        return self.model.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False, max_new_tokens=max_tokens, min_new_tokens=max_tokens,
            eos_token_id=None, pad_token_id=0, **options,
        )  # fmt: skip
