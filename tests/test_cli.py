"""The commands: what they print, and the shape of each --json."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from minillm.bench.compare import Difference, compare_policies
from minillm.bench.workload import mixed_workload
from minillm.cli.compare import verdict
from minillm.core import LLMEngine
from minillm.llm import LLM
from tests.cli_calls import ROOT, TINY, call, refused, report
from tests.tiny_chat_model import save_tiny_chat_model

COMMANDS = ("doctor", "generate", "chat", "compare")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_chat_model(tmp_path_factory.mktemp("tiny")))


# ── help ────────────────────────────────────────────────────────────────────────────────────


def test_help_is_quick_and_needs_nothing_installed():
    """With torch, rich and tqdm blocked; 0.3 s of CPU is the goal, five times that the limit."""
    code = (
        "import sys\n"
        "for name in ('torch', 'rich', 'tqdm', 'numpy', 'tokenizers'): sys.modules[name] = None\n"
        "from minillm.cli import main\n"
        "main(sys.argv[1:])"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.3 * 5


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture):
    assert call(command, "--help") == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert f"minillm {command}" in text
    assert "--json FILE" in text


def test_python_m_minillm_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "minillm", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith("minillm 0.")


def test_an_unknown_command_is_one_sentence(capsys: pytest.CaptureFixture):
    assert "bake" in refused(capsys, "bake")
    assert "required" in refused(capsys)


# ── doctor ──────────────────────────────────────────────────────────────────────────────────


def test_doctor_says_why_and_is_ready(
    tiny: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("jupyterlab")
    monkeypatch.setenv("MINILLM_MODEL", tiny)
    assert call("doctor", "--json", "-") == 0
    captured = capsys.readouterr()
    data = report("doctor", captured.out)
    assert data["ready"]
    details = {check["name"]: check["detail"] for check in data["checks"]}
    assert tiny in details["model"]
    assert "scaled_dot_product_attention" in details["attention"]
    assert "NVML" in details["GPU"]
    assert "The course can run here" in captured.err


def test_doctor_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("MINILLM_MODEL", raising=False)
    monkeypatch.setenv("MINILLM_HOME", str(tmp_path))
    assert call("doctor") == 1
    text = capsys.readouterr().out
    assert "✗ model" in text
    assert "`make setup` fetches it" in text
    assert list(tmp_path.iterdir()) == [], "doctor changes nothing"


def test_doctor_says_which_attention_failed_its_check(
    tiny: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    from minillm.model.attention import SDPABackend, select

    failed = select.Choice(SDPABackend(), "gathers the pages", "triton differs from sdpa by 0.5.")
    monkeypatch.setattr(select, "choose_backend", lambda _: failed)
    monkeypatch.setenv("MINILLM_MODEL", tiny)
    assert call("doctor") == 0, "slower, but it runs"
    text = capsys.readouterr().out
    assert "! attention  sdpa: gathers the pages. triton differs from sdpa by 0.5." in text
    assert "→ All works, only slower." in text


# ── generate and chat ───────────────────────────────────────────────────────────────────────


def test_generate_streams_text_and_writes_json(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture
):
    file = tmp_path / "out.json"
    options = ("--max-tokens", "12", "--ignore-eos", "--model", tiny, *TINY)
    assert call("generate", "Hello", *options, "--json", file) == 0
    captured = capsys.readouterr()
    data = report("generate", file.read_text())
    (done,) = data["completions"]
    assert captured.out == done["text"] + "\n"
    assert (done["output_tokens"], done["finish_reason"]) == (12, "length")
    assert data["chat_template"]
    assert data["model"] == "tiny"
    assert "measured on CPU" in captured.err
    assert call("generate", "Hello", *options, "--json", "-", "--raw") == 0
    captured = capsys.readouterr()
    raw = report("generate", captured.out)
    assert not raw["chat_template"]
    assert raw["completions"][0]["prompt_tokens"] == len("Hello")
    assert raw["completions"][0]["text"] in captured.err


def test_generate_batches_several_prompts(tiny: str, capsys: pytest.CaptureFixture):
    prompts = [f"prompt {i}" for i in range(10)]
    options = ("--max-tokens", "4", "--ignore-eos", "--model", tiny, *TINY)
    assert call("generate", *prompts, *options, "--json", "-") == 0
    completions = report("generate", capsys.readouterr().out)["completions"]
    assert [c["prompt"] for c in completions] == prompts
    assert {c["output_tokens"] for c in completions} == {4}


def test_generate_reads_stdin(
    tiny: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("from stdin"))
    assert call("generate", "-", "--max-tokens", "1", "--json", "-", "--model", tiny, *TINY) == 0
    assert report("generate", capsys.readouterr().out)["completions"][0]["prompt"] == "from stdin"


def test_chat_remembers_and_starts_over(
    tiny: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    lines = "first\n/new\nsecond\n\nthird\n/quit\nnever\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    options = ("--max-tokens", "5", "--temperature", "0", "--model", tiny, *TINY)
    assert call("chat", "--system", "Be brief.", "--json", "-", *options) == 0
    messages = report("chat", capsys.readouterr().out)["messages"]
    assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * 2]
    assert [m["content"] for m in messages if m["role"] == "user"] == ["second", "third"]


def test_chat_survives_what_does_not_fit(
    tiny: str, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO("x" * 600 + "\nshort\n"))
    assert call("chat", "--max-tokens", "3", "--json", "-", "--model", tiny, *TINY) == 0
    captured = capsys.readouterr()
    assert "Try /new" in captured.err
    assert len(report("chat", captured.out)["messages"]) == 2


# ── compare ─────────────────────────────────────────────────────────────────────────────────


def test_compare_simulated_meets_what_the_lesson_promises(capsys: pytest.CaptureFixture):
    assert call("compare", "--simulate", "--seed", "0", "--json", "-") == 0
    captured = capsys.readouterr()
    data = report("compare", captured.out)
    static, continuous = data["policies"]["static"], data["policies"]["continuous"]
    assert data["provenance"] == "simulated"
    assert data["identical_outputs"]
    assert continuous["output_tok_s"] >= 1.8 * static["output_tok_s"]
    assert static["padding_fraction"] > 0.2
    assert continuous["padding_fraction"] == 0
    assert continuous["ttft_p50_ms"] < static["ttft_p50_ms"]
    assert len({p["output_tokens"] for p in data["policies"].values()}) == 1
    assert data["headline"] in captured.err
    assert "simulated on" in data["headline"]
    assert "static     │a" in captured.err
    assert "░" in captured.err
    assert "All 24 outputs are the same" in captured.err


def test_compare_measures_a_real_model(tiny: str, capsys: pytest.CaptureFixture):
    options = ("--requests", "4", "--max-num-seqs", "2", "--policies", "static,continuous")
    device = ("--model", tiny, "--device", "cpu", "--threads", "1", "--dtype", "bfloat16")
    assert call("compare", "--json", "-", *options, *device) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["provenance"], data["dtype"], data["model"]) == ("measured", "bfloat16", "tiny")
    assert data["identical_outputs"]
    assert data["policies"]["static"]["padding_fraction"] > 0
    assert data["policies"]["continuous"]["padding_fraction"] == 0


def test_rounds_alternate_the_order_and_give_the_median_run():
    llm, order = LLM.simulated(), []
    arrivals = mixed_workload(llm.encode, 3)

    def note(policy: str, engine: LLMEngine, done: int) -> None:
        if not order or order[-1] != policy:
            order.append(policy)

    runs = compare_policies(llm, ("static", "dynamic", "continuous"), arrivals, note, rounds=3)
    there, back = ["static", "dynamic", "continuous"], ["dynamic", "static"]
    assert order == [*there, *back, *there[1:]]
    assert [run.policy for run in runs] == ["static", "dynamic", "continuous"]


def test_compare_is_reproducible_and_the_seed_matters(capsys: pytest.CaptureFixture):
    def policies(*options: str) -> dict:
        assert call("compare", "--simulate", "--json", "-", *options) == 0
        return json.loads(capsys.readouterr().out)["policies"]

    assert policies("--seed", "3") == policies("--seed", "3")
    assert policies("--seed", "3") != policies("--seed", "4")
    spread = policies("--rate", "2", "--policies", "continuous,static")
    assert list(spread) == ["continuous", "static"]
    assert spread["continuous"]["makespan_s"] > policies()["continuous"]["makespan_s"]


def test_compare_writes_a_trace_with_a_process_each_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture
):
    file = tmp_path / "trace.json"
    assert call("compare", "--simulate", "--requests", "3", "--trace", file) == 0
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [name.split(" ")[0] for name in names.values()] == ["static", "dynamic", "continuous"]
    assert {e["pid"] for e in events if e["ph"] == "X"} == {1, 2, 3}


def test_compare_works_without_rich(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert call("compare", "--simulate", "--requests", "4") == 0
    assert "output tokens/s" in capsys.readouterr().out


def test_compare_tells_a_difference_from_a_near_tie():
    tie = Difference("r1", ("static", "continuous"), 4, 5e-5)
    real = Difference("r2", ("static", "continuous"), 0, 0.5)
    assert tie.near_tie
    assert not real.near_tie
    assert not Difference("r3", ("static", "continuous"), 0, None).near_tie
    assert "same under every policy, but for 1 near ties" in verdict([], 1, 3)
    assert "Outputs DIFFER: 1" in verdict([real], 0, 3)
