"""The tab Compare: sides, titles, and both runs."""

from __future__ import annotations

import time

import pytest

from minillm.core import drive
from widgets.dashboard.compare import CompareTab
from widgets.dashboard.compare_model import WORKLOADS, Side, arrivals, titles

GPU = "A100-80GB-SXM"


def test_titles_say_what_differs():
    assert titles(Side("static"), Side("continuous")) == ["Static", "Continuous"]
    assert titles(Side(max_num_seqs=4), Side(max_num_seqs=16)) == ["4 slots", "16 slots"]
    assert titles(Side(chunked="off"), Side()) == ["prompts whole", "prompts in chunks"]
    assert titles(Side(), Side()) == ["A: Continuous", "B: Continuous"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_workload_is_served_to_its_end(workload):
    requests = arrivals(workload, 6, 20)
    engine = Side().engine(GPU)
    list(drive(engine, requests))
    ended = [event for event in engine.trace.events if event.event == "finish"]
    assert len(ended) == 6


def test_whole_prompts_fit_into_a_step():
    engine = Side(chunked="off", max_num_batched_tokens=64).engine(GPU)
    list(drive(engine, arrivals("long", 6, 20)))
    longest = max(row.n_tokens for step in engine.trace.steps for row in step.rows)
    assert longest == 3000


def test_an_unknown_workload_is_refused():
    with pytest.raises(ValueError, match="'odd': choose one of mixed"):
        arrivals("odd", 3, 1)


def test_both_sides_run_and_their_figures_stand_below():
    tab = CompareTab()
    tab.form.set(count=8, pace=100.0)
    assert tab.start()
    assert "run" in tab.form.off
    assert tab.session.join(60)
    end = time.monotonic() + 10
    while not tab.table.value and time.monotonic() < end:
        time.sleep(0.02)
    assert "tokens per second" in tab.timeline.headline or "sooner" in tab.timeline.headline
    assert "Static" in tab.table.value
    assert "Continuous" in tab.table.value
    assert "run" not in tab.form.off
    tab.close()
