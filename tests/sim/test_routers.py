"""Routers: nginx's sequences, ties, choices of two, prefixes."""

from __future__ import annotations

from collections import Counter

import pytest

from minillm.sim.cluster_spec import Failure, ReplicaSpec, parse_failures, parse_replicas
from minillm.sim.load_board import LoadBoard
from minillm.sim.routers import (
    ROUTERS,
    Load,
    PrefixIndex,
    SmoothRoundRobin,
    make_router,
    prefix_hashes,
)


def loads(*connections, prefill=None):
    prefill = prefill or [0] * len(connections)
    return [Load(i, c, p, 0) for i, (c, p) in enumerate(zip(connections, prefill, strict=True))]


def picks(router, seen, count):
    return [router.choose((1,) * 10, seen) for _ in range(count)]


def test_smooth_weighted_round_robin_is_nginx_s():
    turn = SmoothRoundRobin([5, 1, 1])
    assert [turn.choose([0, 1, 2]) for _ in range(7)] == [0, 0, 1, 0, 2, 0, 0]
    even = SmoothRoundRobin([1, 1, 1])
    assert [even.choose([0, 1, 2]) for _ in range(6)] == [0, 1, 2, 0, 1, 2]


def test_round_robin_is_blind_to_load_and_leaves_out_who_is_down():
    router = make_router("round_robin", 3)
    assert picks(router, loads(9, 0, 0), 6) == [0, 1, 2, 0, 1, 2]
    up = [Load(0, 0, 0, 0), Load(2, 0, 0, 0)]
    assert Counter(picks(router, up, 10)) == {0: 5, 2: 5}


def test_least_conn_counts_per_weight_and_breaks_ties_in_turn():
    assert picks(make_router("least_conn", 3), loads(2, 1, 3), 2) == [1, 1]
    assert picks(make_router("least_conn", 3), loads(1, 0, 0), 4) == [1, 2, 1, 2]
    weighted = make_router("least_conn", 2, weights=[3, 1])
    assert weighted.choose((1,), loads(2, 1)) == 0  # 2/3 is less than 1
    assert Counter(picks(weighted, loads(0, 0), 8)) == {0: 6, 1: 2}


def test_power_of_two_never_takes_the_busiest_and_spreads():
    chosen = Counter(picks(make_router("power_of_two", 4, seed=1), loads(0, 1, 2, 3), 2_000))
    assert chosen[3] == 0
    assert chosen[0] > chosen[1] > chosen[2] > 0
    assert picks(make_router("power_of_two", 4), loads(7), 1) == [0]


def test_random_follows_weights_and_its_seed():
    router = make_router("random", 2, weights=[3, 1], seed=5)
    chosen = picks(router, loads(0, 0), 4_000)
    assert Counter(chosen)[0] == pytest.approx(3_000, rel=0.05)
    assert picks(make_router("random", 2, weights=[3, 1], seed=5), loads(0, 0), 50) == chosen[:50]
    assert picks(make_router("random", 2, weights=[3, 1], seed=6), loads(0, 0), 50) != chosen[:50]


def test_least_tokens_looks_at_prompts_to_be_read_then_at_connections():
    router = make_router("least_tokens", 3)
    assert router.choose((1,), loads(0, 5, 3, prefill=[900, 0, 0])) == 2
    assert router.choose((1,), loads(0, 5, 3, prefill=[10, 20, 30])) == 0


def prompt(tenant, tail, length=640):
    return (tenant,) * length + (tail,) * 64


def test_prefix_aware_follows_a_known_prefix_unless_imbalanced():
    router = make_router("prefix_aware", 3)
    first = router.choose(prompt(1, 1), loads(0, 0, 0))
    others = [i for i in range(3) if i != first]
    busy = [4 if i == first else 0 for i in range(3)]
    assert router.choose(prompt(1, 2), loads(*busy)) == first
    assert router.choose(prompt(2, 3), loads(*busy)) in others
    far = [40 if i == first else 0 for i in range(3)]
    assert router.choose(prompt(1, 4), loads(*far)) in others


def test_prefix_aware_does_not_follow_a_short_match():
    router = make_router("prefix_aware", 2)
    first = router.choose(prompt(1, 1, length=64), loads(0, 0))
    busy = loads(*[1 if i == first else 0 for i in range(2)])
    assert router.choose((1,) * 64 + (9,) * 640, busy) != first


def test_prefix_load_weighs_the_cache_against_the_queue():
    router = make_router("prefix_load", 2)
    first = router.choose(prompt(1, 1), loads(0, 0))
    other = 1 - first

    def queue(tokens):
        return loads(0, 0, prefill=[tokens if i == first else 0 for i in range(2)])

    assert router.choose(prompt(1, 2), queue(300)) == first
    assert router.choose(prompt(1, 3), queue(3_000)) == other


def test_a_restarted_replica_s_prefixes_are_forgotten():
    for name in ("prefix_aware", "prefix_load"):
        router = make_router(name, 2)
        first = router.choose(prompt(1, 1), loads(0, 0))
        busy = loads(*[1 if i == first else 0 for i in range(2)], prefill=[0, 0])
        router.forget(first)
        router.forget(1 - first)
        assert router.choose(prompt(1, 2), busy) == 1 - first


def test_the_prefix_index_forgets_the_oldest_and_keeps_beginnings():
    index = PrefixIndex(10 * 64)
    old, new = prefix_hashes((1,) * 512), prefix_hashes((2,) * 512)
    assert len(old) == 8
    index.add(old)
    assert index.match(old) == 512
    index.add(new)
    assert index.match(new) == 512
    assert index.match(old) == 128


@pytest.mark.parametrize("name", sorted(ROUTERS))
def test_one_replica_gets_everything(name):
    router = make_router(name, 1)
    assert picks(router, loads(3), 4) == [0] * 4


def test_wrong_routers_are_refused():
    with pytest.raises(ValueError, match="Unknown router 'best': choose one of round_robin, ran"):
        make_router("best", 2)
    with pytest.raises(ValueError, match="2 replicas need as many weights > 0"):
        make_router("least_conn", 2, weights=[1])
    with pytest.raises(ValueError, match="at least 1 replica"):
        make_router("random", 0)


def test_stale_load_information_is_late_by_its_age():
    board = LoadBoard(2, age=1.0)
    board.change(0.0, 0, connections=1, prefill=5, kv=5)
    board.change(0.5, 0, connections=1, prefill=7, kv=7)
    assert board.view(0.9, [0, 1])[0].connections == 0
    assert board.view(1.0, [0, 1])[0] == Load(0, 1, 5, 5)
    assert board.view(1.5, [0])[0] == Load(0, 2, 12, 12)
    board.clear(2.0, 0)
    assert board.view(2.9, [0])[0].connections == 2
    assert board.view(3.0, [0])[0].connections == 0
    live = LoadBoard(1)
    live.change(0.0, 0, connections=1)
    assert live.view(0.0, [0])[0].connections == 1


# ── how a cluster is written ────────────────────────────────────────────────────────────────


def test_replicas_are_parsed():
    assert parse_replicas("2xA100-80GB-SXM:tp4, H100-80GB-SXM:tp2:pp2") == [
        ReplicaSpec("A100-80GB-SXM", 4),
        ReplicaSpec("A100-80GB-SXM", 4),
        ReplicaSpec("H100-80GB-SXM", 2, 2),
    ]
    assert str(ReplicaSpec("H100-80GB-SXM", 2, 3)) == "H100-80GB-SXM:tp2:pp3"
    assert len(parse_replicas("16xRTX4090")) == 16


@pytest.mark.parametrize(
    "text",
    ["", "4x", "4 A100", "4xA100,", "4xA100:dp2", "0xA100", "4xA100:tp0", "-1xA100", "2000xA100"],
)
def test_wrong_replicas_are_refused(text):
    with pytest.raises(ValueError, match="replicas") as error:
        parse_replicas(text)
    assert "\n" not in str(error.value)


def test_failures_are_parsed():
    assert parse_failures("2@30s-60s,0@1.5-2, 1@9s", 3) == [
        Failure(0, 1.5, 2.0),
        Failure(1, 9.0, None),
        Failure(2, 30.0, 60.0),
    ]
    assert parse_failures("0@1-2,0@2-3", 1) == [Failure(0, 1, 2), Failure(0, 2, 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "Cannot read the failure '2'"),
        ("a@1-2", "Cannot read the failure"),
        ("1@1..2-3", "Cannot read the times"),
        ("3@1-2", "no replica 3: the 3 replicas are numbered 0 to 2"),
        ("1@5-5", "down from 5 s to 5 s"),
        ("1@5-4", "down from 5 s to 4 s"),
        ("1@1-5,1@4-6", "Replica 1 cannot fail at 4 s: it is down then"),
        ("1@1,1@4-6", "Replica 1 cannot fail at 4 s"),
    ],
)
def test_wrong_failures_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        parse_failures(text, 3)
