"""Greedy output of every request equals transformers' for the same weights run alone.

Under every policy, chunk size, block size, prefix cache on and off, preempted or not; in float64,
with every unwritten KV slot holding NaN.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from minillm.core import SamplingParams, summarize
from tests.model.harness import (
    finish,
    make_engine,
    make_runner,
    preemptions,
    random_prompts,
    run_all,
    step_once,
)
from tests.model.tiny_models import VOCAB, Reference

FAMILIES = ("llama", "llama3-rope", "qwen2", "qwen3")
LENGTHS = (3, 9, 23, 1, 12)
PROMPTS = random_prompts(LENGTHS, VOCAB)
PROMPTS += [[*PROMPTS[2][:17], 5, 7], PROMPTS[2][:8] + [11] * 9]  # shared heads: prefix hits
OUTPUTS = [4 + 2 * i for i in range(len(PROMPTS))]
PARAMS = [SamplingParams(max_tokens=n, ignore_eos=True) for n in OUTPUTS]
TINY_POOL = 40  # tokens: holds one request with room to spare, and not three


@pytest.fixture(scope="module")
def expected(tiny):
    """expected(family) → {request id: output of transformers}, computed once."""
    known = {}

    def get(family: str) -> dict[str, list[int]]:
        if family not in known:
            _, reference = tiny(family)
            pairs = zip(PROMPTS, OUTPUTS, strict=True)
            outputs = [reference.greedy(prompt, count) for prompt, count in pairs]
            assert len(set().union(*outputs)) > 30  # the model says more than one word
            known[family] = {str(i): output for i, output in enumerate(outputs)}
        return known[family]

    return get


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 8, 0])
def test_continuous(tiny, expected, family, block_size, prefix_cache, chunk):
    folder, _ = tiny(family)
    runner = make_runner(folder, num_blocks=400 // block_size, block_size=block_size)
    engine = make_engine(runner, chunk=chunk, prefix_cache=prefix_cache)
    assert run_all(engine, PROMPTS, PARAMS) == expected(family)
    assert summarize(engine.trace).padding_fraction == 0.0
    if prefix_cache and block_size == 4:
        admits = [event for event in engine.trace.events if event.event == "admit"]
        assert sum(event.data["tokens_cached"] for event in admits) >= 16


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("chunk", [3, 0])
def test_continuous_with_preemption(tiny, expected, family, block_size, prefix_cache, chunk):
    folder, _ = tiny(family)
    runner = make_runner(folder, num_blocks=TINY_POOL // block_size, block_size=block_size)
    engine = make_engine(runner, chunk=chunk, prefix_cache=prefix_cache)
    assert run_all(engine, PROMPTS, PARAMS) == expected(family)
    assert preemptions(engine)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", ["static", "dynamic"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_padded_batches(tiny, expected, family, policy, block_size):
    """Masks that shrink, positions that are shared: each would show here (C02, C03)."""
    folder, _ = tiny(family)
    runner = make_runner(folder, num_blocks=400 // block_size, block_size=block_size)
    engine = make_engine(runner, policy)
    assert run_all(engine, PROMPTS, PARAMS) == expected(family)
    summary = summarize(engine.trace)
    assert summary.prompt_padding_fraction > 0
    assert summary.dead_row_fraction > 0


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_blocks_used_before_hold_other_numbers(tiny, expected, policy):
    """A second run on the same cache reads nothing that the first one left behind."""
    folder, _ = tiny("llama")
    runner = make_runner(folder, num_blocks=24)
    run_all(make_engine(runner, policy), random_prompts([30, 20, 25], VOCAB, seed=9), PARAMS[-3:])
    assert run_all(make_engine(runner, policy), PROMPTS, PARAMS) == expected("llama")


def test_joining_mid_flight(tiny, expected):
    """A batch that others join and leave changes nobody's tokens (C01)."""
    folder, _ = tiny("llama")
    engine = make_engine(make_runner(folder), max_num_seqs=8, chunk=5)
    outputs: dict[str, list[int]] = {}
    for i, (prompt, params) in enumerate(zip(PROMPTS, PARAMS, strict=True)):
        engine.add_request(str(i), prompt, params)
        for _ in range(i % 3 + 1):
            step_once(engine, outputs)
    engine.add_request("visitor", PROMPTS[0], PARAMS[-1])
    step_once(engine, outputs)
    engine.abort("visitor")
    finish(engine, outputs)
    outputs.pop("visitor", None)
    assert outputs == expected("llama")


def test_swapping_the_policy_mid_flight(tiny, expected):
    folder, _ = tiny("llama")
    engine = make_engine(make_runner(folder, num_blocks=100))
    outputs: dict[str, list[int]] = {}
    for i, (prompt, params) in enumerate(zip(PROMPTS, PARAMS, strict=True)):
        engine.add_request(str(i), prompt, params)
    for policy in ("static", "dynamic", "continuous"):
        for _ in range(4):
            step_once(engine, outputs)
        engine.swap_scheduler(policy)
        engine.close_input()
    assert finish(engine, outputs) == expected("llama")


def test_row_that_ends_early_is_carried_but_says_no_more(tiny):
    """A ends at token 2, B at token 10: A returns 2 tokens, and 8 of 20 slots are dead (C04)."""
    folder, reference = tiny("llama")
    first = reference.greedy(PROMPTS[1], 10)
    stop = first[1]
    assert stop != first[0]
    engine = make_engine(make_runner(folder), "static", max_num_seqs=2)
    ends = SamplingParams(max_tokens=10, ignore_eos=True, stop_token_ids=(stop,))
    stays = SamplingParams(max_tokens=10, ignore_eos=True)
    outputs = run_all(engine, [PROMPTS[1], PROMPTS[4]], [ends, stays])
    assert outputs == {"0": first[:2], "1": reference.greedy(PROMPTS[4], 10)}
    rows = [row for step in engine.trace.steps for row in step.rows]
    assert len(rows) == 20
    assert sum(row.n_tokens == 0 for row in rows) == 8


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_chunks_give_the_logits_of_one_prefill(tiny, dtype, tolerance):
    """23 tokens as 8 + 8 + 7, poisoned cache: the one-shot logits, twice the same (C05)."""
    folder, reference = tiny("llama")
    prompt = PROMPTS[2]
    one = SamplingParams(max_tokens=1)

    def logits(chunk: int) -> torch.Tensor:
        runner = make_runner(folder, dtype=dtype)
        engine = make_engine(runner, chunk=chunk)
        run_all(engine, [prompt], one)
        assert [row.n_tokens for s in engine.trace.steps for row in s.rows] == (
            [8, 8, 7] if chunk else [23]
        )
        return runner.sampler.logits["0"][0]

    chunked = logits(8)
    assert torch.isfinite(chunked).all()
    assert torch.equal(chunked, logits(8))
    torch.testing.assert_close(chunked, logits(0), rtol=0, atol=tolerance)
    exact = reference.logits(prompt)[-1]  # its norms and RoPE compute in float32
    torch.testing.assert_close(chunked.double(), exact, rtol=0, atol=1e-4)


def test_unfinished_prefill_yields_no_token(tiny):
    """A decodes beside B's prefill of 30 tokens at budget 8; B samples at its end only (C08)."""
    folder, reference = tiny("llama")
    prompts = [PROMPTS[0], random_prompts([30], VOCAB, seed=5)[0]]
    engine = make_engine(make_runner(folder), budget=8, max_num_seqs=2)
    outputs: dict[str, list[int]] = {}
    engine.add_request("0", prompts[0], SamplingParams(max_tokens=12, ignore_eos=True))
    step_once(engine, outputs)
    engine.add_request("1", prompts[1], SamplingParams(max_tokens=3, ignore_eos=True))
    finish(engine, outputs)
    assert outputs == {"0": reference.greedy(prompts[0], 12), "1": reference.greedy(prompts[1], 3)}
    for step in engine.trace.steps:
        assert sum(row.n_tokens for row in step.rows) <= 8
        for row in step.rows:
            caught_up = row.start + row.n_tokens >= len(prompts[row.req_idx])
            assert (row.token_id is not None) == caught_up


def test_repetition_penalty_is_that_of_transformers(tiny):
    """Prompt and output count alike, also after preemption (C15)."""
    folder, reference = tiny("llama")
    params = [
        SamplingParams(max_tokens=n, ignore_eos=True, repetition_penalty=1.3) for n in OUTPUTS
    ]
    expected = {
        str(i): reference.greedy(prompt, count, repetition_penalty=1.3)
        for i, (prompt, count) in enumerate(zip(PROMPTS, OUTPUTS, strict=True))
    }
    big = make_engine(make_runner(folder, num_blocks=100))
    assert run_all(big, PROMPTS, params) == expected
    small = make_engine(make_runner(folder, num_blocks=TINY_POOL // 4))
    assert run_all(small, PROMPTS, params) == expected
    assert preemptions(small)


def test_seeded_sampling_survives_preemption(tiny):
    """Requests preempted at least twice, greedy and seeded, keep their ids (C15, C32)."""
    folder, _ = tiny("llama")
    prompts = random_prompts([6, 7, 5, 3, 8, 4], VOCAB, seed=3)
    params = 2 * [
        SamplingParams(max_tokens=30, ignore_eos=True, temperature=0.8, seed=42, top_p=0.9),
        SamplingParams(max_tokens=30, ignore_eos=True),
        SamplingParams(max_tokens=30, ignore_eos=True, temperature=1.0, seed=7, top_k=20),
    ]
    big = make_engine(make_runner(folder, num_blocks=100))
    small = make_engine(make_runner(folder, num_blocks=40, block_size=1))
    assert run_all(big, prompts, params) == run_all(small, prompts, params)
    assert not preemptions(big)
    assert sum(count >= 2 for count in preemptions(small).values()) >= 2


def test_same_tokens_in_the_real_model(default_model_path):
    """The default model in float32: prompts together, chunked, against each alone in HF."""
    reference = Reference(default_model_path, torch.float32)
    prompts = random_prompts([5, 30, 17], 40_000, seed=1)
    expected = {}
    for i, prompt in enumerate(prompts):
        expected[str(i)], gap = reference.greedy_with_gap(prompt, 12)
        assert gap > 1e-4  # no near tie: float32 decides each of these tokens
    runner = make_runner(
        default_model_path, dtype="float32", block_size=16, num_blocks=32, max_model_len=256
    )
    params = SamplingParams(max_tokens=12, ignore_eos=True)
    for policy in ("continuous", "static"):
        assert run_all(make_engine(runner, policy, budget=24), prompts, params) == expected


def test_bfloat16_logits_hardly_depend_on_the_batch(default_model_path):
    """bf16 promises no equal tokens; logits alone and in a batch differ by 2 % at most (C01)."""
    prompts = random_prompts([9, 30, 21], 40_000, seed=2)
    one = SamplingParams(max_tokens=1)

    def logits(batch, chunk=0):
        runner = make_runner(
            default_model_path, dtype="bfloat16", block_size=16, num_blocks=16, max_model_len=128
        )
        run_all(make_engine(runner, chunk=chunk), batch, one)
        return [runner.sampler.logits[str(i)][0].float() for i in range(len(batch))]

    together = logits(prompts, chunk=8)
    for prompt, row in zip(prompts, together, strict=True):
        (alone,) = logits([prompt])
        assert torch.isfinite(row).all()
        assert (row - alone).norm() <= 0.02 * alone.norm()
