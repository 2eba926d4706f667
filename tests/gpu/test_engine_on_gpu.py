"""The engine on a GPU: the same tokens as transformers, graphs on and off, preempted or not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from minillm.core import Request, SamplingParams, ScheduledRow, SchedulerOutput
from minillm.model.attention.select import make_backend
from minillm.model.cuda_graphs import bucket_for
from tests.model.harness import make_engine, make_runner, preemptions, random_prompts, run_all
from tests.model.tiny_models import VOCAB

pytestmark = pytest.mark.gpu

FAMILIES = ("llama", "llama3-rope", "qwen2", "qwen3")
LENGTHS = (3, 9, 23, 1, 12, 130)
PROMPTS = random_prompts(LENGTHS, VOCAB)
PROMPTS += [[*PROMPTS[2][:17], 5, 7], PROMPTS[2][:18] + [11] * 9]  # shared heads: prefix hits
PARAMS = [SamplingParams(max_tokens=4 + 2 * i, ignore_eos=True) for i in range(len(PROMPTS))]
NEAR_TIE = 1e-3  # a gap between the best two logits that float32 decides safely


@pytest.fixture(scope="module")
def expected(tiny):
    """expected(family) → {request id: transformers' output}, without outputs near a tie."""
    known = {}

    def get(family: str) -> dict[str, list[int]]:
        if family not in known:
            _, reference = tiny(family)
            pairs = zip(PROMPTS, PARAMS, strict=True)
            outputs = [reference.greedy_with_gap(p, params.max_tokens) for p, params in pairs]
            safe = {str(i): out for i, (out, gap) in enumerate(outputs) if gap > NEAR_TIE}
            assert len(safe) >= len(PROMPTS) // 2
            known[family] = safe
        return known[family]

    return get


def gpu_runner(folder, *, dtype="float32", **options):
    return make_runner(folder, dtype=dtype, **{"device": "cuda", "block_size": 16, **options})


def check(runner, expected: dict[str, list[int]], **options):
    engine = make_engine(runner, **options)
    outputs = run_all(engine, PROMPTS, PARAMS)
    assert {i: outputs[i] for i in expected} == expected
    return engine


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_tokens_equal_transformers(tiny, expected, family, policy):
    runner = gpu_runner(tiny(family)[0])
    assert runner.backend.name == "triton"
    engine = check(runner, expected(family), policy=policy, max_num_seqs=5, budget=256)
    assert any(step.graph_pad_rows for step in engine.trace.steps)


@pytest.mark.parametrize("name", ["triton", "sdpa"])
@pytest.mark.parametrize("block_size", [1, 16, 64])
@pytest.mark.parametrize("chunk", [1, 7, 0])
def test_chunks_and_block_sizes(tiny, expected, name, block_size, chunk):
    backend = make_backend(name, 6)
    runner = gpu_runner(
        tiny("llama")[0], backend=backend, block_size=block_size, num_blocks=1024 // block_size
    )
    check(runner, expected("llama"), chunk=chunk)


@pytest.mark.parametrize("enforce_eager", [False, True])
@pytest.mark.parametrize("prefix_cache", [False, True])
def test_preemption_and_prefix_cache(tiny, expected, enforce_eager, prefix_cache):
    runner = gpu_runner(tiny("llama")[0], block_size=4, num_blocks=40, enforce_eager=enforce_eager)
    engine = check(runner, expected("llama"), prefix_cache=prefix_cache, max_num_seqs=8)
    assert preemptions(engine)
    if prefix_cache:
        admits = [event for event in engine.trace.events if event.event == "admit"]
        assert sum(event.data["tokens_cached"] for event in admits) >= 16


def test_graphs_compute_what_their_kernels_do(tiny):
    """Ten steps of five rows: the same logits, and captured at load as far as was asked for."""
    folder, _ = tiny("llama")
    prompts = random_prompts([20, 5, 40, 17, 33], VOCAB)
    params = SamplingParams(max_tokens=10, ignore_eos=True)
    logits = {}
    for eager in (False, True):
        runner = gpu_runner(folder, enforce_eager=eager, max_num_seqs=5)
        run_all(make_engine(runner, max_num_seqs=5, budget=256), prompts, params)
        logits[eager] = {name: torch.stack(rows) for name, rows in runner.sampler.logits.items()}
        if not eager:
            assert set(runner.graphs.graphs) == {1, 2, 4, 8}
    for name, rows in logits[True].items():
        torch.testing.assert_close(logits[False][name], rows, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("eager", [False, True])
def test_the_host_waits_for_tokens_alone(tiny, eager):
    """Everything up to the logits runs without a synchronisation."""
    runner = gpu_runner(tiny("llama")[0], enforce_eager=eager, max_num_seqs=4)
    prompts = random_prompts([20, 5, 40], VOCAB)
    requests = [Request(str(i), prompt, SamplingParams()) for i, prompt in enumerate(prompts)]
    tables = [tuple(range(4 * i, 4 * i + 4)) for i in range(3)]
    prefill = [
        ScheduledRow(request, 0, len(request.token_ids), 0, True, table)
        for request, table in zip(requests, tables, strict=True)
    ]
    result = runner.execute(SchedulerOutput(0, prefill))
    for request in requests:
        request.append(result.token_ids[request.request_id])
    decode = [row._replace(start=row.num_tokens, num_tokens=1) for row in prefill]
    with torch.inference_mode():
        runner._compute(prefill)  # compiled by now
        runner._compute(decode)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            runner._compute(prefill)
            if eager:
                runner._compute(decode)
            else:
                _, logits, filled = runner.graphs.run(decode)
                assert len(logits) == 3
                assert filled == bucket_for(3) - 3
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_sixteen_bit_logits_are_near(tiny):
    folder, reference = tiny("llama")
    (prompt,) = random_prompts([60], VOCAB)
    expected = reference.logits(prompt)[-1]
    for dtype, tolerance in (("bfloat16", 0.05), ("float16", 0.01)):
        runner = gpu_runner(folder, dtype=dtype)
        run_all(make_engine(runner), [prompt], SamplingParams(max_tokens=1))
        got = runner.sampler.logits["0"][0].double().cpu()
        assert (got - expected).abs().max() <= tolerance * expected.abs().max()


def test_a_seeded_request_draws_the_same_beside_others(tiny):
    runner = gpu_runner(tiny("llama")[0])
    prompts = random_prompts([6, 9, 4], VOCAB)
    options = {"max_tokens": 12, "ignore_eos": True, "temperature": 1.0}
    seeded = SamplingParams(seed=42, **options)
    alone = run_all(make_engine(runner), prompts[:1], seeded)["0"]
    mates = [seeded, SamplingParams(**options), SamplingParams(seed=7, **options)]
    assert run_all(make_engine(runner), prompts, mates)["0"] == alone
    other = run_all(make_engine(runner), prompts[:1], SamplingParams(seed=7, **options))["0"]
    assert other != alone


def test_memory_for_blocks_is_what_is_left(tiny):
    """A third of the GPU asked for: weights and cache stay below, and most of it is cache."""
    runner = gpu_runner(tiny("llama")[0], num_blocks=None, gpu_memory_utilization=0.33)
    total = torch.cuda.get_device_properties(0).total_memory
    assert 0.15 * total < runner.kv_pool.nbytes <= 0.33 * total
    runner.close()
