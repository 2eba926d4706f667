"""`minillm simulate`: what each kind answers, and the one sentence for what can't be."""

from __future__ import annotations

import json

import pytest

from tests.cli_calls import call, refused

PERCENTILES = [f"{name}_p{q}_ms" for name in ("ttft", "tpot", "itl", "e2e") for q in (50, 90, 99)]
FIGURES = [*PERCENTILES, "output_tok_s", "preemptions", "kv_used_mean", "mean_running"]
PACE = ["sim_steps_per_s", "sim_requests_per_s"]


def simulate(capsys, *arguments) -> dict:
    """The JSON of a call; with - nothing else is on stdout."""
    assert call("simulate", *arguments, "--json", "-") == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data)[:3] == ["schema", "command", "machine"]
    assert data["command"] == f"simulate {arguments[0]}"
    return data


def test_step_opens_each_batch_into_its_terms(capsys):
    data = simulate(capsys, "step", "--gpu", "H100-80GB-SXM", "--batch", "1,8", "--context", "512")
    assert [step["batch"] for step in data["steps"]] == [1, 8]
    for step in data["steps"]:
        assert sum(step["terms"].values()) == pytest.approx(step["ms"], abs=0.01)
        assert step["tok_s"] == pytest.approx(step["batch"] / step["ms"] * 1e3, rel=0.01)
    assert data["steps"][0]["ms"] == pytest.approx(6.7, rel=0.1)  # the design's reference value


def test_run_gives_latencies_throughput_and_its_own_pace(capsys):
    data = simulate(capsys, "run", "--rate", "4", "--requests", "20", "--max-num-seqs", "8")
    assert data["completed"] == 20
    assert all(data[name] is not None for name in [*FIGURES, *PACE])
    assert data["config"]["max_num_seqs"] == 8


def test_cluster_gives_the_same_for_each_replica(capsys):
    data = simulate(
        capsys, "cluster", "--replicas", "1xA100-80GB-SXM,1xH100-80GB-SXM:tp2", "--rate", "8",
        "--requests", "30", "--router", "round_robin",
    )  # fmt: skip
    assert [replica["sent"] for replica in data["replicas"]] == [15, 15]
    assert [replica["gpu"] for replica in data["replicas"]] == [
        "A100-80GB-SXM", "H100-80GB-SXM:tp2"
    ]  # fmt: skip
    for part in (data, *data["replicas"]):
        assert all(name in part for name in PERCENTILES)
    assert all(data[name] > 0 for name in PACE)


def test_validate_meets_its_bounds_on_the_packages_table(capsys):
    data = simulate(capsys, "validate")
    assert data["coverage"]["fraction"] >= 0.85
    assert data["decode"]["mape"] <= 10
    assert data["decode_bf16_tp1_4"]["mape"] <= 8
    assert all(row["reason"] for row in data["skipped"])
    keys = {"source", "hardware", "model", "engine", "metric", "n", "mape", "bias"}
    assert all(keys <= set(group) for group in data["groups"])


def test_validate_reads_another_table_and_names_a_broken_line(capsys, tmp_path):
    from minillm.data import read_text

    lines = read_text("measured.csv").splitlines()
    some = tmp_path / "some.csv"
    some.write_text("\n".join(lines[:40]) + "\n", encoding="utf-8")
    assert simulate(capsys, "validate", "--measured", some)["coverage"]["rows"] == 39
    some.write_text("\n".join([*lines[:3], "a,b"]) + "\n", encoding="utf-8")
    assert "4" in refused(capsys, "simulate", "validate", "--measured", some)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["step", "--gpu", "nope"], ["'nope'", "H100-80GB-SXM"]),
        (["step", "--model", "llama-3.1-70b"], ["141.1 GB", "75.3 GB"]),
        (["step", "--gpu", "A100-80GB-SXM", "--dtype", "fp8"], ["A100-80GB-SXM", "fp8"]),
        (["step", "--batch", "1,x"], ["'1,x'"]),
        (["step", "--batch", "0"], ["≥ 1, got 0"]),
        (["run", "--rate", "0"], ["> 0, got 0"]),
        (["run", "--rate", "nan"], ["nan"]),
        (["run", "--trace", "nope"], ["'nope'", "azure2023-conv"]),
        (["run", "--policy", "nope"], ["'nope'", "continuous"]),
        (["run", "--max-num-seqs", "64", "--max-num-batched-tokens", "8"], ["(8)", "(64)"]),
        (["cluster", "--replicas", "4xnope"], ["nope"]),
        (["cluster", "--replicas", "0xA100-80GB-SXM"], ["0"]),
        (["cluster", "--router", "nope"], ["'nope'", "least_conn"]),
        (["cluster", "--fail", "9@1s-2s"], ["9"]),
        (["cluster", "--load-info-age", "-1"], ["-1"]),
        (["validate", "--measured", "missing.csv"], ["missing.csv"]),
    ],
)
def test_bad_input_is_one_sentence(capsys, arguments, parts):
    sentence = refused(capsys, "simulate", *arguments)
    assert all(part in sentence for part in parts), sentence


def test_text_is_for_people(capsys):
    assert call("simulate", "step", "--batch", "1") == 0
    out = capsys.readouterr().out
    assert "simulated" in out
    assert "A100-80GB-SXM" in out
