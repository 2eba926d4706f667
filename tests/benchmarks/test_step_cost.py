"""Where a step's time goes: the parts add up, and the command prints one object."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

from benchmarks import step_cost


def test_one_object_whose_parts_add_up(default_model_path, capsys):
    arguments = ["--running", "2", "--context", "20", "--steps", "4", "--operators"]
    assert step_cost.main([*arguments, "--json", "-"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["command"] == "benchmarks.step_cost"
    assert result["decode"]["steps"] == 4
    assert result["prefill"]["steps"] == 1  # both prompts fit into one budget
    for part in (result["decode"], result["prefill"]):
        assert part["step_ms"] > part["forward_ms"] > 0
        assert part["sample_ms"] > 0
        assert 0 < part["overhead_share"] < 1
    names = {row["operator"] for row in result["decode_operators"]}
    assert any("linear" in name or "mm" in name for name in names)
    assert "2 running" in err


def test_overhead_is_what_neither_model_nor_sampler_took():
    steps = [
        {"step": 10.0, "forward": 8.0, "sample": 1.0, "overhead": 1.0},
        {"step": 20.0, "forward": 18.0, "sample": 1.0, "overhead": 1.0},
        {"step": 40.0, "forward": 30.0, "sample": 2.0, "overhead": 8.0},
    ]
    found = step_cost.summary(steps)
    assert found["step_ms"] == 20
    assert found["overhead_share"] == 0.1
    assert found["steps"] == 3


def test_bad_input_is_one_sentence(default_model_path, capsys):
    assert step_cost.main(["--context", "8190"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(SystemExit):
        step_cost.main(["--running", "0"])
    assert "running" in capsys.readouterr().err
