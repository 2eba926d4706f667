"""How busy a simulated GPU is: shares from the cost model's terms and the sizes."""

from __future__ import annotations

import pytest

from minillm.core.trace import Row, StepRecord, TraceHeader
from minillm.sim import GPUCostModel, get_dtype, get_model
from minillm.sim.activity import GPUActivity, sizes_of, step_bytes
from minillm.sim.pipeline import Load


def header(device="A100-80GB-SXM", model="llama-3.1-8b", dtype="bf16", provenance="simulated"):
    return TraceHeader(provenance, device, model, dtype, "continuous", 100, 16)


def decode_step(batch: int, context: int, **run) -> StepRecord:
    cost = GPUCostModel("A100-80GB-SXM", "llama-3.1-8b", **run)
    terms = cost.load_terms(Load(batch, batch * context, (), batch))
    rows = [Row(i, 1, 1, 0, context - 1, 7) for i in range(batch)]
    return StepRecord(0, 0.0, sum(terms.values()), 0, batch, None, rows, 0, 0, [], 0, terms)


def test_one_row_is_bound_by_memory_and_many_use_the_tensor_cores():
    activity = GPUActivity.of_run(header())
    one, many = (activity.of(decode_step(batch, 512)) for batch in (1, 256))
    assert 0.5 < one.dram < 0.8
    assert one.tensor < 0.01
    assert many.tensor > 0.25
    for shares in (one, many):
        assert all(0 < share <= 1 for share in shares)


def test_the_flops_of_a_prefill_are_two_a_weight_and_token():
    model, dtype = get_model("llama-3.1-8b"), get_dtype("bf16")
    activity = GPUActivity.of_run(header())
    rows = [Row(0, 0, 1000, 0, 0, 7)]
    step = StepRecord(0, 0.0, 1.0, 0, 1, None, rows, 0, 0, [], 0, {"gemm": 1.0, "cpu": 0.0})
    weights = 2 * model.num_layers * model.layer_params * 1000 + 2 * model.hidden * model.vocab_size
    pairs = 4 * model.num_layers * model.num_heads * model.head_dim * 1000 * 1001 / 2
    assert activity.of(step).tensor * 312e12 == pytest.approx(weights + pairs)
    moved, kv = step_bytes(model, dtype)
    assert activity.of(step).dram * 2039e9 == pytest.approx(moved + 1000 * kv)
    assert activity.of(step).busy == 1.0


def test_two_gpus_share_the_work():
    one = GPUActivity.of_run(header())
    two = GPUActivity.of_run(header("2 × A100-80GB-SXM (TP2 PP1)"))
    step = decode_step(8, 512)
    assert two.of(step).dram == pytest.approx(one.of(step).dram / 2)


@pytest.mark.parametrize(
    "wrong",
    [
        header("A100 80 GB (three constants)", "Llama-3.1-8B"),
        header("4 × A100-80GB-SXM (TP2 PP2)"),
        header(model="nobody knows"),
        header(provenance="measured"),
    ],
)
def test_no_shares_without_a_data_sheet(wrong):
    assert GPUActivity.of_run(wrong) is None


def test_names_of_traces_are_understood():
    model, dtype = sizes_of(header(model="SmolLM2-135M-Instruct", dtype="bfloat16"))
    assert (model.name, dtype.name) == ("smollm2-135m", "bf16")
    assert sizes_of(header(dtype="float3")) is None
    weights, kv = step_bytes(model, dtype)
    assert weights == pytest.approx(2 * 134.5e6, rel=0.01)
    assert kv == 2 * 30 * 3 * 64 * 2


def test_a_step_without_terms_has_none():
    step = StepRecord(0, 0.0, 1.0, 0, 1, None, [Row(0, 1, 1, 0, 3, 7)], 0, 0)
    assert GPUActivity.of_run(header()).of(step) is None
