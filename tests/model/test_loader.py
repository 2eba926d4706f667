"""Weights under HF's names from each kind of source, and one sentence for each unusable one.

transformers is the reference: what it saves is what must be read. GGUF: test_gguf.py.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from minillm.model.config import ModelConfig, RopeScaling, llama3_factors
from minillm.model.loader import expected_shapes, load_config, load_weights, resolve_model
from tests.model.checkpoints import ARCHITECTURES, LLAMA3, assert_same, reference, tiny_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny_model("llama").save_pretrained(tmp_path)
    return tmp_path


def edit_config(folder: Path, **changes: object) -> None:
    file = folder / "config.json"
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))


# Safetensors folders


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_a_folder_of_each_architecture(kind: str, tmp_path: Path) -> None:
    model = tiny_model(kind)
    model.save_pretrained(tmp_path)
    config, weights = load_weights(tmp_path)
    assert_same(weights, reference(model))
    assert {n: tuple(w.shape) for n, w in weights.items()} == expected_shapes(config)
    assert config.architecture == type(model).__name__
    assert (config.num_layers, config.hidden_size, config.intermediate_size) == (2, 64, 96)
    assert (config.num_heads, config.num_kv_heads) == (4, 2)
    assert config.head_dim == ARCHITECTURES[kind].get("head_dim", 16)
    assert config.rope_theta == ARCHITECTURES[kind].get("rope_theta", 10_000.0)
    assert config.tie_word_embeddings == (kind == "qwen2")
    assert (config.attention_bias, config.qk_norm) == (kind == "qwen2", kind == "qwen3")
    assert config.torch_dtype == "float32"
    assert config.rms_norm_eps == model.config.rms_norm_eps


def test_shards(tmp_path: Path) -> None:
    model = tiny_model("llama")
    model.save_pretrained(tmp_path, max_shard_size="50KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 2
    assert_same(load_weights(tmp_path)[1], reference(model))
    shards[1].unlink()
    with pytest.raises(ValueError, match=rf"lacks 1 of {len(shards)} shards: {shards[1].name}"):
        load_weights(tmp_path)


def test_an_index_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    inner = tmp_path / "model"
    tiny_model("llama").save_pretrained(inner, max_shard_size="50KB")
    first = sorted(inner.glob("*.safetensors"))[0]
    first.rename(tmp_path / first.name)
    index = inner / "model.safetensors.index.json"
    index.write_text(index.read_text().replace(first.name, f"../{first.name}"))
    with pytest.raises(ValueError, match="shards"):
        load_weights(inner)


def test_redundant_tensors_are_left_out(tmp_path: Path) -> None:
    model = tiny_model("qwen2")
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    weights = load_file(file)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    save_file(weights, file)
    assert_same(load_weights(tmp_path)[1], reference(model))


def test_wrong_weights_are_one_sentence(folder: Path) -> None:
    file = folder / "model.safetensors"
    good = load_file(file)
    name = "model.layers.1.mlp.up_proj.weight"
    cases = {
        r"lacks 1 weights, the first is model\.layers\.1\.mlp\.up_proj": {
            k: v for k, v in good.items() if k != name
        },
        r"shape \(96, 63\), but config\.json says \(96, 64\)": good | {name: torch.ones(96, 63)},
        r"1 weights that LlamaForCausalLM doesn't have.*extra": good | {"extra": torch.ones(1)},
        "not floating point": good | {name: torch.ones(96, 64, dtype=torch.int8)},
    }
    for message, weights in cases.items():
        save_file(weights, file)
        with pytest.raises(ValueError, match=message):
            load_weights(folder)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="can't be read as safetensors"):
        load_weights(folder)


# Configs


def test_eos_ids_are_a_union(folder: Path) -> None:
    edit_config(folder, eos_token_id=2, bos_token_id=None)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 2], "bos_token_id": 1}')
    config = load_config(folder)
    assert config.eos_token_ids == frozenset({2, 7})
    assert config.bos_token_id == 1
    edit_config(folder, eos_token_id=None)
    (folder / "generation_config.json").unlink()
    assert load_config(folder).eos_token_ids == frozenset()


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_theta": 5e5, "rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3}},
    ],
)
def test_rope_in_old_and_new_configs(folder: Path, rope: dict) -> None:
    edit_config(folder, **({"rope_parameters": ..., "rope_theta": ...} | rope))
    config = load_config(folder)
    assert config.rope_theta == 5e5
    assert config.rope_scaling == RopeScaling("llama3", **LLAMA3)
    # The same frequencies as transformers'.
    theirs = transformers.AutoConfig.from_pretrained(folder)
    wanted, _ = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["llama3"](theirs, "cpu")
    plain = 5e5 ** -(torch.arange(0, config.head_dim, 2) / config.head_dim)
    factors = llama3_factors(config.rope_scaling, config.rope_theta, config.head_dim)
    torch.testing.assert_close(plain / torch.tensor(factors), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"architectures": ["GPT2LMHeadModel"]},
            "'GPT2LMHeadModel' is not supported; supported: L",
        ),
        ({"architectures": None, "model_type": "mamba"}, "'mamba' is not supported"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "'yarn' is not supported"),
        ({"hidden_act": "gelu"}, "'gelu' is not supported"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_bias": True}, "attention_bias"),
        ({"quantization_config": {"bits": 4}}, "use GGUF"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 64}, "window 64"),
        ({"num_key_value_heads": 3}, "4 query heads can't be shared by 3 KV heads"),
        ({"hidden_size": ...}, "lacks 'hidden_size'"),
        ({"vocab_size": -1}, "vocab_size must be a positive integer, not -1"),
        ({"head_dim": 15}, "head_dim must be even"),
        ({"partial_rotary_factor": 0.5}, "factor 0.5"),
    ],
)
def test_unsupported_configs(folder: Path, changes: dict, message: str) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_weights(folder)
    assert "\n" not in str(caught.value)


def test_config_survives_a_round_trip(folder: Path) -> None:
    edit_config(folder, rope_parameters={"rope_type": "llama3", "rope_theta": 5e5, **LLAMA3})
    config = load_config(folder)
    assert ModelConfig.from_dict(config.to_dict(), name=config.name) == config


# Never pickle


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickles_are_refused_unopened(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    touched = tmp_path / "touched"
    (folder / name).write_bytes(pickle.dumps(Bomb(touched)))
    for source in (folder, folder / name):
        with pytest.raises(ValueError, match=rf"{name}.*pickle.*convert it to safetensors"):
            load_weights(source)
    assert not touched.exists()


def test_safetensors_beside_a_pickle_are_used(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"not even a pickle")
    assert len(load_weights(folder)[1]) == 2 * 9 + 3


# Other sources


def test_dummy_weights(folder: Path) -> None:
    config, weights = load_weights(f"dummy:{folder}", seed=1)
    again = load_weights(f"dummy:{folder / 'config.json'}", seed=1)[1]
    other = load_weights(config, seed=2)[1]
    assert_same(again, weights)
    assert "random weights" in config.name
    name = "model.embed_tokens.weight"
    assert not torch.equal(other[name], weights[name])
    assert weights[name].std().item() == pytest.approx(0.02, rel=0.05)
    assert {n: tuple(w.shape) for n, w in weights.items()} == expected_shapes(config)
    with pytest.raises(ValueError, match=r"no config\.json can be read"):
        load_weights("dummy:/nowhere/config.json")


@pytest.mark.parametrize("source", ["no-such-model", "/no/such/folder", "no/such.gguf"])
def test_unknown_models(source: str) -> None:
    with pytest.raises(ValueError, match=r"There is no model .* the default one runs offline"):
        load_weights(source)


def test_folders_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no \*\.safetensors"):
        load_weights(tmp_path)
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        load_weights(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="JSON object"):
        load_weights(tmp_path)
    (tmp_path / "README.md").write_text("")
    with pytest.raises(ValueError, match="neither a model folder nor"):
        load_weights(tmp_path / "README.md")


def test_an_unreachable_hub_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "from minillm.model.loader import load_weights\n"
        "try:\n    load_weights('some-owner/some-model')\n"
        "except ValueError as error:\n    print(error)\n"
    )
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "'some-owner/some-model' is no folder here" in done.stdout
    assert "the default model SmolLM2-135M-Instruct" in done.stdout


def test_minillm_model_names_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINILLM_MODEL", str(folder))
    assert resolve_model() == folder
    assert resolve_model("dummy:x") == "dummy:x"
    assert load_config().num_layers == 2
