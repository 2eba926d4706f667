"""Lesson 09 on the real model: two loops, the metrics' table, what a mean hides, goodput."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebooks.harness import (
    FIGURE_TYPES,
    execute,
    lesson_path,
    outputs,
    run_too_early,
    text,
    writes_nothing_to_stderr,
)


@pytest.fixture(scope="module")
def lesson_09(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("09"), module_patch)


def test_both_loops_are_measured_live_on_this_machine(lesson_09):
    assert FIGURE_TYPES[0] in outputs(lesson_09, "09-demo")[0].data
    shown = text(lesson_09, "09-demo-result")
    assert "Closed loop" in shown
    assert "Open loop: " in shown
    assert "● measured: CPU" in shown
    assert "p99 of 12 requests is close to the slowest one." in shown
    assert "You predicted 2.0×, you saw" in text(lesson_09, "09-saw")


def test_the_table_says_what_each_metric_is_for_and_what_it_was(lesson_09):
    shown = text(lesson_09, "09-table")
    assert "optimise for" in shown
    assert "who cares" in shown
    assert "0 of 12  0 of 12" in shown
    assert "Goodput: TTFT ≤ 500 ms, TPOT ≤ 50 ms." in shown


def test_a_stall_of_everybody_is_in_p99_alone(lesson_09):
    shown = text(lesson_09, "09-hidden")
    assert "593\u2009ms" in shown
    assert "◐ simulated: A100-80GB-SXM" in shown
    assert "You predicted the mean and p99, you saw p99 alone." in text(lesson_09, "09-saw-stall")


def test_throughput_rises_where_goodput_falls(lesson_09):
    shown = text(lesson_09, "09-goodput")
    assert "Most served at 30.0 requests per second, most served well at " in shown
    assert "most served well at 30.0" not in shown
    assert "◐ simulated" in shown


def test_ten_in_the_queue_on_two_machines(lesson_09):
    shown = text(lesson_09, "09-queue")
    assert "● your machine, measured" in shown
    assert "◐ A100, simulated" in shown


def test_the_stub_runs_and_scores_nothing(lesson_09):
    result = text(lesson_09, "09-check")
    assert "0 of 18 points" in result
    assert "Smallest failing input: ttft(0, [1])" in result
    assert "Hint: " in result
    assert "your functions" in text(lesson_09, "09-own")


def test_no_cell_writes_to_stderr(lesson_09):
    writes_nothing_to_stderr(lesson_09)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    [sentence] = run_too_early("09", "09-saw", monkeypatch)
    assert sentence.startswith("Run the cells under “Load it in two ways” and “Predict” first:")
