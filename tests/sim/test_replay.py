"""A recorded run through the engine again takes the same decisions; real vLLM runs come close."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    Trace,
    drive,
)
from minillm.core.scheduler import SCHEDULERS
from minillm.sim import SimulatedRunner
from minillm.sim.replay import MEASURED_RUNS, ReplayRunner, replay, replay_measured
from tests.core.test_properties import cases, play


def spy(policy: str):
    """That policy's scheduler, and the list of the plans that its instances make.

    Ids of the finished that went into an empty plan count for the next one: a replay asks for no
    empty plans.
    """
    plans: list[tuple] = []

    class Spy(SCHEDULERS[policy]):
        earlier = ()

        def schedule(self, now):
            plan = super().schedule(now)
            finished = self.earlier + plan.finished_ids
            self.earlier = () if plan.rows else finished
            if plan.rows:
                rows = [(row.request.request_id, *row[1:]) for row in plan.rows]
                plans.append((now, plan.step_id, rows, plan.preempted_ids, finished))
            return plan

    return Spy, plans


def arrivals_of(case) -> dict[str, Arrival]:
    found = {}
    for i, prompt in enumerate(case.prompts):
        params = SamplingParams(max_tokens=case.max_tokens[i])
        found[f"r{i}"] = Arrival(f"r{i}", prompt, params, priority=case.priorities[i])
    return found


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases(), st.sampled_from(sorted(SCHEDULERS)), st.floats(0.01, 5.0, allow_subnormal=False))
def test_a_replay_takes_the_same_decisions(case, policy, step_s):
    case.limits["step_s"] = step_s
    scheduler, expected = spy(policy)
    engine, _, _ = play(case, scheduler)
    scheduler, plans = spy(policy)
    again = replay(engine.trace, arrivals_of(case), engine.config, scheduler)
    assert plans == expected
    assert again.trace.steps == engine.trace.steps


def test_a_replay_survives_the_way_through_a_file():
    engine, arrivals = small_run()
    trace = Trace.from_jsonl(engine.trace.to_jsonl())
    again = replay(trace, arrivals, engine.config)
    assert again.trace.steps == engine.trace.steps
    assert again.trace.header.provenance == "simulated"


def test_other_prompts_are_noticed():
    engine, arrivals = small_run()
    wrong = dict(arrivals)
    wrong["a"] = replace(arrivals["a"], prompt_token_ids=(1,) * 70)
    with pytest.raises(RuntimeError, match="Step"):
        replay(engine.trace, wrong, engine.config)


def test_the_recording_ends():
    engine, _ = small_run()
    runner = ReplayRunner(Trace(engine.trace.header))
    again = LLMEngine(engine.config, runner, clock=runner.clock)
    again.add_request("x", (1, 2, 3), SamplingParams(max_tokens=1))
    again.step()
    assert "The recording has no step 0." in str(again.last_error)


def small_run():
    config = EngineConfig(
        CacheConfig(16), SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=20)
    )
    engine = LLMEngine(config, SimulatedRunner())
    params = SamplingParams(max_tokens=9, ignore_eos=True)
    arrivals = [
        Arrival(name, tuple(range(1, length)), params, time)
        for name, length, time in (("a", 60, 0.0), ("b", 90, 0.01), ("c", 33, 0.5))
    ]
    for _ in drive(engine, arrivals):
        pass
    return engine, {arrival.request_id: arrival for arrival in arrivals}


@pytest.mark.parametrize("name", sorted(MEASURED_RUNS))
def test_two_real_vllm_runs_are_met(name):
    result = replay_measured(name)
    assert result["completed"] == result["requests"] == 300
    errors = {metric: figures["error"] for metric, figures in result["metrics"].items()}
    assert abs(errors["e2e"]) < 3, errors
    assert abs(errors["tpot"]) < 3, errors
    assert abs(errors["ttft"]) < 6, errors


def test_an_unknown_run_is_refused_with_the_list():
    with pytest.raises(ValueError, match="vllm019-rtx4090, vllm019-rtxpro6000"):
        replay_measured("vllm020")
