"""The cluster: whole engines on virtual time, failures, stale loads, reports, refusals."""

from __future__ import annotations

import json

import pytest

from minillm.core import (
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SchedulerConfig,
    drive,
    request_metrics,
    summarize,
)
from minillm.sim import CostModel, SimulatedRunner
from minillm.sim.cluster import Cluster
from minillm.sim.cluster_spec import Failure, ReplicaSpec
from minillm.sim.report import cluster_report
from minillm.sim.routers import ROUTERS, make_router
from minillm.sim.simulate import EngineOptions, run_cluster, simulate_cluster, simulate_run
from minillm.sim.workload import Fixed, Lognormal, own_request, synthetic, with_tenants

TOKEN_S = CostModel(step_s=1.0, token_s=0.0, context_s=0.0)  # one step is one second


def maker(policy="continuous", num_blocks=64, **limits):
    config = EngineConfig(CacheConfig(num_blocks), SchedulerConfig(**limits), policy=policy)
    return lambda: LLMEngine(config, SimulatedRunner(TOKEN_S))


def cluster(count, router="round_robin", make=None, **options):
    return Cluster([make or maker()] * count, make_router(router, count), **options)


def requests(*times, input_len=10, output_len=3):
    return [own_request(i, t, input_len, output_len) for i, t in enumerate(times)]


def ends(run):
    return [r.token_times and r.token_times[-1] for r in run.requests]


@pytest.mark.parametrize("policy", ["continuous", "static", "dynamic"])
def test_one_replica_is_the_core_s_engine_and_driver(policy):
    work = synthetic(60, 3.0, seed=2, inputs=Lognormal(60, 0.8, 1, 400), outputs=Fixed(6))
    make = maker(policy, max_num_seqs=4, max_num_batched_tokens=64, max_queue_delay_s=0.7)
    one = cluster(1, make=make)
    one.run(work)
    engine = make()
    for _ in drive(engine, [request.arrival() for request in work]):
        pass
    assert one.replicas[0].engine.trace.steps == engine.trace.steps
    assert summarize(one.replicas[0].engine.trace) == summarize(engine.trace)


def test_round_robin_puts_requests_on_engines_in_turn():
    run = cluster(2).run(requests(0.0, 0.0, 0.0, 0.5))
    assert [len(run.by_replica[i]) for i in range(2)] == [2, 2]
    assert ends(run) == [3.0, 3.0, 3.0, 4.0]  # the last waits for the step under way


def test_request_s_delays_the_queue_and_counts_in_ttft():
    run = cluster(1, request_s=[0.25]).run(requests(1.0))
    assert run.requests[0].ttft == pytest.approx(1.25)


def test_a_replica_knows_of_a_finish_only_when_its_step_ends():
    """r0's last step begins at 2.0 and ends at 3.0: at 2.9 its replica is not free yet."""
    run = cluster(2, "least_conn").run(requests(0.0, 2.9, 3.1))
    assert [r.request_id for r in run.by_replica[0]] == ["r0", "r2"]
    assert [r.request_id for r in run.by_replica[1]] == ["r1"]
    assert run.sent == {0: 2, 1: 1}


def test_every_replica_s_pool_is_full_again_after_the_run():
    work = with_tenants(synthetic(80, 20.0, seed=1, inputs=Fixed(30), outputs=Fixed(9)), 3, 64)
    for router in ROUTERS:
        three = cluster(3, router, maker(num_blocks=30, max_num_seqs=6))
        run = three.run(work)
        assert all(r.completed and r.output_tokens == 9 for r in run.requests)
        for replica in three.replicas:
            replica.engine.kv.check_integrity()
            assert replica.engine.kv.num_free_blocks == 30
            assert not replica.sent
            assert not replica.fresh
        assert all(load[1:] == (0, 0, 0) for load in three._board.view(1e9, [0, 1, 2])), router


def test_a_shared_prefix_is_found_in_the_engine_s_own_cache():
    work = with_tenants(requests(*[10.0 * i for i in range(8)]), 1, 64)
    aware = cluster(2, "prefix_aware")
    aware.run(work)
    hits = [replica.engine.kv.prefix_hits for replica in aware.replicas]
    assert sorted(hits) == [0, 7 * 64]


# ── failures ────────────────────────────────────────────────────────────────────────────────


def test_lost_requests_are_retried_elsewhere_from_the_start():
    run = cluster(2, failures=[Failure(0, 1.5, 9.0)]).run(requests(0.0, 0.0))
    assert ends(run) == [5.0, 3.0]  # sent again at 1.5; replica 1 takes it in at 2.0
    assert run.requests[0].ttft == 3.0  # from its first arrival
    assert (run.num_retries, run.num_lost) == (1, 1)
    assert [r.request_id for r in run.by_replica[1]] == ["r0", "r1"]


def test_or_they_fail():
    run = cluster(2, failures=[Failure(0, 1.5, 9.0)], on_failure="fail").run(requests(0.0, 0.0))
    assert [r.reason for r in run.requests] == ["error", "length"]
    assert (run.num_retries, run.num_lost) == (0, 1)


def test_a_token_of_the_step_under_way_is_never_delivered():
    """The step would end at 3.0 with the last token; the replica fails at 2.5."""
    failing = cluster(1, failures=[Failure(0, 2.5, 4.0)], on_failure="fail")
    assert failing.run(requests(0.0)).requests[0].reason == "error"
    again = cluster(1, failures=[Failure(0, 2.5, 4.0)]).run(requests(0.0))
    assert ends(again) == [7.0]
    assert again.requests[0].reason == "length"


def test_with_no_replica_up_a_request_waits_or_fails():
    down = [Failure(0, 1.0, 5.0)]
    assert ends(cluster(1, failures=down).run(requests(2.0))) == [8.0]
    run = cluster(1, failures=down, on_failure="fail").run(requests(2.0))
    assert run.requests[0].reason == "error"
    assert run.by_replica[None] == run.requests
    for_good = cluster(1, failures=[Failure(0, 1.0)]).run(requests(0.0, 2.0))
    assert [r.reason for r in for_good.requests] == ["error", "error"]


def test_a_failure_between_router_and_queue_loses_nothing():
    run = cluster(2, request_s=[1.0, 1.0], failures=[Failure(0, 0.5, 2.0)]).run(requests(0.0))
    assert ends(run) == [4.5]
    assert run.num_retries == 1


def test_a_replica_that_returns_serves_again_with_empty_caches():
    work = with_tenants(requests(0.0, 4.0, 20.0, 24.0), 1, 64)
    one = cluster(1, failures=[Failure(0, 10.0, 15.0)])
    run = one.run(work)
    assert len(one.replicas[0].engines) == 2
    assert [r.cached_tokens for r in run.requests] == [0, 64, 0, 64]


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize("on_failure", ["retry", "fail"])
def test_nothing_is_left_over_whatever_fails(policy, on_failure):
    work = synthetic(60, 2.0, seed=3, inputs=Fixed(20), outputs=Lognormal(8, 0.8, 1, 30))
    failures = [Failure(0, 3.3, 9.0), Failure(1, 5.0, 12.0), Failure(0, 14.0, 15.0), Failure(2, 8)]
    three = cluster(
        3, "least_conn", maker(policy, max_num_seqs=4), request_s=[0.2] * 3,
        failures=failures, on_failure=on_failure, load_info_age=0.5,
    )  # fmt: skip
    run = three.run(work)
    assert len(run.requests) == 60
    for replica in three.replicas:
        assert not replica.engine.has_unfinished
        replica.engine.kv.check_integrity()
    done = [r for r in run.requests if r.completed]
    assert [r.output_tokens for r in done] == [
        w.output_len for w, r in zip(work, run.requests, strict=True) if r.completed
    ]
    if on_failure == "retry":
        assert len(done) == 60
        assert run.num_retries == run.num_lost > 0
    else:
        assert sum(r.reason == "error" for r in run.requests) >= run.num_lost > 0


def test_a_request_that_can_never_be_served_is_refused_and_the_rest_goes_on():
    run = cluster(1, make=maker(num_blocks=4)).run(
        [own_request(0, 0.0, 100, 2), own_request(1, 0.0, 10, 2)]
    )
    assert [r.reason for r in run.requests] == ["refuse", "length"]


# ── reports and refusals ────────────────────────────────────────────────────────────────────


def test_a_run_s_report():
    work = synthetic(40, 5.0, seed=1)
    report = simulate_run("H100-80GB-SXM", work, tp=2)
    assert report["provenance"] == "simulated"
    assert report["completed"] == report["requests"] == 40
    assert report["output_tokens"] == sum(r.output_len for r in work)
    assert report["ttft_p50_ms"] <= report["ttft_p90_ms"] <= report["ttft_p99_ms"]
    assert report["tpot_mean_ms"] > 0
    assert 0 < report["kv_used_mean"] <= report["kv_used_max"] < 1
    assert report["mean_running"] > 0
    assert report["sim_steps_per_s"] > 0
    assert report["sim_requests_per_s"] > 0


def test_a_cluster_s_report_adds_up():
    report = simulate_cluster(
        "2xA100-80GB-SXM,H100-80GB-SXM:tp2", "least_conn", rate=20.0, requests=60, fail="1@1s-2s"
    )
    assert report["gpus"] == 4
    replicas = report["replicas"]
    assert [r["gpu"] for r in replicas] == ["A100-80GB-SXM"] * 2 + ["H100-80GB-SXM:tp2"]
    assert [r["failures"] for r in replicas] == [0, 1, 0]
    for figure in ("requests", "completed", "output_tokens", "steps"):
        assert sum(r[figure] for r in replicas) == report[figure]
    assert sum(r["sent"] for r in replicas) == 60 + report["retries"]
    assert report["completed"] == 60
    assert json.loads(json.dumps(report, allow_nan=False))["replicas"][0]["replica"] == 0


def test_requests_of_a_trace_are_served_with_its_own_lengths():
    report = simulate_run(trace="mooncake-conversation", rate=1.0, requests=12)
    assert report["completed"] == 12
    assert report["prefix_hit_rate"] > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replicas": "4xB300"}, "Unknown GPU 'B300': choose one of A100"),
        ({"router": "best"}, "Unknown router 'best'"),
        ({"trace": "azure"}, "Unknown trace 'azure'"),
        ({"rate": 0}, "The rate must be a number of requests a second > 0, got 0"),
        ({"fail": "9@1-2"}, "There is no replica 9"),
        ({"load_info_age": -1.0}, "load_info_age must be seconds ≥ 0"),
        ({"on_failure": "panic"}, "on_failure must be retry or fail"),
        ({"workload": []}, "There is no request to serve: the workload is empty."),
        ({"options": EngineOptions(model="gpt-5")}, "Unknown model 'gpt-5'"),
        ({"options": EngineOptions(policy="magic")}, "Unknown policy 'magic'"),
        ({"options": EngineOptions(preset="none")}, "Unknown engine preset 'none'"),
        ({"options": EngineOptions(model="llama-3.1-70b")}, "needs 141"),
        ({"options": EngineOptions(max_num_seqs=0)}, "max_num_seqs must be an integer ≥ 1"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_sentence(options, said):
    arguments = {"replicas": "1xA100-80GB-SXM", "rate": 4.0, "requests": 3, **options}
    with pytest.raises(ValueError, match=said) as error:
        simulate_cluster(**arguments)
    assert "\n" not in str(error.value)


def test_options_reach_the_engine():
    options = EngineOptions(
        chunked_prefill=False, max_num_seqs=3, num_blocks=5_000, policy="dynamic",
        prefix_caching=False, limits={"max_queue_delay_s": 0.2},
    )  # fmt: skip
    config = options.scheduler_config()
    assert config.max_num_batched_tokens == config.max_model_len == 131_072
    assert (config.max_num_seqs, config.max_queue_delay_s) == (3, 0.2)
    report = simulate_run("A100-80GB-SXM", synthetic(5, 1.0), options)
    assert (report["num_blocks"], report["prefix_hit_rate"]) == (5_000, None)
    assert ReplicaSpec(report["gpu"], report["tp"], report["pp"]).num_gpus == 1


def test_figures_come_from_the_core_s_definitions():
    work = synthetic(30, 5.0, seed=4)
    report = simulate_run("A100-80GB-SXM", work)
    one = Cluster([maker()], make_router("round_robin", 1))
    run = one.run(work[:5])
    by_id = {r.request_id: r for r in request_metrics(one.replicas[0].engine.trace).values()}
    assert run.requests == [by_id[w.request_id] for w in work[:5]]
    assert report["output_tok_s"] == pytest.approx(report["output_tokens"] / report["makespan_s"])


def test_a_run_that_forgets_its_steps_gives_the_same_figures():
    work = synthetic(80, 20.0, seed=6, outputs=Fixed(80))
    specs = [ReplicaSpec("A100-80GB-SXM"), ReplicaSpec("H100-80GB-SXM")]
    reports, kept = [], []
    for keep in (True, False):
        made, run, _ = run_cluster(specs, work, fail="0@1-2", keep_traces=keep)
        reports.append(cluster_report(made, run, specs))
        kept.append(sum(len(e.trace.steps) for r in made.replicas for e in r.engines))
    assert reports[0] == reports[1]
    assert kept == [reports[0]["steps"], 0]
