"""A closed and an open loop on one engine, and the tables that are made of them."""

from __future__ import annotations

import asyncio

import pytest

from minillm.bench.summary import SLO
from minillm.core.metrics import percentile
from minillm.llm import LLM
from widgets.lesson import requests_with, simulate
from widgets.loads import LoadPair
from widgets.metric_cards import (
    above,
    goodput_table,
    hidden_table,
    metric_table,
    own_table,
    queue_table,
)

SLO_MS = SLO(ttft_ms=500, tpot_ms=50)


def pair(**settings) -> LoadPair:
    return LoadPair(LLM.simulated(), users=2, requests=60, longest=12, slo=SLO_MS, **settings)


async def run(loads: LoadPair):
    loads.start()
    return await loads.finished()


@pytest.fixture(scope="module")
def result():
    return asyncio.run(run(pair(overload=2.0)))


def test_only_the_open_loop_overloads_the_engine(result):
    closed, opened = result.summaries
    assert closed["max_concurrent_requests"] == 2
    assert opened["max_concurrent_requests"] > 4
    assert opened["request_rate_sent"] > 1.3 * result.service_rate
    assert result.ratio > 3
    assert "× the closed loop’s TTFT at p99." in repr(result)
    assert "◐ simulated" in repr(result)
    assert "The histograms as a picture" in result._repr_html_()


def test_the_histograms_hold_every_value_of_both_runs():
    loads = pair()
    done = asyncio.run(run(loads))
    for lane, run_ in zip(loads.histogram.model.lanes, done.runs, strict=True):
        assert lane.found["ttft"].n == lane.found["e2e"].n == 60
        assert lane.found["itl"].n == sum(len(one.itl) for one in run_.requests)
    assert not loads._run_buttons.run.disabled
    assert loads._run_buttons.stop.disabled


def test_stop_ends_it_and_the_result_says_so():
    async def stopped():
        loads = LoadPair(LLM.simulated(), users=2, requests=20_000, slo=SLO_MS)
        loads.start()
        await asyncio.sleep(0.3)
        loads.stop()
        return await asyncio.wait_for(loads.finished(), 30)

    found = asyncio.run(stopped())
    assert found.stopped
    assert len(found.runs[0].requests) < 20_000
    assert repr(found).startswith("Stopped before the end")


def test_a_pair_is_refused_at_the_door():
    with pytest.raises(ValueError, match="2 requests a user, got 3 for 2 users"):
        LoadPair(LLM.simulated(), users=2, requests=3)
    with pytest.raises(ValueError, match="overload must be above 0, got 0"):
        LoadPair(LLM.simulated(), users=1, requests=3, overload=0)
    with pytest.raises(RuntimeError, match="call start"):
        asyncio.run(pair().finished())


def test_the_metric_table_has_a_row_a_metric_and_a_column_a_run(result):
    shown = repr(metric_table(result.named, SLO_MS))
    for name in ("TTFT, p99", "goodput", "most in the queue", "KV memory", "preemptions"):
        assert name in shown
    assert "0 of 60" in shown


def test_a_mean_hides_what_p99_shows():
    llm = LLM.simulated(max_model_len=16_384)
    requests = requests_with(llm, [60] * 6, prompts=[8] * 5 + [4000], times=[0] * 5 + [0.2])
    trace = simulate(llm, requests, "continuous", max_num_batched_tokens=4100)
    gaps = [b for step in trace.steps for b in [step.t_end - step.t_start]]
    limit = 4 * percentile(gaps, 50)
    assert above(trace, limit) == {"mean": False, "p50": False, "p99": True}
    assert "TPOT, 6 values" in repr(hidden_table({"whole": trace}))


def test_most_served_is_not_most_served_well():
    summary = {
        "median_ttft_ms": 40.0, "p99_ttft_ms": 90.0, "p99_tpot_ms": 20.0, "goodput_fraction": 1.0,
    }  # fmt: skip
    late = {**summary, "goodput_fraction": 0.1}
    shown = repr(goodput_table({
        2: {**summary, "request_throughput": 2.0, "request_goodput": 2.0},
        9: {**late, "request_throughput": 3.0, "request_goodput": 0.3},
    }, SLO_MS, "◐ simulated"))  # fmt: skip
    assert "Most served at 9.00 requests per second, most served well at 2.00." in shown


def test_ten_in_the_queue_are_a_matter_of_the_service_rate():
    shown = repr(queue_table({"slow": 2.0, "quick": 40.0, "none": None}))
    assert "wait 5.00\u2009s" in shown
    assert "wait 250\u2009ms" in shown
    assert "at most 20" in shown


def test_right_functions_agree_with_the_course_s_and_stubs_are_shown_as_they_are(result):
    from grading.mutants.lesson_09 import RIGHT, STUBS

    for own in RIGHT:
        shown = repr(own_table(result.runs[1], own, SLO_MS))
        rows = [line.split("  ") for line in shown.splitlines()[2:6]]
        for row in rows:
            _, mine, right = (cell.strip() for cell in row if cell.strip())
            assert mine == right
    assert "n/a" in repr(own_table(result.runs[1], STUBS[1], SLO_MS))
