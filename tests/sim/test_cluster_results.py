"""What the cluster shows a class: which router helps when. The fast ones are small versions.

The slow ones hold this simulator against an earlier prototype's results (one seed, TTFT of
Llama-3.1-8B): the same order, and the size within 30 % unless the test says why not.
"""

from __future__ import annotations

import pytest

from minillm.sim.simulate import make_workload, simulate_cluster
from minillm.sim.workload import Fixed, Lognormal, synthetic, with_documents, with_tenants


def ttft(replicas, routers, workload, q, **options) -> dict[str, float]:
    """That percentile of TTFT by router, in seconds; every request must have been served."""
    found = {}
    for router in routers:
        report = simulate_cluster(replicas, router, workload, **options)
        assert report["completed"] == report["requests"]
        found[router] = report[f"ttft_p{q}_ms"] / 1e3
    return found


def near(value, reference, within=0.3):
    return reference * (1 - within) <= value <= reference * (1 + within)


# ── small and fast ──────────────────────────────────────────────────────────────────────────


def test_old_load_information_makes_least_conn_herd():
    work = make_workload(rate=48.0, requests=200)
    routers = ("least_conn", "power_of_two", "round_robin")
    old = ttft("8xA100-80GB-SXM", routers, work, 50, load_info_age=1.0)
    assert old["least_conn"] > 3 * old["power_of_two"] > 3 * old["round_robin"]
    fresh = ttft("8xA100-80GB-SXM", ["least_conn"], work, 50)
    assert fresh["least_conn"] < 0.3 * old["least_conn"]


def test_a_shared_system_prompt_pays_when_its_replica_is_found_again():
    work = synthetic(200, 16.0, inputs=Fixed(400), outputs=Fixed(20))
    work = with_tenants(work, 100, 4_096)
    blind = simulate_cluster("4xA100-80GB-SXM", "round_robin", work)
    aware = simulate_cluster("4xA100-80GB-SXM", "prefix_aware", work)
    assert aware["prefix_hit_rate"] > 1.5 * blind["prefix_hit_rate"]
    assert aware["ttft_p50_ms"] < 0.6 * blind["ttft_p50_ms"]


def test_unequal_replicas_need_a_router_that_sees_load():
    work = make_workload(rate=24.0, requests=250)
    p90 = ttft("A100-80GB-SXM,H100-80GB-SXM", ("round_robin", "least_conn"), work, 90)
    assert p90["least_conn"] < 0.75 * p90["round_robin"]


# ── at the size of the reference ────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_equal_replicas_gain_little_from_least_conn():
    work = make_workload(rate=24.0, requests=3_000)
    reference = {
        "least_tokens": 0.454, "round_robin": 0.642, "least_conn": 0.647, "power_of_two": 0.717,
        "random": 0.844,
    }  # fmt: skip
    p99 = ttft("4xA100-80GB-SXM", reference, work, 99)
    assert all(near(p99[router], reference[router]) for router in reference), p99
    assert p99["least_tokens"] < 0.8 * min(p99["round_robin"], p99["least_conn"])
    assert p99["least_conn"] < p99["power_of_two"] < p99["random"]
    assert p99["round_robin"] < p99["power_of_two"]


@pytest.mark.slow
def test_unequal_replicas_overflow_under_round_robin():
    """Two A100 get 20 requests a second and serve fewer: their queue grows as long as one looks.

    The reference, 23.3 s, comes after about 130 s of load.
    """
    work = make_workload(rate=40.0, requests=5_200)
    p90 = ttft("2xA100-80GB-SXM,2xH100-80GB-SXM", ("round_robin", "least_conn"), work, 90)
    assert near(p90["least_conn"], 0.20), p90
    assert near(p90["round_robin"], 23.3), p90


@pytest.mark.slow
def test_load_information_one_second_old():
    work = make_workload(rate=96.0, requests=3_000)
    reference = {"least_conn": 2.8, "power_of_two": 0.16, "round_robin": 0.10}
    p50 = ttft("16xA100-80GB-SXM", reference, work, 50, load_info_age=1.0)
    assert all(near(p50[router], reference[router]) for router in reference), p50


@pytest.mark.slow
def test_long_documents_block_who_stands_behind_them():
    """The reference's order at its 16 requests a second; its sizes at 12.

    At 16 a size says little, for four A100 are then close to all they can do: over six drawings of
    *which* requests are documents, p90 lies at 2.8 to 13.2 s under round_robin, 2.3 to 9.4 under
    least_conn and 1.2 to 7.0 under least_tokens; other Poisson arrivals alone make 3.2 or 6.6 s
    of round_robin, and a budget of 8,192 tokens in place of 2,048 makes 2.9 of 4.2. The
    reference's one seed (1.91, 1.43, 0.27) fits a drawing of less work. The order never changes.
    At 12 the queue is short, and the sizes meet; so does least_tokens (0.34 s) for those who are
    not documents themselves: 5 in 100 are, and no router shortens their own prefill of 1 to 2 s.
    """
    routers = ("round_robin", "least_conn", "least_tokens")
    for rate in (12.0, 16.0):
        work = with_documents(make_workload(rate=rate, requests=2_000), 0.05)
        p90 = ttft("4xA100-80GB-SXM", routers, work, 90)
        assert p90["round_robin"] > p90["least_conn"] > 1.5 * p90["least_tokens"], p90
        if rate == 12.0:
            assert near(p90["round_robin"], 1.91), p90
            assert near(p90["least_conn"], 1.43), p90


@pytest.mark.slow
def test_two_hundred_tenants():
    """prefix_aware as in the reference (91 % hits, 44 ms).

    Blind routing hits less here (45 % after 6,000 requests; reference 57 %). An LRU list of 113
    prefixes, what 452k tokens of KV hold if nothing else is cached, hits 56 % of draws from 200
    in the long run: the reference's figure. The engine's cache holds each request's question and
    answer too, which leaves room for about 101: 50 %, and 47 % in the first 750 draws, which is
    what each of the 8 replicas sees.
    """
    work = synthetic(
        6_000, 32.0, inputs=Lognormal(100, 0.8, 8, 2_000), outputs=Lognormal(100, 0.8, 1, 1_000)
    )
    work = with_tenants(work, 200, 4_000)
    blind = simulate_cluster("8xA100-80GB-SXM", "round_robin", work)
    aware = simulate_cluster("8xA100-80GB-SXM", "prefix_aware", work)
    assert 0.40 < blind["prefix_hit_rate"] < 0.57
    assert aware["prefix_hit_rate"] > 0.85
    assert near(aware["ttft_p50_ms"], 44.0)
    assert near(blind["ttft_p50_ms"], 274.0, within=0.5)
