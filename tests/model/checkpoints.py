"""Tiny random checkpoints for tests: transformers models, and what llama.cpp makes of them."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from tokenizers import pre_tokenizers

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 262,
    "max_position_embeddings": 128,
}
ARCHITECTURES = {
    "llama": {"bos_token_id": 256, "eos_token_id": 257},
    "mistral": {"sliding_window": None, "head_dim": 32},
    "qwen2": {"tie_word_embeddings": True, "rope_theta": 1e6},
    "qwen3": {"head_dim": 32, "rope_theta": 1e6},
}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def tiny_model(kind: str, **overrides: object) -> transformers.PreTrainedModel:
    """A random model of transformers' own; norms and biases are random too."""
    torch.manual_seed(0)
    options = SIZES | ARCHITECTURES[kind] | overrides
    config = transformers.AutoConfig.for_model(kind, **options)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.05)
    return model


def reference(model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    weights = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    return weights


def assert_same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor.to(found[name].dtype)), name


def permute(weight: np.ndarray, heads: int) -> np.ndarray:
    """The row order in which llama.cpp's converter stores q and k of the llama architecture."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write_gguf(
    path: Path,
    model: transformers.PreTrainedModel,
    quantization: str,
    rope_factors: np.ndarray | None = None,
) -> None:
    """What llama.cpp's converter writes for this model, with a byte-level tokenizer."""
    c, kind = model.config, model.config.model_type
    writer = gguf.GGUFWriter(path, kind)
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    writer.add_name("Tiny")
    writer.add_block_count(c.num_hidden_layers)
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(head_dim)
    writer.add_vocab_size(c.vocab_size)
    add_tokenizer(writer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind.upper()], c.num_hidden_layers)
    wanted = gguf.GGMLQuantizationType[quantization]
    for name, tensor in reference(model).items():
        stem, _, suffix = name.rpartition(".")
        values = tensor.float().numpy()
        if kind == "llama" and stem.endswith(("q_proj", "k_proj")):
            heads = c.num_attention_heads if stem.endswith("q_proj") else c.num_key_value_heads
            values = permute(values, heads)
        stored = wanted if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        data = gguf.quants.quantize(values, stored)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data, raw_dtype=stored)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer: gguf.GGUFWriter) -> None:
    """All bytes, three special tokens, a few merges: SmolLM's kind."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, "<|im_start|>", "<|im_end|>", "<|endoftext|>", "he", "ll", "hell"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * 3 + [1] * 3)
    writer.add_token_merges(["h e", "l l", "he ll"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_pad_token_id(258)
    writer.add_unk_token_id(258)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}")
