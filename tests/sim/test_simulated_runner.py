"""The first simulated device: three constants, exact on the virtual clock."""

import math

import pytest

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SamplingParams, SchedulerConfig
from minillm.sim import CostModel, SimulatedRunner
from tests.core.helpers import run_all

CONSTANTS = CostModel(step_s=1.0, token_s=0.1, context_s=0.01)


def engine(policy="continuous", cost=CONSTANTS, **limits):
    config = EngineConfig(CacheConfig(64), SchedulerConfig(**limits), policy=policy)
    return LLMEngine(config, SimulatedRunner(cost))


def params(n):
    return SamplingParams(max_tokens=n, ignore_eos=True)


def test_a_step_takes_the_sum_of_its_terms():
    sim = engine()
    sim.add_request("a", [1] * 10, params(2))
    run_all(sim)
    prefill, decode = sim.trace.steps
    assert prefill.terms == pytest.approx({"weights": 1.0, "tokens": 1.0, "kv": 0.1})
    assert prefill.t_end == pytest.approx(2.1)
    assert decode.t_end - decode.t_start == pytest.approx(1.0 + 0.1 + 0.11)


def test_padding_takes_time_like_real_tokens():
    sim = engine("static", max_num_seqs=2)
    sim.add_request("a", [1] * 10, params(1))
    sim.add_request("b", [1] * 2, params(3))
    run_all(sim)
    assert sim.trace.steps[0].terms["tokens"] == pytest.approx(2.0)
    assert sim.trace.steps[1].terms["tokens"] == pytest.approx(0.2)


def test_tokens_do_not_depend_on_the_policy():
    outputs = []
    for policy in ("static", "dynamic", "continuous"):
        sim = engine(policy, max_num_seqs=2)
        for i in range(5):
            sim.add_request(str(i), [i + 1, 7], params(3 + i))
        outputs.append(run_all(sim))
    assert outputs[0] == outputs[1] == outputs[2]
    assert all(3 <= token < 32_000 for ids in outputs[0].values() for token in ids)


def test_it_is_labelled_simulated():
    assert engine().trace.header.provenance == "simulated"


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf])
def test_constants_must_be_seconds(bad):
    with pytest.raises(ValueError, match="token_s must be a number of seconds"):
        CostModel(token_s=bad)
