"""Recording runs: what is written, in which order, and what is refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from benchmarks import record
from benchmarks.record_plans import PLANS, SIMULATED
from minillm.core import Trace
from minillm.llm import LLM
from minillm.recordings import load_recording
from minillm.sim import SimulatedRunner


def index(folder) -> list[dict]:
    return json.loads((folder / "index.json").read_text(encoding="utf-8"))["recordings"]


def test_a_simulated_run_comes_out_as_the_one_that_is_shipped(tmp_path):
    assert record.main(["--only", "a100-continuous", "--out", str(tmp_path)]) == 0
    content = gzip.decompress((tmp_path / "a100-continuous.jsonl.gz").read_bytes())
    trace = Trace.from_jsonl(content.decode().split("\n"))
    assert trace.records == load_recording("a100-continuous").trace.records


def test_the_index_keeps_the_order_of_the_plans_and_only_what_has_a_file(tmp_path):
    for name in ("h100-continuous", "a100-static"):
        assert record.main(["--only", name, "--out", str(tmp_path)]) == 0
    assert [entry["name"] for entry in index(tmp_path)] == ["a100-static", "h100-continuous"]
    (tmp_path / "a100-static.jsonl.gz").unlink()
    assert record.main(["--only", "a100-continuous", "--out", str(tmp_path)]) == 0
    assert [entry["name"] for entry in index(tmp_path)] == ["a100-continuous", "h100-continuous"]
    assert all("simulated" in entry["source"] for entry in index(tmp_path))


def test_a_run_that_does_not_show_what_it_is_for_is_not_written():
    plan = replace(SIMULATED[0], shows=("preempt",))
    llm = LLM.simulated(runner=SimulatedRunner.for_gpu())
    with pytest.raises(RuntimeError, match="a100-static shows no preempt"):
        record.record(plan, llm)
    trace = load_recording("a100-static").trace
    with pytest.raises(RuntimeError, match="tokens came out, 7 were asked for"):
        record.check(plan, trace, 7)


def test_a_measured_run_says_how_busy_the_machine_was():
    assert "other programs took 42%" in record.measured_source(0.42)
    assert "The machine was shared" in record.measured_source(0.42)
    assert "did nothing else" in record.measured_source(0.03)


def test_the_names_are_unique_and_an_unknown_one_is_refused(capsys):
    assert len({plan.name for plan in PLANS}) == len(PLANS)
    for arguments in (["--only", "nothing"], ["--repeat", "0"]):
        with pytest.raises(SystemExit):
            record.main(arguments)
    assert "there is no run 'nothing'" in capsys.readouterr().err
