"""A real model's run on the wall clock, replayed: the simulated engine takes the same decisions."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from minillm.core import Arrival, SamplingParams, SchedulerConfig
from minillm.core.config import EngineConfig
from minillm.core.driver import drive
from minillm.core.engine import LLMEngine
from minillm.sim.replay import replay
from tests.model.harness import CacheConfig, make_runner
from tests.model.tiny_models import VOCAB, save_tiny


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny("llama", tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
def test_a_real_run_replayed_takes_the_same_decisions(folder, policy):
    rng = random.Random(policy)
    stem = [rng.randrange(3, VOCAB) for _ in range(16)]
    arrivals = []
    for i in range(14):
        tail = [rng.randrange(3, VOCAB) for _ in range(rng.randint(1, 20))]
        prompt = tuple(stem[: rng.choice((0, 8, 16))] + tail)
        params = SamplingParams(max_tokens=rng.randint(1, 12))  # it may end by EOS too
        arrivals.append(Arrival(f"r{i}", prompt, params, time=0.01 * rng.random() * i))
    runner = make_runner(folder, num_blocks=14, block_size=4)
    limits = SchedulerConfig(
        max_num_seqs=3, max_num_batched_tokens=24, max_model_len=56, max_queue_delay_s=0.004
    )
    config = EngineConfig(CacheConfig(14, 4), limits, policy, eos_token_ids=frozenset({2}))
    engine = LLMEngine(config, runner)
    assert engine.trace.header.provenance == "measured"
    for _ in drive(engine, arrivals, sleep=lambda seconds: None):
        assert engine.last_error is None
    assert len(engine.trace.steps) > 10

    again = replay(engine.trace, {arrival.request_id: arrival for arrival in arrivals}, config)
    assert again.trace.steps == engine.trace.steps
    assert [e for e in again.trace.events if e.event == "finish"] == [
        e for e in engine.trace.events if e.event == "finish"
    ]
