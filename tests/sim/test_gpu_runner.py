"""SimulatedRunner on a GPU: its memory, its tokens, its determinism."""

import os
import subprocess
import sys

import pytest

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SamplingParams, SchedulerConfig
from minillm.sim import CostModel, SimulatedRunner
from tests.core.helpers import run_all

PARAMS = SamplingParams(max_tokens=40, ignore_eos=True)


def outputs(num_blocks: int = 400, seed: int = 0, **limits) -> tuple[dict, LLMEngine]:
    """What eight requests get on a GPU whose cache has that many blocks of 16 tokens."""
    runner = SimulatedRunner.for_gpu("H100-80GB-SXM", "llama-3.1-8b", seed=seed)
    config = EngineConfig(CacheConfig(num_blocks), SchedulerConfig(**limits))
    engine = LLMEngine(config, runner)
    for i in range(8):
        engine.add_request(f"r{i}", [i + 1] * (20 + 10 * i), PARAMS)
    return run_all(engine), engine


def test_the_device_is_named_and_the_run_labelled():
    info = SimulatedRunner.for_gpu("h100-80gb-sxm", "llama-3.1-70b", tp=4, pp=2, dtype="fp8").info
    assert info.provenance == "simulated"
    assert info.device == "8 × H100-80GB-SXM (TP4 PP2)"
    assert (info.model, info.dtype) == ("llama-3.1-70b", "fp8")


def test_the_cache_is_what_fits_beside_the_weights():
    runner = SimulatedRunner.for_gpu("A100-80GB-SXM", "llama-3.1-8b")
    cache = runner.cache_config(0.9, block_size=16)
    assert cache.num_tokens == pytest.approx(452_000, rel=0.01)
    assert runner.cache_config(0.5).num_blocks < cache.num_blocks
    with pytest.raises(ValueError, match=r"16\.1 GB.*GB"):
        runner.cache_config(0.2)
    with pytest.raises(ValueError, match="num_blocks"):
        SimulatedRunner(CostModel()).cache_config()


def test_a_step_takes_the_sum_of_its_terms():
    _, engine = outputs()
    for step in engine.trace.steps:
        assert step.t_end - step.t_start == pytest.approx(sum(step.terms.values()))
        assert step.terms["gemm"] > 0


def test_tokens_are_the_same_under_preemption_chunks_and_other_limits():
    alone, _ = outputs(max_num_seqs=1)
    plenty, calm = outputs(max_num_seqs=8, max_num_batched_tokens=2048)
    tight, busy = outputs(24, max_num_seqs=8, max_num_batched_tokens=16)
    assert alone == plenty == tight
    assert len(busy.trace.steps) > len(calm.trace.steps)
    assert any(event.event == "preempt" for event in busy.trace.events)


def test_tokens_depend_on_request_position_and_seed_and_are_no_eos():
    first, _ = outputs()
    second, _ = outputs(seed=1)
    assert first.keys() == second.keys()
    assert all(first[name] != second[name] for name in first)
    tokens = [token for ids in first.values() for token in ids]
    assert len(set(tokens)) > 0.9 * len(tokens)
    assert all(3 <= token < 32_000 for token in tokens)


def test_nothing_is_kept_of_requests_that_are_gone():
    runner = SimulatedRunner.for_gpu()
    engine = LLMEngine(EngineConfig(CacheConfig(400), SchedulerConfig(max_num_seqs=4)), runner)
    for i in range(50):
        engine.add_request(f"r{i}", [i + 1] * 20, SamplingParams(max_tokens=3, ignore_eos=True))
    run_all(engine)
    assert len(runner._salts) <= 4


def test_the_same_on_any_hash_seed():
    code = (
        "from tests.sim.test_gpu_runner import outputs\n"
        "made, engine = outputs()\n"
        "print(sorted(made.items()), engine.clock.now())"
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
        )
        for seed in (1, 2)
    ]  # fmt: skip
    assert answers[0].returncode == 0, answers[0].stderr
    assert answers[0].stdout == answers[1].stdout


def test_importing_the_simulator_is_light():
    code = "import sys, minillm.sim; print('torch' in sys.modules, 'numpy' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert answer.stdout.split() == ["False", "False"], answer.stderr
