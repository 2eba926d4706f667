"""GGUF files: weights, config and tokenizer equal transformers' own conversion of the same file."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers

from minillm.model.config import ModelConfig, RopeScaling, llama3_factors
from minillm.model.gguf_reader import GGUFModel
from minillm.model.loader import load_config, load_weights
from minillm.model.tokenizer import Tokenizer
from tests.model.checkpoints import (
    LLAMA3,
    assert_same,
    finish,
    reference,
    tiny_model,
    write_gguf,
)


@pytest.mark.parametrize("quantization", ["F32", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_gguf_equals_transformers_own_conversion(
    kind: str, quantization: str, tmp_path: Path
) -> None:
    # transformers reads no head size from a qwen3 GGUF file: it assumes 128.
    head = {"head_dim": 128} if kind == "qwen3" else {}
    model = tiny_model(kind, eos_token_id=257, bos_token_id=256, **head)
    write_gguf(tmp_path / "tiny.gguf", model, quantization)
    config, weights = load_weights(tmp_path / "tiny.gguf")
    options = (
        {}
        if quantization == "F32"
        else {"quantization_config": transformers.GgufConfig(dequantize=True)}
    )
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.float32, **options
    )
    assert_same(weights, reference(theirs))
    if quantization == "F32":
        assert_same(weights, reference(model))
        assert config.torch_dtype == "float32"
    model.save_pretrained(tmp_path / "folder")
    direct = load_config(tmp_path / "folder")
    assert config == ModelConfig.from_dict(
        direct.to_dict()
        | {"minillm_name": "Tiny", "pad_token_id": 258, "torch_dtype": config.torch_dtype}
        | {"rms_norm_eps": config.rms_norm_eps},
        name="Tiny",
    )
    assert config.rms_norm_eps == pytest.approx(direct.rms_norm_eps, rel=1e-6)


def test_gguf_tokenizer_equals_transformers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINILLM_HOME", str(tmp_path / "home"))
    file = tmp_path / "tiny.gguf"
    write_gguf(file, tiny_model("llama"), "F32")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    ours = Tokenizer(file)
    texts = [
        "hello",
        " hello, he'll\n\nthe  12345 x9 ",
        "héllo 😀 日本",
        "<|im_start|>hell<|im_end|>",
        "",
    ]
    for text in texts:
        ids = ours.encode(text)
        assert ids == theirs(text)["input_ids"], text
        for skip in (True, False):
            assert ours.decode(ids, skip) == theirs.decode(ids, skip_special_tokens=skip)
    messages = [{"role": "user", "content": "hello"}]
    wanted = theirs.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert ours.apply_chat_template(messages) == wanted
    assert (ours.bos_token_id, ours.eos_token_ids, ours.pad_token_id) == (256, {257}, 258)
    made = next((tmp_path / "home").rglob("tokenizer.json")).stat().st_mtime_ns
    assert Tokenizer(file).encode("hello") == ours.encode("hello")
    assert next((tmp_path / "home").rglob("tokenizer.json")).stat().st_mtime_ns == made


def test_llama3_scaling_is_recognised_in_a_gguf_file(tmp_path: Path) -> None:
    scaling = RopeScaling("llama3", **LLAMA3)
    factors = np.array(llama3_factors(scaling, 5e5, 16), dtype=np.float32)
    assert (factors.min(), factors.max()) == (1, 8)
    model = tiny_model("llama", rope_theta=5e5)
    write_gguf(tmp_path / "good.gguf", model, "F32", rope_factors=factors)
    config, weights = load_weights(tmp_path / "good.gguf")
    assert config.rope_scaling == scaling
    assert_same(weights, reference(model))
    write_gguf(tmp_path / "bad.gguf", model, "F32", rope_factors=factors + 1)
    with pytest.raises(ValueError, match="RoPE factors are not Llama 3's"):
        GGUFModel(tmp_path / "bad.gguf")


def test_unusable_gguf_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    for content in (b"", b"GGUF", b"not a model at all" * 10):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"broken\.gguf is not a readable GGUF file"):
            load_weights(broken)
    writer = gguf.GGUFWriter(tmp_path / "bert.gguf", "bert")
    writer.add_tensor("x", np.zeros((1, 32), dtype=np.float32))
    finish(writer)
    with pytest.raises(ValueError, match="'bert' is not supported; supported: llama, qwen2, qwen3"):
        load_weights(tmp_path / "bert.gguf")
