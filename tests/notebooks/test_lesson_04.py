"""Lesson 04: windows exact on the virtual clock, Triton's text, the knobs, the real engine."""

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
def lesson_04(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("04"), module_patch)


def test_a_b_c_leave_at_50_and_d_e_at_101_ms(lesson_04):
    assert FIGURE_TYPES[0] in outputs(lesson_04, "04-demo")[0].data
    assert "[A, B, C] at 50\u202fms; [D, E] at 101\u202fms" in text(lesson_04, "04-demo-result")
    assert "simulated" in outputs(lesson_04, "04-demo-result")[0].data["text/html"]


def test_predictions_meet_what_was_seen(lesson_04):
    assert "You predicted A, B, C and D, you saw A, B and C." in text(lesson_04, "04-saw-first")
    assert "You predicted at 100 ms, you saw at 101 ms." in text(lesson_04, "04-saw-second")
    real = text(lesson_04, "04-real-saw")
    assert "You predicted when its window is over, you saw" in real
    assert "under continuous batching" in real


def test_a_triton_config_is_read_and_run(lesson_04):
    shown = text(lesson_04, "04-triton")
    assert "'max_queue_delay_s': 0.05" in shown
    assert "[A, B] at 15\u202fms; [C, D] at 51\u202fms; [E] at 120\u202fms" in shown


def test_the_runs_fill_the_table_of_knobs(lesson_04):
    table = text(lesson_04, "04-knobs-table")
    assert "0 → 200,000: mean batch" in table
    assert "none → [4]: mean batch" in table
    assert "2 → 8: mean batch" in table
    assert "simulated" in table
    rows = text(lesson_04, "04-knobs-own").splitlines()
    assert sum(line[:1].isdigit() for line in rows[2:]) == 9


def test_under_load_batches_form_without_a_window(lesson_04):
    lines = text(lesson_04, "04-load").splitlines()
    means = [float(line.split("window: ")[1].split()[0]) for line in lines if line.strip()]
    assert means == sorted(means)
    assert means[-1] > 2 * means[0]


def test_in_front_of_a_continuous_engine_a_window_adds_itself(lesson_04):
    lines = text(lesson_04, "04-front").splitlines()[2:6]
    ttft = {line.split("ms")[0].strip(): float(line.split()[2]) for line in lines}
    assert ttft["200"] > ttft["0"] + 180
    rates = [float(line.split()[-1]) for line in lines]
    assert max(rates) < 1.05 * min(rates)


def test_the_real_engine_is_measured(lesson_04):
    result = text(lesson_04, "04-real-result")
    assert "dynamic" in result
    assert "continuous" in result
    assert "measured" in result
    assert text(lesson_04, "04-real-batches").startswith("[A, ")  # a busy machine may add D


def test_the_stub_runs_and_scores_nothing(lesson_04):
    result = text(lesson_04, "04-check")
    assert "0 of 10 points" in result
    assert "Smallest failing input: form_batches([0, 1], 2, 5)" in result
    assert "Points count once at least two requests leave together" in result
    assert "engine: [(50, 'A B C'), (101, 'D E')]" in text(lesson_04, "04-against")


def test_no_cell_writes_to_stderr(lesson_04):
    writes_nothing_to_stderr(lesson_04)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “See the window” first: this one uses window."
    assert run_too_early("04", "04-demo-result", monkeypatch) == [sentence]
