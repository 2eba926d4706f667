"""The cluster's history: a simulated one replayed, a running one sampled, the widget and words."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from minillm.core import CacheConfig, EngineConfig, LLMEngine, SchedulerConfig
from minillm.sim import CostModel, SimulatedRunner
from minillm.sim.cluster import Cluster
from minillm.sim.cluster_spec import Failure
from minillm.sim.routers import make_router
from minillm.sim.workload import Fixed, synthetic
from tests.widgets.golden import FOLDER, cluster_golden
from widgets.cluster_model import (
    HEADER,
    LOAD,
    ClusterHeader,
    ClusterHistory,
    Load,
    simulated_history,
)
from widgets.cluster_view import ClusterView, cluster_figure, cluster_headline

TOKEN_S = CostModel(step_s=0.1, token_s=0.0, context_s=0.0)


@pytest.fixture(scope="module")
def served():
    """Three replicas of four slots; replica 1 is down from 3 to 6 s."""
    config = EngineConfig(CacheConfig(64), SchedulerConfig(max_num_seqs=4), policy="continuous")
    cluster = Cluster(
        [lambda: LLMEngine(config, SimulatedRunner(TOKEN_S))] * 3, make_router("least_conn", 3),
        failures=[Failure(1, 3.0, 6.0)],
    )  # fmt: skip
    run = cluster.run(synthetic(90, 9.0, seed=4, inputs=Fixed(20), outputs=Fixed(12)))
    return cluster, run


def test_a_simulated_cluster_is_replayed_with_its_own_counts(served):
    cluster, run = served
    history = simulated_history(cluster, ["a", "b", "c"], ticks=300)
    assert len(history.ticks) == 301
    assert history.done
    last = history.ticks[-1][1]
    assert [load.sent for load in last] == [run.sent[i] for i in range(3)]
    for replica in range(3):
        steps = [s for e in cluster.replicas[replica].engines for s in e.trace.steps]
        most = max(load[replica].running + load[replica].waiting for _, load in history.ticks)
        assert most == max(len(s.raw_rows) + s.waiting for s in steps)
        assert all(0 <= load[replica].running <= 4 for _, load in history.ticks)
        assert all(0 <= load[replica].kv <= 1 for _, load in history.ticks)
    assert history.header.router == "least_conn"
    assert history.header.provenance == "simulated"
    assert history.header.slots == (4, 4, 4)


def test_a_failure_is_seen_with_what_it_cost_and_the_return(served):
    cluster, run = served
    history = simulated_history(cluster, ticks=300)
    assert [(e.t, e.replica, e.kind) for e in history.events] == [
        (3.0, 1, "fail"), (6.0, 1, "return"),
    ]  # fmt: skip
    assert history.events[0].lost == run.num_lost > 0
    for t, loads in history.ticks:
        assert loads[1].up == (not 3.0 <= t < 6.0)
        if not loads[1].up:
            assert loads[1][:2] == (0, 0)
    text, lead = cluster_headline(history)
    assert text.startswith(f"Replica 1 fails at 3.00\u2009s with {run.num_lost} requests on it.")
    assert f"Share of {sum(run.sent.values())} requests sent" in lead


def test_without_kept_traces_it_says_what_to_do():
    config = EngineConfig(CacheConfig(64), SchedulerConfig(max_num_seqs=4), policy="continuous")
    cluster = Cluster(
        [lambda: LLMEngine(config, SimulatedRunner(TOKEN_S))], make_router("least_conn", 1),
        keep_traces=False,
    )  # fmt: skip
    cluster.run(synthetic(5, 9.0, seed=4, inputs=Fixed(20), outputs=Fixed(3)))
    with pytest.raises(ValueError, match="keep_traces=True"):
        simulated_history(cluster)


@dataclass
class Status:
    """What a running cluster says of a replica."""

    state: str
    running: int | None = 0
    waiting: int | None = 0
    kv_usage: float | None = None


def test_a_running_cluster_is_sampled_and_its_failures_are_noticed():
    history = ClusterHistory(ClusterHeader(("a", "b"), "least_conn", "measured"))
    history.sample(0.0, [Status("up", 1), Status("up", 3, 2, 0.5)])
    history.sample(0.5, [Status("up", 1), Status("down", None, None)])
    history.sample(1.0, [Status("up", 4), Status("starting", None, None)])
    history.sample(1.5, [Status("up", 2), Status("up")])
    assert [(e.t, e.replica, e.kind, e.lost) for e in history.events] == [
        (0.5, 1, "fail", 5), (1.5, 1, "return", None),
    ]  # fmt: skip
    assert history.ticks[1][1][1] == Load(None, None, None, False)
    assert "fails at 500\u2009ms with 5 requests" in cluster_headline(history)[0]


def test_golden_bytes_and_layout():
    text, data = cluster_golden()
    assert data == (FOLDER / "cluster.bin").read_bytes()
    assert json.loads(json.dumps(text)) == json.loads((FOLDER / "cluster.json").read_text("utf-8"))
    assert HEADER.unpack_from(data)[:4] == (b"MLC1", 1, 0, 2)
    assert len(data) == 20 + 3 * (8 + 2 * LOAD.size)


def test_messages_go_on_where_a_view_stands_and_old_ticks_go():
    history = ClusterHistory(ClusterHeader(("a",), "random", "measured"), 4)
    for i in range(10):
        history.add(float(i), [Load(i, 0, 0.0, True)])
    assert (history.first, history.next) == (6, 10)
    message, data = history.message(8)
    assert (message["kind"], HEADER.unpack_from(data)[5:]) == ("delta", (8, 2))
    assert "header" not in message
    for unknown in (None, 2, 11):
        message, data = history.message(unknown)
        assert (message["kind"], HEADER.unpack_from(data)[5:]) == ("snapshot", (6, 4))


def test_what_cannot_be_is_refused_with_the_numbers():
    history = ClusterHistory(ClusterHeader(("a", "b"), "random", "measured"))
    with pytest.raises(ValueError, match="2 replicas need as many, got 1"):
        history.add(0.0, [Load(0, 0, 0.0, True)])
    history.add(2.0, [Load(0, 0, 0.0, True)] * 2)
    with pytest.raises(ValueError, match="at 1 s came after one at 2 s"):
        history.add(1.0, [Load(0, 0, 0.0, True)] * 2)
    with pytest.raises(ValueError, match="at least 1 replica"):
        ClusterHistory(ClusterHeader((), "random", "measured"))


class Sent(ClusterView):
    """A ClusterView that keeps what it sends."""

    def send(self, content, buffers=None):
        self.sent = [*getattr(self, "sent", []), (content, buffers)]


def test_views_get_each_tick_once_and_a_late_one_everything(served):
    view = Sent()
    history = view.watch(ClusterHeader(("a", "b"), "least_conn", "measured"))
    for i in range(6):
        view.sample(0.1 * i, [Status("up", i), Status("up")])
        view.publish()
    assert view.publish() == 0
    counts = [HEADER.unpack_from(buffers[0])[5:] for _, buffers in view.sent]
    assert counts == [(0, 0), *((i, 1) for i in range(6))]
    view.sent = []
    view._handle_custom_msg({"hello": 4, "stream": history.stream}, [])
    view._handle_custom_msg({"hello": 0, "stream": None}, [])
    view._handle_custom_msg({"hello": "x"}, [])
    assert [message["kind"] for message, _ in view.sent] == ["delta", "snapshot"]
    view.finish()
    assert view.sent[-1][0]["done"] is True


def test_replay_concludes_and_freezes(served):
    view = Sent()
    with pytest.raises(ValueError, match=r"call replay\(\) or watch\(\) first"):
        view.freeze()
    text = view.replay(served[0], ["A100", "A100", "H100"])
    assert view.headline == text
    figure = view.freeze()
    assert figure.table.count("<tr>") == 4
    assert "1 failure" in figure.table
    assert "simulated" in figure.alt
    assert "hatch" in figure.svg
    assert cluster_figure(view.history).svg == figure.svg
