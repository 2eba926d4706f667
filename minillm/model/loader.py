"""A model's name → its weights, under the names that HF checkpoints use.

A source is a folder (config.json + *.safetensors), a .gguf file, a hub id (`owner/name`), or
`dummy:PATH` (random weights of that folder's or config.json's shape, no download). None means
the environment's MINILLM_MODEL, else the default model, which is fetched once.

Only safetensors and GGUF are read: files that hold pickles (.bin, .pt, .pth) can run code when
they are opened, so they never are, and no code of a checkpoint is imported.
Errors: ValueError in one sentence, before anything is computed.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from minillm.model.config import ModelConfig
from minillm.model.default_model import LABEL, ensure_default_model

_PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_DEFAULT_NAMES = ("default", LABEL, "SmolLM2-135M-Instruct")
Weights = dict[str, torch.Tensor]
Named = tuple[str, torch.Tensor]
Keep = Callable[[str, torch.Tensor], Weights]


def resolve_model(source: str | Path | None = None) -> str | Path:
    """Where a source's files are on this machine, downloading them if they aren't there yet.

    Gives a folder, a .gguf file, or the `dummy:…` string unchanged.
    """
    text = str(source or os.environ.get("MINILLM_MODEL") or "default")
    if text in _DEFAULT_NAMES:
        return ensure_default_model()
    if text.startswith("dummy:"):
        return text
    path = Path(text).expanduser()
    if path.exists():
        return path
    if _HUB_ID.fullmatch(text) and path.suffix != ".gguf":
        return _from_hub(text)
    raise ValueError(
        f"There is no model {text!r}: it is neither a folder, nor a .gguf file, nor a hub id "
        "(owner/name); without a model named, the default one runs offline."
    )


def load_config(source: str | Path | None = None) -> ModelConfig:
    """The ModelConfig alone (for a .gguf file this reads its whole header: seconds)."""
    path = resolve_model(source)
    if isinstance(path, str):
        return _dummy_config(path)
    if path.suffix == ".gguf":
        from minillm.model.gguf_reader import GGUFModel

        return GGUFModel(path).config
    return ModelConfig.from_folder(_model_folder(path))


def load_weights(
    source: str | Path | ModelConfig | None = None, *, seed: int = 0, keep: Keep | None = None
) -> tuple[ModelConfig, Weights]:
    """(config, {HF name: tensor on the CPU, in config.torch_dtype as stored}).

    A ModelConfig as source gives random weights of that shape, as `dummy:PATH` does; `seed`
    chooses them. Names and shapes are those of `expected_shapes(config)`, exactly.
    keep: gets each weight as it is read and gives what shall be kept of it, under what name; so
    that one of several workers never holds the whole model (shard.py).
    """
    if isinstance(source, ModelConfig):
        return source, _checked(source, _dummy_tensors(source, seed), keep)
    path = resolve_model(source)
    if isinstance(path, str):
        config = _dummy_config(path)
        return config, _checked(config, _dummy_tensors(config, seed), keep)
    if path.suffix == ".gguf":
        from minillm.model.gguf_reader import GGUFModel

        model = GGUFModel(path)
        return model.config, _checked(model.config, model.tensors(), keep)
    folder = _model_folder(path)
    config = ModelConfig.from_folder(folder)
    return config, _checked(config, _read_safetensors(folder, config), keep)


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """{HF name: shape} of every weight of the model; linear weights are [out, in]."""
    hidden, inner, dim = config.hidden_size, config.intermediate_size, config.head_dim
    rows = {"q": config.num_heads * dim, "k": config.num_kv_heads * dim}
    rows["v"] = rows["k"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocab_size, hidden)}
    for index in range(config.num_layers):
        layer, attention = f"model.layers.{index}.", f"model.layers.{index}.self_attn."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        for letter, out in rows.items():
            shapes[f"{attention}{letter}_proj.weight"] = (out, hidden)
            if config.attention_bias:
                shapes[f"{attention}{letter}_proj.bias"] = (out,)
            if config.qk_norm and letter != "v":
                shapes[f"{attention}{letter}_norm.weight"] = (dim,)
        shapes[attention + "o_proj.weight"] = (hidden, rows["q"])
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        shapes[layer + "mlp.gate_proj.weight"] = (inner, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (inner, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def dummy_weights(config: ModelConfig, seed: int = 0) -> Weights:
    """Random weights, std 0.02 (norms one, biases zero), the same for the same seed."""
    return dict(_dummy_tensors(config, seed))


def _dummy_tensors(config: ModelConfig, seed: int) -> Iterator[Named]:
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, config.torch_dtype)
    for name, shape in expected_shapes(config).items():
        if name.endswith("norm.weight"):
            yield name, torch.ones(shape, dtype=dtype)
        elif name.endswith("bias"):
            yield name, torch.zeros(shape, dtype=dtype)
        else:
            yield name, torch.empty(shape).normal_(0.0, 0.02, generator=generator).to(dtype)


def _dummy_config(source: str) -> ModelConfig:
    path = Path(source.removeprefix("dummy:")).expanduser()
    if path.is_dir():
        return ModelConfig.from_folder(path, name=f"{path.name} (random weights)")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{source}: no config.json can be read there ({error}).") from None
    return ModelConfig.from_dict(content, name=f"{path.stem} (random weights)")


def _model_folder(path: Path) -> Path:
    """The path if it is a folder with safetensors, else the reason why we don't open it."""
    if path.is_file():
        if path.suffix in (s[1:] for s in _PICKLES):
            raise ValueError(
                f"{path} may hold a pickle, which can run code when it is opened; convert it to "
                "safetensors first."
            )
        raise ValueError(f"{path} is neither a model folder nor a .gguf file.")
    if any(path.glob("*.safetensors")):
        return path
    pickles = sorted(p.name for pattern in _PICKLES for p in path.glob(pattern))
    if pickles:
        raise ValueError(
            f"{path} holds only {', '.join(pickles[:3])}: such a file may be a pickle, which can "
            "run code when it is opened; convert it to safetensors first."
        )
    raise ValueError(f"{path} holds no *.safetensors file, so there are no weights to load.")


def _read_safetensors(folder: Path, config: ModelConfig) -> Iterator[Named]:
    """All tensors of the folder's shards (memory-mapped: pages are read when they are used)."""
    wanted = expected_shapes(config)
    for file in _shards(folder):
        try:
            with safe_open(file, framework="pt") as shard:
                # A tied model may carry its output layer again; old ones carry RoPE's buffers.
                names = shard.keys()
                kept = [n for n in names if n in wanted or not _is_redundant(n, config)]
                yield from ((name, shard.get_tensor(name)) for name in kept)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{file} can't be read as safetensors: {error}.") from None


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        single = folder / "model.safetensors"
        return [single] if single.is_file() else sorted(folder.glob("*.safetensors"))
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"{index} can't be read as an index of shards: {error!r}.") from None
    # An index comes from outside: it may name files of its own folder only.
    missing = sorted(n for n in names if n != Path(n).name or not (folder / n).is_file())
    if missing:
        raise ValueError(f"{folder} lacks {len(missing)} of {len(names)} shards: {missing[0]} ….")
    return [folder / name for name in sorted(names)]


def _is_redundant(name: str, config: ModelConfig) -> bool:
    tied_head = name == "lm_head.weight" and config.tie_word_embeddings
    return tied_head or name.endswith("rotary_emb.inv_freq")


def _checked(config: ModelConfig, tensors: Iterable[Named], keep: Keep | None) -> Weights:
    """What is kept of the tensors; ValueError unless they are exactly the model's."""
    wanted = expected_shapes(config)
    weights: Weights = {}
    found, unknown = set(), []
    for name, tensor in tensors:
        found.add(name)
        if name not in wanted:
            unknown.append(name)
            continue
        _check_tensor(config, name, tensor, wanted[name])
        weights.update(keep(name, tensor) if keep else {name: tensor})
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(f"{config.name} lacks {len(missing)} weights, the first is {missing[0]}.")
    if unknown:
        raise ValueError(
            f"{config.name} holds {len(unknown)} weights that {config.architecture} doesn't have, "
            f"the first is {min(unknown)}."
        )
    return weights


def _check_tensor(
    config: ModelConfig, name: str, tensor: torch.Tensor, shape: tuple[int, ...]
) -> None:
    if tuple(tensor.shape) != shape:
        raise ValueError(
            f"{config.name}: {name} has the shape {tuple(tensor.shape)}, "
            f"but config.json says {shape}."
        )
    if not tensor.is_floating_point():
        raise ValueError(f"{config.name}: {name} is {tensor.dtype}, not floating point.")


def _from_hub(repo_id: str) -> Path:
    """The hub's files in its own cache; no pickle is even downloaded."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(repo_id, allow_patterns=_HUB_FILES))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise ValueError(
            f"{repo_id!r} is no folder here and could not be fetched from the hub ({reason}); "
            f"without the hub, the default model {LABEL} works: leave the model out."
        ) from None
