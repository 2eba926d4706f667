"""GGUF files (llama.cpp's format) read as HF-named weights, through the `gguf` package.

Only the container and the block formats are the package's; names, RoPE's row order and the
config are made here. Row order: llama.cpp stores q and k of the llama architecture with the two
halves of each head interleaved (its converter's `permute`); HF's RoPE wants the halves apart, so
those rows are put back. qwen2 and qwen3 are stored as they are.
Errors: ValueError in one sentence for anything that isn't a GGUF file of a supported model.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize

from minillm.model.config import ModelConfig, RopeScaling, llama3_factors, token_ids

GGUF_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
_TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FACTORS = "rope_freqs.weight"
_FLOAT_TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class GGUFModel:
    """An opened GGUF file: `config`, and `tensors()` that expands one weight after the other."""

    def __init__(self, path: str | Path, name: str | None = None):
        path = Path(path)
        self._reader, self.metadata = _open(path)
        if int(self.metadata.get("split.count") or 1) > 1:
            raise ValueError(f"{path} is one part of a split GGUF file; merge the parts first.")
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        factors = self._tensors.get(_ROPE_FACTORS)
        query = self._tensors.get("blk.0.attn_q.weight")
        stored = query.tensor_type.name if query is not None else "unknown"
        self.config = config_from_gguf(
            self.metadata,
            self._tensors,
            rope_factors=None if factors is None else [float(f) for f in factors.data],
            torch_dtype=_FLOAT_TYPES.get(stored, "bfloat16"),
            name=name or self.metadata.get("general.name") or path.stem,
        )

    def __len__(self) -> int:
        """How many tensors `tensors()` gives."""
        return len(self._tensors) - (_ROPE_FACTORS in self._tensors)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """(HF name, weight in config.torch_dtype), quantised blocks expanded."""
        dtype = getattr(torch, self.config.torch_dtype)
        permuted = self.metadata["general.architecture"] == "llama"
        heads = {"q_proj": self.config.num_heads, "k_proj": self.config.num_kv_heads}
        for tensor in self._reader.tensors:
            if tensor.name == _ROPE_FACTORS:
                continue
            name = hf_name(tensor.name)
            values = dequantize(tensor.data, tensor.tensor_type)
            kind = name.split(".")[-2]
            if permuted and kind in heads:
                values = unpermute(values, heads[kind])
            yield name, torch.tensor(values).to(dtype)


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The file's key/value pairs."""
    return _open(Path(path))[1]


def hf_name(name: str) -> str:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`."""
    if name in _TOP_NAMES:
        return _TOP_NAMES[name]
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None or match[2] not in _BLOCK_NAMES:
        raise ValueError(f"The GGUF tensor {name!r} belongs to no supported architecture.")
    return f"model.layers.{match[1]}.{_BLOCK_NAMES[match[2]]}.{match[3]}"


def unpermute(rows: np.ndarray, num_heads: int) -> np.ndarray:
    """Undo llama.cpp's row order of q and k: [heads, half, 2] back to [heads, 2, half].

    rows: [num_heads * head_dim, ...].
    """
    by_pair = rows.reshape(num_heads, -1, 2, *rows.shape[1:])
    return by_pair.swapaxes(1, 2).reshape(rows.shape)


def _open(path: Path) -> tuple[GGUFReader, dict[str, Any]]:
    try:
        reader = GGUFReader(path)
        return reader, {key: field.contents() for key, field in reader.fields.items()}
    except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise ValueError(f"{path} is not a readable GGUF file: {error}.") from None


def config_from_gguf(
    metadata: Mapping[str, Any],
    tensor_names: Iterable[str],
    rope_factors: list[float] | None = None,
    torch_dtype: str = "bfloat16",
    name: str = "model",
) -> "ModelConfig":
    """From a GGUF file's key/value pairs and the names of its tensors.

    rope_factors: values of the tensor `rope_freqs.weight`, which is how llama.cpp stores
    Llama 3.1's frequency scaling.
    """
    arch = str(metadata.get("general.architecture", "unknown"))
    if arch not in GGUF_ARCHITECTURES:
        supported = ", ".join(GGUF_ARCHITECTURES)
        raise ValueError(
            f"The GGUF architecture {arch!r} is not supported; supported: {supported}."
        )
    names = set(tensor_names)

    def value(key: str, default: Any = None) -> Any:
        found = metadata.get(f"{arch}.{key}", default)
        if found is None:
            raise ValueError(f"{name}: the GGUF file lacks {arch}.{key}.")
        return found

    heads, hidden = int(value("attention.head_count")), int(value("embedding_length"))
    head_dim = int(value("attention.key_length", hidden // max(heads, 1)))
    theta = _from_float32(value("rope.freq_base", 10_000.0))
    if int(value("rope.dimension_count", head_dim)) != head_dim:
        raise ValueError(f"{name}: partial rotary embeddings are not supported.")
    return ModelConfig(
        architecture=GGUF_ARCHITECTURES[arch],
        num_layers=int(value("block_count")),
        hidden_size=hidden,
        intermediate_size=int(value("feed_forward_length")),
        num_heads=heads,
        num_kv_heads=int(value("attention.head_count_kv", heads)),
        head_dim=head_dim,
        vocab_size=int(
            metadata.get(f"{arch}.vocab_size") or len(metadata["tokenizer.ggml.tokens"])
        ),
        max_position_embeddings=int(value("context_length")),
        rms_norm_eps=_from_float32(value("attention.layer_norm_rms_epsilon")),
        rope_theta=theta,
        rope_scaling=_gguf_rope_scaling(metadata, arch, rope_factors, theta, head_dim),
        tie_word_embeddings="output.weight" not in names,
        attention_bias="blk.0.attn_q.bias" in names,
        qk_norm="blk.0.attn_q_norm.weight" in names,
        eos_token_ids=token_ids(metadata.get("tokenizer.ggml.eos_token_id"))
        | token_ids(metadata.get("tokenizer.ggml.eot_token_id")),
        bos_token_id=metadata.get("tokenizer.ggml.bos_token_id"),
        pad_token_id=metadata.get("tokenizer.ggml.padding_token_id"),
        torch_dtype=torch_dtype,
        name=name,
    )


def _from_float32(value: float) -> float:
    """The short decimal that was stored in single precision: 9.99999974e-06 → 1e-05."""
    return float(f"{value:.7g}")


def _gguf_rope_scaling(
    metadata: Mapping[str, Any],
    arch: str,
    factors: list[float] | None,
    theta: float,
    head_dim: int,
) -> RopeScaling | None:
    kind = metadata.get(f"{arch}.rope.scaling.type", "none")
    if kind == "linear":
        return RopeScaling("linear", float(metadata[f"{arch}.rope.scaling.factor"]))
    if kind != "none":
        raise ValueError(f"RoPE scaling of type {kind!r} is not supported in a GGUF file.")
    if factors is None:
        return None
    scaling = RopeScaling("llama3", factor=round(max(factors), 4))
    expected = llama3_factors(scaling, theta, head_dim)
    close = len(factors) == len(expected) and all(
        math.isclose(a, b, rel_tol=1e-3) for a, b in zip(factors, expected, strict=True)
    )
    if not close:
        raise ValueError("The GGUF file's RoPE factors are not Llama 3's; they are not supported.")
    return scaling
