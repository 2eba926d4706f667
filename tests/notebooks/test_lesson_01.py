"""Lesson 01 on the real model: the batch on a roofline, a whole model, what is idle."""

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
def lesson_01(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("01"), module_patch)


def row(shown: str, name: str) -> list[str]:
    """The cells of a text table's row."""
    line = next(x for x in shown.splitlines() if x.startswith(name + "  "))
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_every_batch_is_measured_on_this_machine(lesson_01):
    assert FIGURE_TYPES[0] in outputs(lesson_01, "01-demo")[0].data
    shown = text(lesson_01, "01-demo-result")
    for batch in (1, 8, 32, 128):
        figures = row(shown, f"batch {batch}")
        assert "FLOP/s" in figures[3]
        assert "GB/s" in figures[5]
    assert row(shown, "batch 1")[2] == "1.00×"
    assert "● measured: Your machine, CPU" in shown
    assert "512 × 512" in shown


def test_the_predictions_meet_what_was_seen(lesson_01):
    assert "You predicted 16.0×, you saw" in text(lesson_01, "01-saw-times")
    shown = text(lesson_01, "01-saw-share")
    assert "You predicted 5 to 15 %, you saw less than 1 %." in shown
    assert "simulated" in shown


def test_on_simulated_gpus_32_rows_cost_hardly_more_than_one(lesson_01):
    shown = text(lesson_01, "01-gpus-table")
    assert FIGURE_TYPES[0] in outputs(lesson_01, "01-gpus")[0].data
    for name in ("A100", "H100", "H200"):
        assert float(row(shown, f"{name}, batch 32")[2].rstrip("×")) < 1.1
        assert float(row(shown, f"{name}, batch 512")[2].rstrip("×")) > 1.5
    assert "◐ simulated: A100, H100, H200, 8192 × 8192, bf16" in shown


def test_by_hand_from_the_data_sheet(lesson_01):
    shown = text(lesson_01, "01-hand")
    assert "134 MB of weights" in shown
    assert "65.8 µs to read them, 0.43 µs to compute one row: 0.65% of the peak" in shown
    assert "21% at 32; ridge 153" in shown
    assert "ridge 295" in shown
    assert "ridge 206" in shown


def test_a_whole_model_measured_and_simulated(lesson_01):
    here = text(lesson_01, "01-whole")
    assert "8× the users: a step takes" in here
    assert "● measured: CPU" in here
    short, long = text(lesson_01, "01-whole-gpu"), text(lesson_01, "01-whole-gpu-long")
    assert row(short, "32")[2] == "1.21×"
    assert 1.5 < float(row(long, "32")[2].rstrip("×")) < 1.6
    assert "◐ simulated: A100-80GB-SXM, llama-3.1-8b bf16, context 2,048" in long


def test_idle_has_three_meanings(lesson_01):
    shown = text(lesson_01, "01-idle")
    assert "the arithmetic is 99.6\u2009% idle" in shown
    assert "93\u2009%  duty cycle" in shown
    assert "62\u2009%" in shown
    published = text(lesson_01, "01-idle-published")
    assert "A step reads 15.0 GB of weights." in published
    assert "93.8\u202ftok/s" in published
    assert "gpt-fast README (github:pytorch-labs/gpt-fast/README.md)" in published


def test_the_stub_runs_and_scores_nothing(lesson_01):
    result = text(lesson_01, "01-check")
    assert "0 of 12 points" in result
    assert "Smallest failing input: arithmetic_intensity(1, 1, 1, 2)" in result
    assert "Hint: " in result
    assert "your step_time" in text(lesson_01, "01-against")


def test_no_cell_writes_to_stderr(lesson_01):
    writes_nothing_to_stderr(lesson_01)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    assert run_too_early("01", "01-saw-times", monkeypatch) == [
        "Run the cells under “Move the batch” and “Predict” first: this one uses measured, times."
    ]
