"""Calibration on this machine with a tiny model: it measures, fits, and says how far off it is."""

import json

import pytest

from minillm import LLM
from minillm.bench import calibrate as module
from minillm.bench.calibrate import calibrate, load_of_step, model_spec
from minillm.core.trace import DECODE, PREFILL, StepRecord
from minillm.sim.pipeline import Load
from tests.tiny_chat_model import save_tiny_chat_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))
    with LLM(str(folder), dtype="float32", device="cpu", num_blocks=256, threads=1) as llm:
        yield llm


def test_it_measures_fits_and_predicts(tiny, monkeypatch):
    monkeypatch.setattr(module, "SECONDS_EACH", 0.005)
    monkeypatch.setattr(module, "COLD_BYTES", 1e6)
    report = calibrate(tiny)
    assert json.loads(json.dumps(report)) == report
    assert report["constants"]["flops"] > 0
    kinds = [step["kind"] for step in report["steps"]]
    assert kinds.count("prefill") == kinds.count("decode") == 12
    assert sum(step["held_out"] for step in report["steps"]) == 12
    for item in report["steps"] + report["gemms"]:
        assert item["measured_ms"] > 0
        assert item["predicted_ms"] > 0
        error = 100 * (item["predicted_ms"] / item["measured_ms"] - 1)
        assert item["error"] == pytest.approx(error, abs=5)
    # Not an accuracy test: a busy machine's times scatter. A wrong formula is off by tens of times.
    assert report["error"]["held_out"] < 300


def test_the_model_is_described_by_its_own_sizes(tiny):
    spec, config = model_spec(tiny), tiny.runner.model_config
    assert (spec.num_layers, spec.hidden) == (config.num_layers, config.hidden_size)
    assert spec.num_params > 0


def test_a_recorded_step_says_what_it_computed():
    rows = [(0, DECODE, 1, 0, 9, 5), (1, PREFILL, 6, 2, 4, None), (2, PREFILL, 3, 0, 0, 7)]
    step = StepRecord(0, 0.0, 1.0, 0, 3, None, rows, 0, 0)
    assert load_of_step(step) == Load(1, 10, [(4, 8), (0, 3)], 2)


def test_a_simulated_model_has_nothing_to_measure():
    with pytest.raises(ValueError, match="simulated"):
        calibrate(LLM.simulated())
