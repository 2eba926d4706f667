"""Histograms of latency: values from a trace, percentiles, bars, words, a static figure."""

from __future__ import annotations

import csv
import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.core import Trace, summarize
from minillm.core.metrics import percentile
from tests.widgets.runs import run
from widgets.distribution import EXACT, Distribution, bars, bin_edge
from widgets.histogram import Histogram
from widgets.histogram_drawing import edges
from widgets.histogram_model import HistogramModel, floored

LATENCY = st.floats(1e-6, 1e4)


def filled(values) -> Distribution:
    found = Distribution()
    for value in values:
        found.add(value)
    return found


# ── a distribution ──────────────────────────────────────────────────────────────────────────


@given(st.lists(LATENCY, min_size=1, max_size=200), st.floats(0, 100))
def test_percentiles_of_few_values_are_exact(values, q):
    assert filled(values).percentiles(q) == [percentile(values, q)]


@given(st.lists(LATENCY, min_size=1, max_size=200), st.sampled_from([1, 50, 95, 99, 100]))
def test_percentiles_from_bins_are_right_to_a_bin(values, q):
    found = filled(values)
    found._values = None  # as after EXACT values
    ordered = sorted(values)
    rank = (len(values) - 1) * q / 100
    low, high = ordered[math.floor(rank)], ordered[min(math.floor(rank) + 1, len(values) - 1)]
    assert low * 0.985 <= found.percentiles(q)[0] <= high * 1.015


def test_many_values_take_little_room():
    found = filled(0.01 + 1e-7 * i for i in range(EXACT + 5))
    assert not found.exact
    assert found._values is None
    assert len(found.bins()) < 20
    assert found.n == EXACT + 5
    assert found.percentiles(50)[0] == pytest.approx(0.0105, rel=0.01)
    assert found.share_within(0.0105) == pytest.approx(0.5, abs=0.02)


def test_shares_count_the_limit_itself():
    assert filled([1.0, 2.0, 3.0]).share_within(2.0) == pytest.approx(2 / 3)
    assert Distribution().share_within(1) is None
    assert Distribution().percentiles(50) == [None]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_what_is_no_latency_is_refused(value):
    with pytest.raises(ValueError, match="seconds ≥ 0"):
        Distribution().add(value)


@given(st.lists(LATENCY, max_size=100), st.booleans(), st.integers(2, 60))
def test_bars_hold_every_value_inside_the_axis(values, log, count):
    found = filled(values)
    low, high = (1e-7, 1e5) if log else (0.0, 2e4)
    counts = bars(found.bins(), edges(low, high, log, count))
    assert sum(counts) == pytest.approx(found.n)
    assert all(each >= 0 for each in counts)


def test_what_lies_beyond_the_axis_is_not_in_a_bar():
    counts = bars(filled([0.1, 0.1, 9.0]).bins(), edges(0, 1, False, 10))
    assert sum(counts) == pytest.approx(2)
    assert counts[0] + counts[1] == pytest.approx(2)
    assert bin_edge(-200) == pytest.approx(0.1)


# ── from a trace ────────────────────────────────────────────────────────────────────────────


def test_it_says_what_the_metrics_say():
    trace = run("continuous")
    model = HistogramModel()
    model.reset(0, trace.header)
    for record in trace.records:
        model.extend(0, [record])
    summary = summarize(trace)
    for name in ("ttft", "itl", "e2e"):
        p50, p99 = model.lanes[0].found[name].percentiles(50, 99)
        assert p50 * 1e3 == pytest.approx(getattr(summary, f"{name}_p50_ms"))
        assert p99 * 1e3 == pytest.approx(getattr(summary, f"{name}_p99_ms"))


def test_a_finished_request_is_forgotten():
    trace = run("static")
    model = HistogramModel()
    model.extend(0, trace.records)
    assert model.lanes[0]._last == {}
    assert model.lanes[0]._arrived == {}


def test_a_request_of_one_token_has_a_ttft_and_no_gap():
    model = HistogramModel()
    model.extend(0, run("continuous", [(0.0, 8, 1), (0.1, 8, 1)]).records)
    found = model.as_dict()["lanes"][0]["metrics"]
    assert (found["ttft"]["n"], found["itl"]["n"], found["e2e"]["n"]) == (2, 0, 2)


def test_dead_rows_and_refused_requests_give_no_latency():
    from tests.widgets.golden import records

    model = HistogramModel()
    model.extend(0, records())
    found = model.as_dict()["lanes"][0]["metrics"]
    assert (found["ttft"]["n"], found["itl"]["n"], found["e2e"]["n"]) == (2, 5, 2)


# ── words ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.9996, "99.9\u2009%"), (1.0, "100\u2009%"), (0.859, "85\u2009%"), (0.0, "0\u2009%")],
)
def test_shares_are_never_rounded_up(share, text):
    assert floored(share) == text


def test_few_values_have_no_p99():
    model = HistogramModel()
    model.extend(0, run("static").records)
    row = model.table()[1][0]
    assert row[4] == "n = 14, too few for p99"
    assert "half of 14" in model.headline().lower()
    assert "slowest" in model.headline()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lanes": 3}, "1 or 2 runs"),
        ({"slo_ms": {"tpot": 5}}, "one of ttft, itl, e2e"),
        ({"slo_ms": {"ttft": 0}}, "above 0"),
        ({"slo_ms": {"ttft": math.nan}}, "above 0"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        HistogramModel(**settings)


# ── the widget ──────────────────────────────────────────────────────────────────────────────


def test_a_growing_trace_is_fed_again_and_again():
    whole = run("continuous")
    growing, plot = Trace(whole.header), Histogram()
    for record in whole.records:
        growing.add(record)
        plot.feed(0, growing)
        plot.publish()
    plot.finish(0)
    assert plot.data["lanes"][0]["metrics"]["e2e"]["n"] == 14
    assert plot.data["lanes"][0]["header"]["provenance"] == "simulated"
    plot.feed(0, run("static"))
    plot.finish(0)
    assert plot.data["lanes"][0]["metrics"]["e2e"]["n"] == 14  # a new run, not one more


def test_a_new_run_drops_the_words_of_the_last_one():
    plot = Histogram()
    plot.feed(0, run("static"))
    plot.conclude()
    plot.set_headline("Stopped.")
    plot.feed(0, run("continuous"))
    plot.conclude()
    assert plot.headline.startswith("Half of 14")


def test_publishing_is_paced_and_nothing_is_lost():
    plot, sent = Histogram(), []
    plot.observe(lambda change: sent.append(change["new"]), names="data")
    for i in range(200):
        plot.add("itl", 0.01 + i / 1e4)
        plot.publish()
    assert len(sent) < 20
    plot.finish()
    assert sent[-1]["lanes"][0]["metrics"]["itl"]["n"] == 200


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_it_freezes(scale, tmp_path):
    plot = Histogram(2, slo_ms={"ttft": 500}, scale=scale)
    with pytest.raises(ValueError, match="nothing to show"):
        plot.freeze()
    plot.feed(0, run("static"))
    plot.feed(1, run("continuous"))
    plot.conclude()
    figure = plot.freeze()
    ElementTree.fromstring(figure.svg)
    assert "square root" in figure.svg
    assert "SLO 500" in figure.svg
    assert figure.table.count("<tr>") == 1 + 6
    assert "Static, Time to first token" in figure.alt
    rows = list(csv.DictReader(plot.to_csv().splitlines()))
    assert rows[0]["within SLO"] == "42\u2009%"
    assert plot.save_png(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@given(st.lists(st.tuples(st.floats(1e-6, 1e3), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_value_many_times_is_that_many_values(values):
    together, apart = Distribution(), Distribution()
    for seconds, count in values:
        together.add(seconds, count)
        for _ in range(count):
            apart.add(seconds)
    assert together.n == apart.n
    assert together.bins() == apart.bins()
    assert together.percentiles(50, 99) == apart.percentiles(50, 99)
