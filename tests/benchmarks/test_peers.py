"""The comparison with other engines: its arithmetic, its processes, and a run of ours alone."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks import peers
from benchmarks.peer_catalogue import OURS, PEERS, VARIABLE, chosen_pythons, find_peers
from benchmarks.peer_process import PeerError, PeerProcess
from benchmarks.peer_runners import protocol
from benchmarks.peer_runners.llama_cpp_batch import gguf_name, interleaved
from benchmarks.peers_table import is_quiet, markdown, summarise

PYTHON = Path(sys.executable)


def run(tokens: int, seconds: float, others: float = 0.0) -> dict:
    return {
        "output_tokens": tokens, "seconds": seconds, "peak_rss_mb": 100,
        "others_cpu_share": others,
    }  # fmt: skip


def report(rounds: list[dict]) -> dict:
    return {
        "date": "2026-01-02",
        "machine": {"cpu": "A CPU", "cores": 2},
        "model": "a-model",
        "settings": {
            "threads": 2, "dtype": "bfloat16", "max_num_seqs": 32, "max_num_batched_tokens": 512,
        },
        "engines": {OURS: {"minillm": "0.1"}, "hf_cb": {"transformers": "5.24"}},
        "missing": {"openvino": "no openvino_genai in python."},
        "workloads": {"W1": summarise(rounds, 0.1)},
    }  # fmt: skip


def test_ratios_are_formed_within_a_round():
    # The machine is half as fast in the second round: each engine's figures differ, no ratio does.
    rounds = [
        {OURS: run(100, 1.0), "hf_cb": run(100, 2.0)},
        {OURS: run(100, 2.0), "hf_cb": run(100, 4.0)},
    ]
    engines = summarise(rounds, 0.1)["engines"]
    assert engines["hf_cb"]["ours_over_it"] == 2
    assert engines[OURS]["ours_over_it"] == 1
    assert (engines[OURS]["min"], engines[OURS]["output_tok_s"], engines[OURS]["max"]) == (
        50, 75, 100,
    )  # fmt: skip


def test_disturbed_rounds_are_discarded():
    quiet = {OURS: run(100, 1.0), "hf_cb": run(100, 2.0, 0.1)}
    disturbed = {OURS: run(100, 9.0, 0.11), "hf_cb": run(100, 2.0)}
    assert is_quiet(quiet, 0.1)
    assert not is_quiet(disturbed, 0.1)
    found = summarise([disturbed, quiet], 0.1)
    assert (found["quiet_rounds"], found["rounds"]) == (1, 2)
    assert found["engines"][OURS]["output_tok_s"] == 100


def test_the_table_says_when_every_round_was_disturbed():
    text = markdown(report([{OURS: run(300, 2.0, 0.5), "hf_cb": run(300, 3.0, 0.5)}]))
    assert "all were disturbed" in text
    assert "| minillm, continuous | minillm 0.1 | 100 | 150 [150–150] | 1.00 |" in text
    assert "| 100 [100–100] | 1.50 |" in text
    assert "Not measured: OpenVINO GenAI ContinuousBatching: no openvino_genai" in text
    quiet = markdown(report([{OURS: run(300, 2.0), "hf_cb": run(300, 3.0)}]))
    assert "disturbed" not in quiet
    assert "W1: 1 of 1 rounds quiet" in quiet


def test_pythons_come_from_the_variable_and_the_options(tmp_path):
    other = tmp_path / "python"
    other.touch()
    environ = {VARIABLE: f"vllm_cpu={PYTHON},openvino={PYTHON}"}
    pythons = chosen_pythons([f"openvino={other}"], environ)
    assert pythons == {"vllm_cpu": PYTHON, "openvino": other}
    for bad, words in (("vllm_cpu", "NAME=PATH"), ("nobody=/x", "nobody"),
                       ("openvino=/none", "/none")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            chosen_pythons([bad], {})


def test_a_missing_peer_comes_with_how_to_get_it(monkeypatch):
    lacking = replace(PEERS["vllm_cpu"], needs=("json", "no_such_module_here"), how="pip it")
    monkeypatch.setitem(PEERS, "vllm_cpu", lacking)
    found, missing = find_peers([OURS, "vllm_cpu"], {})
    assert list(found) == [OURS]
    assert "no_such_module_here" in missing["vllm_cpu"]
    assert "json" not in missing["vllm_cpu"]
    assert "pip it" in missing["vllm_cpu"]
    assert "--peer-python vllm_cpu=" in missing["vllm_cpu"]


def test_a_run_with_other_counts_than_asked_is_an_error():
    requests = [{"max_tokens": 3}, {"max_tokens": 4}]
    assert protocol.measure(lambda _: [3, 4], requests)["output_tokens"] == 7
    with pytest.raises(RuntimeError, match=r"6 tokens came out, 7"):
        protocol.measure(lambda _: [3, 3], requests)


def test_a_peer_that_fails_says_why_and_one_that_ends_is_noticed(tmp_path):
    with (tmp_path / "log").open("w+") as log:
        process = PeerProcess("ours", "ours", PYTHON, {}, log)
        try:
            with pytest.raises(PeerError, match="KeyError"):
                process.ask({"no": "settings"})
        finally:
            process.close()
        with pytest.raises(PeerError, match="ours"):
            process.ask([])
        process.close()  # a second time: nothing happens


def test_our_engine_alone(default_model_path, capsys, tmp_path):
    arguments = ["--workload", "W0", "--peers", "", "--rounds", "1", "--scratch", str(tmp_path)]
    assert peers.main([*arguments, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    result = json.load(io.StringIO(out))
    assert result["command"] == "benchmarks.peers"
    assert result["workloads"]["W0"]["engines"][OURS]["ours_over_it"] == 1
    assert all(r[OURS]["output_tokens"] == 32 for r in result["rounds"]["W0"])
    assert "| minillm, continuous |" in err


def test_bad_input_is_one_sentence(capsys):
    for arguments, word in ((["--peers", "nobody"], "nobody"), (["--workload", "W3"], "W3"),
                            (["--rounds", "0"], "rounds")):  # fmt: skip
        with pytest.raises(SystemExit) as exit_code:
            peers.main(arguments)
        assert exit_code.value.code == 2
        assert word in capsys.readouterr().err
    assert peers.main(["--peer-python", "openvino=/no/python"]) == 2
    error = capsys.readouterr().err
    assert "/no/python" in error
    assert error.count("\n") == 1


def test_every_weight_of_a_llama_has_its_gguf_name():
    assert gguf_name("model.embed_tokens.weight") == "token_embd.weight"
    assert gguf_name("model.norm.weight") == "output_norm.weight"
    assert gguf_name("model.layers.12.self_attn.o_proj.weight") == "blk.12.attn_output.weight"
    assert gguf_name("model.layers.3.post_attention_layernorm.weight") == "blk.3.ffn_norm.weight"


def test_rotary_halves_become_pairs():
    """Row i of a head's first half and row i of its second lie side by side afterwards."""
    numpy = pytest.importorskip("numpy")
    weight = numpy.arange(2 * 6).reshape(12, 1)  # two heads of six rows
    assert interleaved(weight, 2)[:, 0].tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


def test_an_engine_that_a_workload_was_not_run_with_has_a_dash_there():
    both = report([{OURS: run(300, 2.0), "hf_cb": run(300, 3.0)}])
    both["workloads"]["W2"] = summarise([{OURS: run(300, 2.0)}], 0.1)
    assert "| 100 [100–100] | 1.50 | – | – |" in markdown(both)
