"""Models and number formats: the sizes that a step's time and the KV cache follow from.

Sizes are those of the published config.json files. A model is dense (no experts), with grouped
query attention and a gated feed-forward layer, as Llama, Mistral and Qwen are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder's sizes: hidden d, ff, heads hq and hkv of head_dim hd."""

    name: str
    num_layers: int
    hidden: int
    ff: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tied: bool = False  # lm_head shares the embedding's weights

    @property
    def layer_params(self) -> int:
        """Weights of one layer's four matrices."""
        heads = (2 * self.num_heads + 2 * self.num_kv_heads) * self.head_dim
        return self.hidden * (heads + 3 * self.ff)

    @property
    def num_params(self) -> int:
        embeddings = self.vocab_size * self.hidden * (1 if self.tied else 2)
        return self.num_layers * self.layer_params + embeddings

    def weight_bytes(self, dtype: DType) -> float:
        """Bytes of all weights; embedding and lm_head stay in 16 bits unless dtype says so."""
        embeddings = self.vocab_size * self.hidden * 2.0
        head = 0.0 if self.tied else self.vocab_size * self.hidden * dtype.head_bytes
        return self.num_layers * self.layer_params * dtype.weight_bytes + embeddings + head

    def kv_bytes(self, dtype: DType) -> float:
        """Bytes of one token's KV, all layers."""
        return 2.0 * self.num_layers * self.num_kv_heads * self.head_dim * dtype.kv_bytes


@dataclass(frozen=True, slots=True)
class DType:
    """Bytes of one weight, one lm_head weight and one KV element; which units multiply."""

    name: str
    weight_bytes: float
    head_bytes: float = 2.0
    kv_bytes: float = 2.0
    fp8: bool = False


_DTYPES = (
    DType("bf16", 2.0),
    DType("fp16", 2.0),
    DType("fp32", 4.0, head_bytes=4.0, kv_bytes=4.0),
    DType("fp8", 1.0, fp8=True),
    DType("fp8_kv8", 1.0, kv_bytes=1.0, fp8=True),
    DType("fp8_block", 1.0, fp8=True),
    # Weights alone: they are widened first, and multiplied in 16 bits.
    DType("int8", 1.0, head_bytes=1.0),
    DType("int4", 0.625, head_bytes=0.625),  # groups of 32 with a 16-bit scale and zero each
)
DTYPES: dict[str, DType] = {dtype.name: dtype for dtype in _DTYPES}

_MODELS = (
    ModelSpec("llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256),
    ModelSpec("llama-3.1-70b", 80, 8192, 28672, 64, 8, 128, 128256),
    ModelSpec("llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, tied=True),
    ModelSpec("llama-3.2-3b", 28, 3072, 8192, 24, 8, 128, 128256, tied=True),
    ModelSpec("llama-2-7b", 32, 4096, 11008, 32, 32, 128, 32000),
    ModelSpec("llama-2-13b", 40, 5120, 13824, 40, 40, 128, 32000),
    ModelSpec("llama-2-70b", 80, 8192, 28672, 64, 8, 128, 32000),
    ModelSpec("llama-1-65b", 80, 8192, 22016, 64, 64, 128, 32000),
    ModelSpec("mistral-7b", 32, 4096, 14336, 32, 8, 128, 32768),
    ModelSpec("qwen2.5-7b", 28, 3584, 18944, 28, 4, 128, 152064),
    ModelSpec("qwen2.5-14b", 48, 5120, 13824, 40, 8, 128, 152064),
    ModelSpec("qwen2.5-32b", 64, 5120, 27648, 40, 8, 128, 152064),
    ModelSpec("qwen2.5-72b", 80, 8192, 29568, 64, 8, 128, 152064),
    ModelSpec("smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, tied=True),
)
MODELS: dict[str, ModelSpec] = {model.name: model for model in _MODELS}


def get_model(name: str) -> ModelSpec:
    """The model of that name. Raises ValueError with the list."""
    model = MODELS.get(str(name).lower())
    if model is None:
        raise ValueError(f"Unknown model {name!r}: choose one of {', '.join(MODELS)}.")
    return model


_LONG_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def get_dtype(name: str) -> DType:
    """The number format of that name (bf16 or bfloat16). Raises ValueError with the list."""
    short = str(name).lower()
    dtype = DTYPES.get(_LONG_NAMES.get(short, short))
    if dtype is None:
        raise ValueError(f"Unknown dtype {name!r}: choose one of {', '.join(DTYPES)}.")
    return dtype
