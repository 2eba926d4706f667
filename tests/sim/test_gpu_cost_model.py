"""The full cost model: reference values, what must hold whatever the constants, refusals."""

import pytest

from minillm.core.batch import ScheduledRow
from minillm.core.request import Request
from minillm.core.sampling_params import SamplingParams
from minillm.sim import GPUS, GPUCostModel, get_gpu
from minillm.sim.gpu_cost_model import TERMS, load_of
from minillm.sim.pipeline import Load, split
from minillm.sim.step_table import step_table

A100, H100, H200 = "A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM"

# Published with the model's formulae: vLLM V1, Llama-3.1-8B bf16, ms per step or prefill.
DECODE = [
    (A100, 512, {1: 11.9, 8: 12.4, 32: 14.4, 64: 17.3, 128: 23.9, 256: 38.4}),
    (H100, 512, {1: 6.7, 8: 7.0, 32: 8.0, 64: 9.3, 128: 12.0, 256: 17.9}),
    (H200, 512, {1: 5.4, 8: 5.7, 32: 6.5, 64: 7.6, 128: 10.1, 256: 15.9}),
    (A100, 2048, {1: 12.0, 32: 18.7, 128: 41.1}),
    (H100, 2048, {1: 6.7, 32: 10.1, 128: 20.4}),
]
PREFILL = [
    (A100, {25: 12.6, 100: 15.1, 512: 37, 2048: 134, 8192: 592}),
    (H100, {25: 7.1, 100: 7.5, 512: 13.3, 2048: 46, 8192: 200}),
]


def cost(gpu: str = A100, model: str = "llama-3.1-8b", **settings) -> GPUCostModel:
    return GPUCostModel(gpu, model, **settings)


def decode(batch: int, context: int) -> Load:
    return Load(batch, batch * context, (), batch)


def row(start: int, tokens: int = 1, padding: int = 0, samples: bool = True) -> ScheduledRow:
    request = Request("r", [1] * max(start + tokens, 1), SamplingParams())
    return ScheduledRow(request, start, tokens, padding, samples, (0,), tokens == 0)


@pytest.mark.parametrize(("gpu", "context", "expected"), DECODE)
def test_reference_decode_steps(gpu, context, expected):
    table = step_table(gpu, batches=list(expected), context=context)
    got = {step["batch"]: step["ms"] for step in table["steps"]}
    assert got == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("gpu", "expected"), PREFILL)
def test_reference_prefill(gpu, expected):
    got = {n: 1e3 * cost(gpu).seconds(Load(0, 0, [(0, n)], 1)) for n in expected}
    assert got == pytest.approx(expected, rel=0.03)


def test_kv_capacity():
    assert cost(A100).kv_tokens(0.9) == pytest.approx(452_000, rel=0.01)
    assert cost(H200).kv_tokens(0.9) == pytest.approx(830_000, rel=0.01)


def test_terms_have_their_names_and_sum_up():
    table = step_table(H100, "llama-3.1-70b", tp=4, batches=[1, 64])
    for step in table["steps"]:
        assert tuple(step["terms"]) == TERMS
        assert sum(step["terms"].values()) == pytest.approx(step["ms"], abs=1e-3)
        assert step["terms"]["all_reduce"] > 0
        assert step["tok_s"] == pytest.approx(step["batch"] * 1e3 / step["ms"], rel=1e-3)


@pytest.mark.parametrize("gpu", list(GPUS))
def test_more_work_never_takes_less_time(gpu):
    model = cost(gpu, "llama-3.2-1b")
    batches = [model.seconds(decode(n, 500)) for n in (1, 2, 8, 32, 100, 256)]
    contexts = [model.seconds(decode(8, n)) for n in (1, 100, 1000, 4000)]
    prompts = [model.seconds(Load(0, 0, [(0, n)], 1)) for n in (2, 16, 128, 1024, 4096)]
    for times in (batches, contexts, prompts):
        assert times == sorted(times)
    assert batches[-1] / 256 < batches[0] / 4  # a batch shares the weights


def test_rows_are_summed_up_as_what_they_compute():
    rows = [row(10), row(20), row(0, tokens=0, padding=1, samples=False)]
    assert load_of(rows) == Load(3, 11 + 21 + 1, (), 2)
    mixed = [row(10), row(0, 30, samples=False), row(16, 1, 4)]
    assert load_of(mixed) == Load(1, 11, [(0, 30), (16, 5)], 2)
    assert load_of([]) == Load()


def test_chunks_of_a_prompt_take_longer_than_the_prompt_whole():
    model = cost()
    whole = model.seconds(Load(0, 0, [(0, 2048)], 1))
    chunked = sum(model.seconds(Load(0, 0, [(past, 256)], 0)) for past in range(0, 2048, 256))
    assert whole < chunked < 3 * whole


def test_tensor_parallelism_cuts_latency_and_pays_for_its_links():
    steps = [cost(H100, "llama-3.1-70b", dtype="fp8", tp=tp).load_terms(decode(8, 512))
             for tp in (1, 2, 4, 8)]  # fmt: skip
    assert [sum(s.values()) for s in steps] == sorted(
        (sum(s.values()) for s in steps), reverse=True
    )
    assert steps[0]["all_reduce"] == 0 < steps[1]["all_reduce"] < steps[3]["all_reduce"]
    nvlink = cost(A100, tp=2).load_terms(decode(64, 512))["all_reduce"]
    pcie = cost("A100-80GB-PCIE", tp=2).load_terms(decode(64, 512))["all_reduce"]
    assert pcie > 1.5 * nvlink


def test_pipeline_does_nothing_for_one_user_and_multiplies_throughput():
    one, eight = cost(), cost(pp=8)
    assert eight.seconds(decode(1, 512)) >= one.seconds(decode(1, 512))
    gain = one.seconds(decode(256, 512)) / eight.seconds(decode(256, 512))
    assert 1.5 < gain < 8
    terms = eight.load_terms(decode(1, 512))
    assert terms["pipeline"] > 0.8 * sum(terms.values())  # 7 of 8 stages wait


@pytest.mark.parametrize("num_batches", [1, 2, 3, 8])
def test_micro_batches_keep_every_token_and_no_chunk_is_split(num_batches):
    load = Load(13, 1300, [(0, 1024), (512, 64), (0, 3)], 15)
    parts = split(load, num_batches)
    assert len(parts) <= num_batches
    assert sum(part.num_decode for part in parts) == 13
    assert sorted(chunk for part in parts for chunk in part.chunks) == sorted(load.chunks)
    assert sum(part.context for part in parts) == pytest.approx(1300, abs=num_batches)
    assert max(part.num_tokens for part in parts) < 1024 + 100


def test_one_prompt_in_a_pipeline_is_as_slow_as_on_one_gpu():
    prompt = Load(0, 0, [(0, 4096)], 1)
    assert cost(pp=4).seconds(prompt) >= cost().seconds(prompt)


def test_fp8_reads_half_the_weights():
    bf16 = cost(H100).load_terms(decode(1, 512))["gemm"]
    fp8 = cost(H100, dtype="fp8").load_terms(decode(1, 512))["gemm"]
    assert 0.4 < fp8 / bf16 < 0.65
    assert cost(H100, dtype="fp8_kv8").kv_tokens() > 2 * cost(H100).kv_tokens()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gpu": "A100-80GB-SXM", "dtype": "fp8"}, ["FP8", "A100-80GB-SXM"]),
        ({"gpu": "RTX4090", "dtype": "fp8"}, ["FP8", "RTX4090"]),
        ({"gpu": "Z9000"}, ["Z9000", "H100-80GB-SXM", "RTX4090"]),
        ({"model": "gpt-9"}, ["gpt-9", "llama-3.1-8b"]),
        ({"preset": "fast"}, ["fast", "vllm-v1"]),
        ({"dtype": "fp3"}, ["fp3", "bf16"]),
        ({"tp": 3}, ["3", "32"]),
        ({"tp": 0}, ["tp", "0"]),
        ({"pp": 33}, ["33", "32 layers"]),
        ({"batches": [0]}, ["batch", "0"]),
        ({"context": 0}, ["context", "0"]),
        ({"batches": []}, ["batch size"]),
        ({"gpu_memory_utilization": 1.5}, ["1.5"]),
    ],
)
def test_refusals_are_one_sentence(settings, words):
    with pytest.raises(ValueError) as caught:
        step_table(**settings)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_a_model_that_does_not_fit_is_told_with_both_sizes():
    with pytest.raises(ValueError, match=r"141\.\d GB.*75\.3 GB"):
        step_table(A100, "llama-3.1-70b")
    step_table(A100, "llama-3.1-70b", tp=4)


def test_names_do_not_mind_letter_case():
    assert get_gpu("h100-80gb-sxm").name == H100
