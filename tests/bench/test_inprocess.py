"""Loads on engines of this process: exact times on the virtual clock, both loops, every policy."""

from __future__ import annotations

import pytest

from minillm.bench.inprocess import measure_engine
from minillm.bench.load import Run
from minillm.bench.plan import PlannedRequest, Workload
from minillm.bench.summary import summarize_run
from minillm.bench.targets import simulated_target
from minillm.core import LLMEngine, summarize
from minillm.llm import LLM
from minillm.sim import CostModel
from minillm.sim.simulate import EngineOptions

STEP_S = 0.010  # every step takes 10 ms, whatever is in it


def engine(policy: str = "continuous", **settings) -> LLMEngine:
    settings = {"max_num_seqs": 8, **settings}
    llm = LLM.simulated(CostModel(STEP_S, 0.0, 0.0), num_blocks=256)
    return llm.new_engine(policy, **settings)


def encode(planned: PlannedRequest) -> tuple[int, ...]:
    return planned.source.prompt_token_ids()


def plan(times: list[float], outputs: int = 5) -> list[PlannedRequest]:
    return Workload(input_len=16, output_len=outputs).plan(times)


def measured(run: Run) -> list[tuple[float, float]]:
    return [(round(r.sent, 6), round(r.chunk_times[-1], 6)) for r in run.requests]


def test_an_open_loop_on_the_virtual_clock_is_exact():
    run = measure_engine(engine(), plan([0.0, 0.025, 1.0]), encode)
    assert measured(run) == [(0.0, 0.05), (0.025, 0.08), (1.0, 1.05)]
    assert run.requests[1].ttft == pytest.approx(0.015)  # 5 ms until the step that takes it in
    assert run.requests[1].itl == pytest.approx([STEP_S] * 4)
    assert all(r.completed and r.usage_tokens == 5 and r.prompt_tokens == 16 for r in run.requests)


def test_a_limit_makes_requests_wait_in_the_client():
    run = measure_engine(engine(), plan([0.0, 0.01, 0.02]), encode, max_concurrency=1)
    assert measured(run) == [(0.0, 0.05), (0.05, 0.10), (0.10, 0.15)]
    assert [r.client_queue for r in run.requests] == pytest.approx([0.0, 0.04, 0.08])
    assert [r.ttft for r in run.requests] == pytest.approx([0.01, 0.05, 0.09])
    assert summarize_run(run.requests)["max_concurrent_requests"] == 1


def test_a_closed_loop_keeps_its_users_busy():
    run = measure_engine(engine(), plan([0.0] * 6), encode, max_concurrency=2, closed=True)
    assert measured(run) == [(0.0, 0.05)] * 2 + [(0.05, 0.1)] * 2 + [(0.1, 0.15)] * 2
    assert {r.client_queue for r in run.requests} == {0.0}


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize(("limit", "closed"), [(None, False), (3, False), (3, True), (20, True)])
def test_every_policy_serves_every_loop(policy: str, limit: int | None, closed: bool):
    settings = {"max_wait_s": 1.0} if policy == "static" else {}
    served = engine(policy, **settings)
    times = [0.013 * i for i in range(30)]
    run = measure_engine(served, plan(times), encode, max_concurrency=limit, closed=closed)
    figures = summarize_run(run.requests)
    assert (figures["completed"], figures["total_output_tokens"]) == (30, 150)
    assert figures["max_concurrent_requests"] <= (limit or 30)
    assert not served.requests


def test_a_static_batch_that_can_never_fill_is_said():
    with pytest.raises(ValueError, match="waits for more than the 2 requests"):
        measure_engine(engine("static"), plan([0.0] * 30), encode, max_concurrency=2, closed=True)


def test_the_figures_are_the_cores():
    served = engine(max_num_seqs=4)
    figures = summarize_run(
        measure_engine(served, plan([0.004 * i for i in range(40)]), encode).requests
    )
    core = summarize(served.trace)
    assert figures["median_ttft_ms"] == pytest.approx(core.ttft_p50_ms)
    assert figures["p99_itl_ms"] == pytest.approx(core.itl_p99_ms)
    assert figures["median_tpot_ms"] == pytest.approx(core.tpot_p50_ms)
    assert figures["p99_e2el_ms"] == pytest.approx(core.e2e_p99_ms)
    assert figures["output_throughput"] == pytest.approx(core.output_tok_s)


def test_a_prompt_that_never_fits_fails_and_the_others_go_on():
    served = engine(max_model_len=64, max_num_batched_tokens=64)
    requests = plan([0.0, 0.0, 0.0])
    long = Workload(input_len=100, output_len=5).plan([0.0])[0]
    mixed = [requests[0], PlannedRequest(1, 0.0, 5, source=long.source), requests[2]]
    figures = summarize_run(measure_engine(served, mixed, encode, max_concurrency=1).requests)
    assert (figures["completed"], figures["errors"]) == (2, {"refused": 1})


def test_an_interrupt_keeps_what_there_is_and_empties_the_engine():
    served = engine()

    def stop(run: Run) -> None:
        if sum(r.completed for r in run.requests) >= 3:
            raise KeyboardInterrupt

    run = measure_engine(served, plan([0.02 * i for i in range(30)]), encode, progress=stop)
    figures = summarize_run(run.requests)
    assert run.interrupted
    assert figures["completed"] == 3
    assert figures["unfinished"] == len(run.requests) - 3 > 0
    assert not served.requests
    assert served.kv.num_free_blocks == 256


def test_a_simulated_gpu_by_name():
    target = simulated_target("A100-80GB-SXM:tp2", EngineOptions())
    assert target.info["provenance"] == "simulated"
    assert "TP2" in target.info["device"]
    first, second = (target.serve(plan([0.0] * 20), 4, True, None) for _ in range(2))
    assert measured(first) == measured(second)  # a fresh engine each time
    with pytest.raises(ValueError, match="names 2"):
        simulated_target("2xA100-80GB-SXM", EngineOptions())
