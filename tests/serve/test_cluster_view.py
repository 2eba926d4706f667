"""The cluster's load in words and in a table, without processes."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest

from minillm.cli import cluster_view
from minillm.cli.cluster_view import HEADING, Table, View, brief, row
from minillm.serve.replica import ReplicaStatus
from minillm.serve.replicas import ClusterEvent

UP = ReplicaStatus(
    index=0, name="simulated H200-141GB-SXM:tp4", url="http://127.0.0.1:8101", state="up", pid=7,
    running=12, waiting=3, kv_usage=0.426, tokens_per_s=12345.6, finished=1000, restarts=0,
    retry_in_s=None, last_end=None,
)  # fmt: skip
DOWN = replace(
    UP, index=1, url="http://127.0.0.1:8102", state="down", pid=None, running=None, waiting=None,
    kv_usage=None, tokens_per_s=None, restarts=4, retry_in_s=7.8, last_end="was ended by SIGKILL",
)  # fmt: skip
EVENTS = [ClusterEvent(0.0, f"Replica 1 event {i}.") for i in range(9)]


@pytest.fixture
def cluster() -> SimpleNamespace:
    return SimpleNamespace(status=lambda: [UP, DOWN], events=list(EVENTS))


def test_what_cannot_be_read_is_no_zero():
    assert len(row(UP)) == len(row(DOWN)) == len(HEADING)
    assert row(UP)[3:] == ("up", "12", "3", "43%", "12,346", "1,000", "0")
    assert row(DOWN)[3:] == ("down, 8 s", "–", "–", "–", "–", "1,000", "4")
    assert brief(UP) == "0 up: 12 run, 3 wait, KV 43%, 12,346 tok/s, 1,000 done"
    assert brief(DOWN) == "1 down, 8 s"


def test_each_event_is_a_line_once_and_the_load_only_when_it_changed(cluster, capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cluster_view.time, "monotonic", lambda: now[0])
    with View(cluster) as view:
        for _ in range(3):
            view.update()
            now[0] += cluster_view.LINE_S
        cluster.events.append(ClusterEvent(0.0, "One more."))
    lines = capsys.readouterr().out.splitlines()
    assert [line[9:] for line in lines if "event" in line] == [event.text for event in EVENTS]
    assert lines[-1].endswith("One more.")
    loads = [line for line in lines if "12 run" in line]
    assert len(loads) == 1
    assert loads[0].endswith(f"{brief(UP)} | {brief(DOWN)}")


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_and_shows_the_latest_events(cluster, width: int):
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=width)
    console.print(Table(cluster)._draw())
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    for word in [*HEADING, "8101", "12,346", "down, 8 s", "H200"]:
        assert word in text
    shown = [event.text for event in EVENTS if event.text in text]
    assert shown == [event.text for event in EVENTS[-cluster_view.SHOWN_EVENTS :]]
