"""One definition of each figure, checked against numpy and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.core import SamplingParams, percentile, request_metrics, summarize
from minillm.core.metrics import RequestMetrics, goodput
from tests.core.helpers import make_engine, run_all

floats = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


@given(floats, st.floats(0, 100))
def test_percentile_is_numpys_default(values, q):
    numpy = pytest.importorskip("numpy")
    assert percentile(values, q) == pytest.approx(numpy.percentile(values, q), abs=1e-6)


def test_percentile_edges():
    assert percentile([], 50) is None
    assert percentile([3.0], 99) == 3.0
    assert percentile([1, 2], 50) == 1.5
    with pytest.raises(ValueError, match="between 0 and 100, got 101"):
        percentile([1], 101)


def test_a_requests_times_on_the_virtual_clock():
    engine = make_engine(max_num_batched_tokens=8, max_num_seqs=1)
    engine.add_request("a", [1] * 20, SamplingParams(max_tokens=3, ignore_eos=True))
    engine.add_request("b", [1], SamplingParams(max_tokens=1, ignore_eos=True), arrival_time=0.0)
    run_all(engine)
    a, b = request_metrics(engine.trace).values()
    assert (a.queue_time, a.ttft, a.itl, a.tpot, a.e2e) == (0.0, 3.0, [1.0, 1.0], 1.0, 5.0)
    assert (b.queue_time, b.ttft, b.itl, b.tpot, b.e2e) == (5.0, 6.0, [], None, 6.0)


def test_a_summary_in_milliseconds_and_shares():
    engine = make_engine(max_num_seqs=2)
    for name in "abc":
        engine.add_request(name, [1], SamplingParams(max_tokens=2, ignore_eos=True))
    run_all(engine)
    summary = summarize(engine.trace)
    assert (summary.completed, summary.failed, summary.output_tokens) == (3, 0, 6)
    assert (summary.steps, summary.makespan_s, summary.output_tok_s) == (4, 4.0, 1.5)
    assert (summary.ttft_p50_ms, summary.itl_p50_ms) == (1000.0, 1000.0)
    assert summary.mean_running == 1.5
    assert summary.padding_fraction == 0
    assert summary.few_for_p99


def test_an_empty_run_has_no_figures_and_no_zeros():
    summary = summarize(make_engine().trace)
    assert summary.requests == 0
    for name in ("makespan_s", "output_tok_s", "ttft_p50_ms", "itl_p99_ms", "padding_fraction"):
        assert getattr(summary, name) is None


def test_failed_requests_do_not_improve_latency():
    engine = make_engine(num_blocks=4)
    with pytest.raises(ValueError, match="16 tokens in all"):
        engine.add_request("no", [1] * 99)
    engine.add_request("a", [1], SamplingParams(max_tokens=2, ignore_eos=True))
    run_all(engine)
    summary = summarize(engine.trace)
    assert (summary.requests, summary.completed, summary.failed) == (2, 1, 1)
    assert summary.ttft_p50_ms == 1000.0


def test_goodput_counts_completed_requests_within_every_limit():
    fast = RequestMetrics(0, "fast", 0.0, 1, token_times=[0.1, 0.2], reason="stop")
    slow = RequestMetrics(1, "slow", 0.0, 1, token_times=[0.9, 1.0], reason="length")
    single = RequestMetrics(2, "single", 0.0, 1, token_times=[0.1], reason="length")
    failed = RequestMetrics(3, "failed", 0.0, 1, token_times=[0.1], reason="error")
    every = [fast, slow, single, failed]
    assert goodput(every, 2.0) == 1.5
    assert goodput(every, 2.0, ttft_s=0.5) == 1.0
    assert goodput(every, 2.0, ttft_s=0.5, tpot_s=0.01) == 0.5  # one token has no TPOT
    assert goodput(every, 0.0) is None
