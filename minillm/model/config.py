"""ModelConfig: what a decoder looks like, read from config.json.

(gguf_reader.py makes one from a GGUF file's metadata.)

Standard library only. Everything that the model code relies on is checked here, so that a model
we can't run is refused by name, in one sentence, before a weight is read. `ValueError` otherwise.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

SUPPORTED_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
)
# What transformers assumes where an old config.json is silent.
_DEFAULT_POSITIONS = {
    "LlamaForCausalLM": 2048,
    "MistralForCausalLM": 131_072,
    "Qwen2ForCausalLM": 32_768,
    "Qwen3ForCausalLM": 32_768,
}


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How rotary frequencies are stretched: `linear` (divide all) or `llama3` (by wavelength).

    llama3: Llama 3.1's rule; low/high_freq_factor bound the band of wavelengths that is blended
    between the old frequency and the one divided by `factor`.
    """

    type: str
    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192

    def __post_init__(self) -> None:
        if self.type not in ("linear", "llama3"):
            raise ValueError(
                f"RoPE scaling of type {self.type!r} is not supported; supported: none, linear, "
                "llama3."
            )
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise ValueError(f"The RoPE scaling factor must be positive, not {self.factor}.")
        if self.type == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ValueError(
                f"RoPE scaling needs high_freq_factor ({self.high_freq_factor}) above "
                f"low_freq_factor ({self.low_freq_factor})."
            )


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape and rules of one decoder. Field names follow config.json where they exist there."""

    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False  # on q, k and v, as in Qwen2
    qk_norm: bool = False  # RMSNorm per head on q and k, as in Qwen3
    eos_token_ids: frozenset[int] = frozenset()
    bos_token_id: int | None = None
    pad_token_id: int | None = None
    torch_dtype: str = "float32"  # as stored; not necessarily what it is run in
    name: str = "model"

    def __post_init__(self) -> None:
        if self.architecture not in SUPPORTED_ARCHITECTURES:
            raise ValueError(_unsupported(self.architecture))
        for field in (
            "num_layers",
            "hidden_size",
            "intermediate_size",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "vocab_size",
            "max_position_embeddings",
        ):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{self.name}: {field} must be a positive integer, not {value!r}.")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.name}: {self.num_heads} query heads can't be shared by "
                f"{self.num_kv_heads} KV heads (not a multiple)."
            )
        if self.head_dim % 2:
            raise ValueError(f"{self.name}: head_dim must be even for RoPE, not {self.head_dim}.")

    @classmethod
    def from_folder(cls, folder: str | Path, name: str | None = None) -> "ModelConfig":
        """Read config.json and, where there is one, generation_config.json of a folder."""
        folder = Path(folder)
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder} holds no config.json, so it is not a model folder.")
        generation = {}
        if (folder / "generation_config.json").is_file():
            generation = read_json(folder / "generation_config.json")
        config = read_json(folder / "config.json")
        return cls.from_dict(config, generation, name or config.get("minillm_name") or folder.name)

    @classmethod
    def from_dict(
        cls,
        config: Mapping[str, Any],
        generation: Mapping[str, Any] | None = None,
        name: str = "model",
    ) -> "ModelConfig":
        """From the contents of config.json; EOS ids are the union of both files' ids."""
        architectures = config.get("architectures") or [config.get("model_type", "unknown")]
        architecture = str(architectures[0])
        if architecture not in SUPPORTED_ARCHITECTURES:
            raise ValueError(_unsupported(architecture))
        _refuse_unsupported_features(config, architecture, name)
        heads = _required(config, "num_attention_heads", name)
        hidden = _required(config, "hidden_size", name)
        rope_theta, rope_scaling = _read_rope(config)
        generation = generation or {}
        return cls(
            architecture=architecture,
            num_layers=_required(config, "num_hidden_layers", name),
            hidden_size=hidden,
            intermediate_size=_required(config, "intermediate_size", name),
            num_heads=heads,
            num_kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or hidden // max(heads, 1),
            vocab_size=_required(config, "vocab_size", name),
            max_position_embeddings=config.get("max_position_embeddings")
            or _DEFAULT_POSITIONS[architecture],
            rms_norm_eps=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=rope_theta,
            rope_scaling=rope_scaling,
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
            attention_bias=architecture == "Qwen2ForCausalLM",
            qk_norm=architecture == "Qwen3ForCausalLM",
            eos_token_ids=token_ids(config.get("eos_token_id"))
            | token_ids(generation.get("eos_token_id")),
            bos_token_id=_first_id(config.get("bos_token_id"), generation.get("bos_token_id")),
            pad_token_id=_first_id(config.get("pad_token_id"), generation.get("pad_token_id")),
            torch_dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
            name=name,
        )

    def to_dict(self) -> dict[str, Any]:
        """The contents of a config.json that `from_dict`, and transformers, read back."""
        rope = None
        if self.rope_scaling is not None:
            rope = asdict(self.rope_scaling)
            rope["rope_type"] = rope.pop("type")
        return {
            "architectures": [self.architecture],
            "model_type": self.architecture.removesuffix("ForCausalLM").lower(),
            "num_hidden_layers": self.num_layers,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "vocab_size": self.vocab_size,
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": rope,
            "tie_word_embeddings": self.tie_word_embeddings,
            "eos_token_id": sorted(self.eos_token_ids) or None,
            "bos_token_id": self.bos_token_id,
            "pad_token_id": self.pad_token_id,
            "torch_dtype": self.torch_dtype,
            "hidden_act": "silu",
            "minillm_name": self.name,
        }


def llama3_factors(scaling: RopeScaling, theta: float, head_dim: int) -> list[float]:
    """By how much each of the head_dim/2 rotary frequencies is divided (Llama 3.1's rule)."""
    low_wavelength = scaling.original_max_position_embeddings / scaling.low_freq_factor
    high_wavelength = scaling.original_max_position_embeddings / scaling.high_freq_factor
    factors = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * theta ** (i / head_dim)
        if wavelength < high_wavelength:
            factors.append(1.0)
        elif wavelength > low_wavelength:
            factors.append(scaling.factor)
        else:
            band = scaling.high_freq_factor - scaling.low_freq_factor
            context = scaling.original_max_position_embeddings / wavelength
            smooth = (context - scaling.low_freq_factor) / band
            factors.append(1.0 / ((1.0 - smooth) / scaling.factor + smooth))
    return factors


def _unsupported(architecture: str) -> str:
    supported = ", ".join(SUPPORTED_ARCHITECTURES)
    return f"The architecture {architecture!r} is not supported; supported: {supported}."


def _refuse_unsupported_features(config: Mapping[str, Any], architecture: str, name: str) -> None:
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise ValueError(f"{name}: the activation {activation!r} is not supported; only silu is.")
    if config.get("mlp_bias"):
        raise ValueError(f"{name}: biases in the MLP (mlp_bias) are not supported.")
    if config.get("attention_bias") and architecture != "Qwen2ForCausalLM":
        raise ValueError(f"{name}: a bias on attention's output (attention_bias) is not supported.")
    if config.get("quantization_config"):
        raise ValueError(f"{name}: quantised safetensors are not supported; use GGUF instead.")
    window = config.get("sliding_window")
    # Qwen configs name a window and switch it off beside it.
    windowed = window is not None and config.get("use_sliding_window", "Mistral" in architecture)
    if windowed or "sliding_attention" in (config.get("layer_types") or ()):
        raise ValueError(f"{name}: sliding-window attention (window {window}) is not supported.")


def _read_rope(config: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """(theta, scaling): transformers 5 writes rope_parameters, older ones theta and scaling."""
    rope = dict(config.get("rope_scaling") or {})
    rope.update(config.get("rope_parameters") or {})
    theta = float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    partial = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if partial not in (None, 1, 1.0):
        raise ValueError(f"Partial rotary embeddings (factor {partial}) are not supported.")
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return theta, None
    keys = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    extras = {key: rope[key] for key in keys if key in rope}
    return theta, RopeScaling(type=kind, factor=float(rope.get("factor", 1.0)), **extras)


def _required(config: Mapping[str, Any], key: str, name: str) -> int:
    if config.get(key) is None:
        raise ValueError(f"{name}: config.json lacks {key!r}.")
    return config[key]


def token_ids(value: Any) -> frozenset[int]:
    """EOS ids come as nothing, one number or a list."""
    if value is None:
        return frozenset()
    return frozenset(int(v) for v in (value if isinstance(value, list | tuple) else [value]))


def _first_id(*values: Any) -> int | None:
    found = [v for v in values if isinstance(v, int)]
    return found[0] if found else None


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} can't be read as JSON: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object.")
    return content
