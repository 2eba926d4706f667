"""The command line when something is wrong: one sentence, code 2; Ctrl-C: code 130."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from minillm.core import LLMEngine
from tests.cli_calls import call, refused, start
from tests.tiny_chat_model import save_tiny_chat_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_chat_model(tmp_path_factory.mktemp("tiny")))


# ── bad input ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("generate", ""), "empty"),
        (("generate", "fine", ""), "empty"),
        (("generate", "x" * 600), "at most|512"),
        (("generate", "hi", "--temperature", "nan"), "temperature"),
        (("generate", "hi", "--max-tokens", "0"), "max_tokens must be an integer ≥ 1"),
        (("generate", "hi", "--max-tokens", "many"), "invalid int value"),
        (("generate", "hi", "--threads", "0"), "at least 1"),
        (("generate", "hi", "--max-model-len", "4096"), "4096"),
        (("generate", "hi", "--device", "tpu"), "Unknown device 'tpu'"),
        (("compare", "--policies", "static,eager"), "Unknown policy 'eager'"),
        (("compare", "--policies", ""), "Unknown policy ''"),
        (("compare", "--max-num-batched-tokens", "4"), r"\(4\).*max_num_seqs \(8\)"),
        (("compare", "--no-chunked-prefill", "--max-num-batched-tokens", "100"), "100.*512"),
    ],
)
def test_bad_input_is_one_sentence(
    tiny: str, arguments: tuple, sentence: str, capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    monkeypatch.setenv("MINILLM_MODEL", tiny)
    line = refused(capsys, *arguments)
    assert re.search(sentence, line), line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--requests", "0"), "at least 1"),
        (("--requests", "-3"), "at least 1"),
        (("--rate", "nan"), "above 0"),
        (("--rate", "0"), "above 0"),
        (("--rate", "inf"), "above 0"),
        (("--seed", "x"), "invalid int"),
        (("--json", "/no/such/folder/out.json"), "can't be written"),
        (("--trace", "/no/such/folder/trace.json"), "can't be written"),
        (("--json", "/"), "can't be written"),
        (("--model", "some/model"), "leave out --model"),
        (("--simulate", "abacus"), "abacus"),
    ],
)
def test_bad_compare_options_are_refused_before_the_run(
    arguments: tuple, sentence: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LLMEngine, "step", lambda self: pytest.fail("it ran"))
    assert sentence in refused(capsys, "compare", "--simulate", *arguments)


def test_checking_a_file_leaves_it_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("kept")
    for file in (old, new):
        refused(capsys, "compare", "--simulate", "--policies", "x", "--json", file)
    assert old.read_text() == "kept"
    assert not new.exists()


@pytest.mark.parametrize("model", ["no/such/folder", "nothing.gguf", "owner"])
def test_an_unknown_model(model: str, capsys: pytest.CaptureFixture, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert model in refused(capsys, "generate", "hi", "--model", model)


def test_a_pickled_model_is_not_opened(tmp_path: Path, capsys: pytest.CaptureFixture):
    file = tmp_path / "pytorch_model.bin"
    file.write_bytes(b"not opened")
    assert "pickle" in refused(capsys, "generate", "hi", "--model", str(file))


def test_no_disk_space(tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch):
    usage = namedtuple("usage", "total used free")(10**9, 10**9 - 5_000_000, 5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setenv("MINILLM_HOME", str(tmp_path))
    monkeypatch.delenv("MINILLM_MODEL", raising=False)
    line = refused(capsys, "generate", "hi")
    assert "600 MB of disk space" in line
    assert "5 MB left" in line


def test_torch_missing_is_a_sentence(capsys: pytest.CaptureFixture, monkeypatch):
    for name in [n for n in sys.modules if n.startswith("minillm.model")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "`make setup` installs" in refused(capsys, "generate", "hi")


# ── interrupts ──────────────────────────────────────────────────────────────────────────────


def test_interrupt_in_compare(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    step, calls = LLMEngine.step, []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(LLMEngine, "step", interrupted)
    assert call("compare", "--simulate", "--json", "-") == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err.strip()) == ("", "Stopped.")


def test_ctrl_c_ends_a_real_process_at_once(tiny: str):
    prompts = [f"prompt {i}" for i in range(64)]
    process = start("generate", *prompts, "--max-tokens", "480", "--ignore-eos", "--model", tiny)
    assert process.stdout.read(40)  # it is streaming now
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().strip() == "Stopped."


def test_a_reader_that_leaves_is_no_error(tiny: str):
    process = start("generate", "hi", "--max-tokens", "400", "--ignore-eos", "--model", tiny)
    process.stdout.read(1)
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, 141)
    assert "Traceback" not in errors.decode()
    assert "fork" not in errors.decode(), "no warning of the tokenizer's (fault case C60)"
