"""Lesson 10 on the real model: the curve live, the real numbers, gain against slowdown, cost."""

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
def lesson_10(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("10"), module_patch)


def test_the_curve_is_measured_live_on_this_machine(lesson_10):
    assert FIGURE_TYPES[0] in outputs(lesson_10, "10-demo")[0].data
    shown = text(lesson_10, "10-demo-result")
    assert "users at a time" in shown
    assert "● measured: CPU" in shown
    assert "You predicted 2.0×, you saw" in text(lesson_10, "10-saw-gain")
    assert "You predicted 2.0×, you saw 1.5×." in text(lesson_10, "10-saw-slow")


def test_the_real_numbers_say_where_each_comes_from(lesson_10):
    shown = text(lesson_10, "10-numbers")
    for device in ("Your machine, 1", "A100, 128", "H100, 64", "H200, 32"):
        assert device in shown
    assert "● measured" in shown
    assert "◐ simulated" in shown
    published = text(lesson_10, "10-published")
    assert "vLLM 0.20.1" in published
    assert "◇ published" in published


def test_gain_and_slowdown_are_one_number(lesson_10):
    shown = text(lesson_10, "10-slowdown")
    assert "20× the throughput at 64: each user is 3.2× slower." in shown
    assert "30× the throughput at 64: each user is 2.1× slower." in shown
    assert "A100 simulated: 44× at 64" in shown


def test_the_sweet_spot_and_the_price(lesson_10):
    assert "A100, context 8,192" in text(lesson_10, "10-spot")
    shown = text(lesson_10, "10-cost")
    assert "$4.10 per GPU and hour" in shown
    assert "$13.49 per million tokens" in shown


def test_the_stub_runs_and_scores_nothing(lesson_10):
    result = text(lesson_10, "10-check")
    assert "0 of 14 points" in result
    assert "Smallest failing input: pareto_front([(1, 10)])" in result
    assert "A100: batch None within 50 ms" in text(lesson_10, "10-own")


def test_no_cell_writes_to_stderr(lesson_10):
    writes_nothing_to_stderr(lesson_10)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    [sentence] = run_too_early("10", "10-saw-gain", monkeypatch)
    assert sentence.startswith("Run the cells under “Draw the curve” and “Predict” first:")
