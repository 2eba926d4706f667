"""What a batch computed for nobody, counted from the run's own rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core.metrics import count_padding
from minillm.llm import LLM
from widgets.lesson import requests_with, simulate
from widgets.waste import count_rows, waste_card, waste_table


def static(outputs, batch, prompts=None):
    llm = LLM.simulated()
    return simulate(llm, requests_with(llm, outputs, prompts=prompts), "static", max_num_seqs=batch)


def test_the_batch_of_100_50_150_and_30_wastes_270_of_600_rows():
    trace = static([100, 50, 150, 30], 4)
    rows = count_rows(trace)
    assert [r.dead for r in rows] == [50, 100, 0, 120]
    assert [r.last_step for r in rows] == [100, 50, 150, 30]
    assert [r.output for r in rows] == [100, 50, 150, 30]
    card = waste_card(trace)
    assert "270 of 600 rows were computed for nobody: 45\u2009%." in repr(card)
    assert "simulated" in card.html


def test_prompt_padding_is_counted_apart():
    trace = static([5, 5], 2, prompts=[40, 10])
    first, second = count_rows(trace)
    assert (first.padding, second.padding) == (0, 30)
    assert (first.dead, second.dead) == (0, 0)
    assert "30 tokens beside the prompts' 50" in repr(waste_card(trace))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=9), st.integers(1, 5))
def test_the_counts_add_up_to_the_trace_s(outputs, batch):
    trace = static(outputs, batch)
    rows, padding = count_rows(trace), count_padding(trace)
    assert sum(r.dead for r in rows) == padding.dead_rows
    assert sum(r.rows for r in rows) == padding.rows
    assert sum(r.padding for r in rows) == padding.prompt_padding
    assert [r.output for r in rows] == outputs


def test_runs_stand_side_by_side():
    runs = {"alone": static([4, 2], 1), "together": static([4, 2], 2)}
    lines = repr(waste_table(runs)).splitlines()
    assert lines[2].split()[0] == "alone"
    assert "25\u2009%" in lines[3]
    assert lines[-1].startswith("◐ simulated")
