"""The offline benchmark: its object, its workloads, and what it refuses."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from benchmarks import offline


def test_workloads_are_what_the_readme_says():
    expected = {"W0": (4, 128, 32), "W1": (32, 2048, 2048), "W2": (48, 7487, 4048)}
    for name, (requests, prompt_tokens, output_tokens) in expected.items():
        arrivals = offline.load_workload(name)
        assert len(arrivals) == requests
        assert sum(len(arrival.prompt_token_ids) for arrival in arrivals) == prompt_tokens
        assert sum(arrival.params.max_tokens for arrival in arrivals) == output_tokens
        assert all(arrival.time == 0 and arrival.params.ignore_eos for arrival in arrivals)
    times = [arrival.time for arrival in offline.load_workload("W3")]
    assert times == sorted(times)
    assert times[-1] > 1


@pytest.mark.parametrize("policy", ["static", "continuous"])
def test_one_object_on_stdout(default_model_path, capsys, policy):
    command = ["--workload", "W0", "--policy", policy, "--max-num-seqs", "4", "--repeat", "2"]
    assert offline.main([*command, "--max-model-len", "128", "--json", "-"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["schema"] == 1
    assert out["command"] == "benchmarks.offline"
    assert out["provenance"] == "measured"
    assert out["output_tokens"] == 32
    assert out["output_tok_s"] > 0
    assert out["padding_fraction"] == 0
    assert len(out["repeats"]) == 2
    assert all(0 <= run["others_cpu_share"] <= 1 for run in out["repeats"])
    assert out["machine"]["cores"] >= 1


def test_bad_input_is_one_sentence(default_model_path, capsys):
    assert offline.main(["--workload", "W0", "--dtype", "int3"]) == 2
    error = capsys.readouterr().err
    assert "int3" in error
    assert error.count("\n") == 1
    with pytest.raises(SystemExit) as exit_code:
        offline.main(["--workload", "W9"])
    assert exit_code.value.code == 2
