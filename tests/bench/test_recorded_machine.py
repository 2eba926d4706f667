"""The recorded machine: LLM's interface without torch, its limits and products as measured."""

from __future__ import annotations

import pytest

from minillm.bench.recorded_machine import RecordedMachine, read_recorded, recorded_llm
from minillm.bench.roofline import measure_roof, open_product
from minillm.bench.step_times import run_steps, seconds_of
from minillm.llm import LLM


@pytest.fixture(scope="module")
def llm() -> LLM:
    return recorded_llm()


def test_its_figures_are_marked_simulated_and_name_the_recorded_device(llm):
    assert llm.info.provenance == "simulated"
    assert llm.info.device == f"recorded {read_recorded()['machine']['device']}"
    assert llm.info.model.startswith("SmolLM2-135M")


def test_the_header_says_when_and_where_it_was_measured():
    header = read_recorded()["header"]
    assert header["provenance"] == "measured"
    assert {"recorded_on", "machine", "versions", "made_by"} <= set(header)


def test_it_serves_as_the_real_one_would(llm):
    [answer] = llm.generate("Why is the sky blue?", chat=True)
    assert len(answer.token_ids) == 64
    one, eight = (seconds_of(run_steps(llm, batch, 32).decode) for batch in (1, 8))
    assert 1e-3 < one < eight < 8 * one  # a batch shares the reading of the weights
    short, long = (seconds_of(run_steps(llm, 1, prompt).prefill) for prompt in (8, 512))
    assert one < long
    assert short < long


def test_its_sizes_are_the_models(llm):
    runner = llm.runner
    assert (runner.model_config.num_layers, runner.model_config.num_kv_heads) == (30, 3)
    assert runner.dtype.itemsize == 2


def test_limits_and_products_are_what_was_measured(llm):
    recorded = read_recorded()["machine"]
    roof = measure_roof(llm)
    assert roof.peak_flops == recorded["limits"]["peak_flops"]
    assert roof.bandwidth == recorded["limits"]["bandwidth"]
    product = open_product(llm, 1536, 1536)
    assert product.seconds(32) == recorded["products"]["1536"]["32"]
    assert (product.n, product.k, product.element_bytes) == (1536, 1536, 2)


def test_what_was_not_measured_is_refused(llm):
    with pytest.raises(ValueError, match="3 rows were not measured, only 1, 2, 4"):
        open_product(llm, 512, 512).seconds(3)
    with pytest.raises(ValueError, match="A side of 100 was not measured, only 1536, 512"):
        open_product(llm, 100, 100)
    with pytest.raises(ValueError, match="this LLM is simulated"):
        open_product(llm, 512, 1536)


def test_its_views_run_at_the_pace_of_the_recorded_machine(llm):
    assert isinstance(llm.runner, RecordedMachine)
    assert llm.new_engine().runner.pace == 1.0
