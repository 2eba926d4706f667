"""Batches read from a run, windows in front of an engine, and the table of knobs."""

from __future__ import annotations

import pytest

from minillm.bench.triton_config import TritonBatching
from minillm.bench.workload import poisson_arrivals
from minillm.llm import LLM
from minillm.sim import SimulatedRunner
from widgets.batches import batches_card, held_until, sent_batches, windows_card
from widgets.knobs import Knobs
from widgets.lesson import requests_with, simulate

TIMES = [0, 0.015, 0.035, 0.051, 0.070]


@pytest.fixture(scope="module")
def gpu() -> LLM:
    return LLM.simulated(runner=SimulatedRunner.for_gpu("A100-80GB-SXM"))


def five(gpu, output=1):
    return requests_with(gpu, [output] * 5, prompts=[16] * 5, times=TIMES)


def test_a_b_c_leave_at_50_and_d_e_at_101_ms(gpu):
    trace = simulate(gpu, five(gpu), "dynamic", max_num_seqs=8, max_queue_delay_s=0.05)
    first, second = sent_batches(trace)
    assert (first.sent, first.members) == (pytest.approx(0.05), ("A", "B", "C"))
    assert (second.sent, second.members) == (pytest.approx(0.101), ("D", "E"))
    assert [batch.waited for batch in (first, second)] == [pytest.approx(0.05)] * 2
    assert "[A, B, C] at 50\u202fms; [D, E] at 101\u202fms" in repr(batches_card(trace))


def test_while_the_engine_is_busy_the_next_batch_waits_longer_than_its_window(gpu):
    trace = simulate(gpu, five(gpu, 40), "dynamic", max_num_seqs=8, max_queue_delay_s=0.05)
    first, second = sent_batches(trace)
    assert first.members == ("A", "B", "C")
    assert second.waited > 0.3


def test_a_window_alone_computes_nothing(gpu):
    held = held_until(gpu, five(gpu, 40), 0.05, 8)
    assert [round(r.time * 1e3) for r in held] == [50, 50, 50, 101, 101]
    assert [r.params.max_tokens for r in held] == [40] * 5
    assert [r.time for r in held_until(gpu, five(gpu), 0, 8)] == TIMES


def test_in_front_of_a_continuous_engine_a_window_adds_its_length_to_the_ttft(gpu):
    requests = requests_with(
        gpu, [20] * 30, prompts=[32] * 30, times=poisson_arrivals(30, 3, seed=1)
    )
    lines = repr(windows_card(gpu, requests, (0, 0.2), 8)).splitlines()
    without, behind = (line.split() for line in lines[2:4])
    assert float(behind[2]) > float(without[2]) + 150  # ms, the median
    # The same tokens, and a run that ends one window later.
    assert float(behind[-1]) == pytest.approx(float(without[-1]), rel=0.05)
    assert "simulated" in lines[-1]


def test_each_run_fills_a_row_and_what_differs_fills_the_knobs(gpu):
    times = poisson_arrivals(80, 60, 0)
    knobs = Knobs(gpu, requests_with(gpu, [1] * 80, prompts=[64] * 80, times=times))
    assert repr(knobs.table()).count("not tried yet") == 3
    knobs.run(TritonBatching(8).text)
    card = knobs.run(TritonBatching(8, (), 50_000).text)
    assert len(knobs.runs) == 2
    assert "50,000" in repr(card)
    knobs.run(TritonBatching(8).text)  # again: it takes the place of the first
    assert len(knobs.runs) == 2
    table = repr(knobs.table())
    assert "0 → 50,000: mean batch 1." in table
    assert table.count("not tried yet") == 2
    knobs.run(TritonBatching(8, (4,), 50_000).text)
    assert "none → [4]: mean batch" in repr(knobs.table())


def test_what_cannot_run_is_refused_and_what_has_no_counterpart_is_named(gpu):
    knobs = Knobs(gpu, five(gpu))
    with pytest.raises(ValueError, match="must be 1 to 4"):
        knobs.run("max_batch_size: 4 dynamic_batching { preferred_batch_size: [8] }")
    assert knobs.runs == []
    card = knobs.run("max_batch_size: 4 dynamic_batching { preserve_ordering: true }")
    assert "ignored: preserve_ordering." in repr(card)
