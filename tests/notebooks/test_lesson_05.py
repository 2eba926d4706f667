"""Lesson 05 on the real model: two policies, the walk, the student's scheduler."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebooks.harness import (
    execute,
    lesson_path,
    outputs,
    run_too_early,
    text,
    writes_nothing_to_stderr,
)


@pytest.fixture(scope="module")
def lesson_05(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("05"), module_patch)


def test_lesson_05_compares_two_policies_on_the_real_engine(lesson_05):
    result = text(lesson_05, "05-demo-result")
    assert "static" in result
    assert "continuous" in result
    assert "measured" in result
    html = outputs(lesson_05, "05-demo-result")[0].data["text/html"]
    assert "<svg" in html  # the still picture stays in a saved notebook
    assert "dynamic" in text(lesson_05, "05-three")


def test_lesson_05_takes_the_predictions_from_the_cells(lesson_05):
    assert "You predicted 3.0×, you saw" in text(lesson_05, "05-saw-speed")
    assert "You predicted 2 to 20 steps, you saw" in text(lesson_05, "05-saw-wait")


def test_lesson_05_walks_through_iterations_1_2_5_and_7(lesson_05):
    lines = text(lesson_05, "05-walk-table").splitlines()
    who = {int(line.split()[0]): line for line in lines if line[:1].isdigit()}
    for iteration, names in {1: "ABC", 2: "ADC", 5: "EDC", 7: "ED"}.items():
        cells = who[iteration].split("  ")
        seats = [cell.strip()[0] for cell in cells if "/" in cell]
        assert "".join(seats) == names


def test_the_stub_runs_and_scores_nothing(lesson_05):
    result = text(lesson_05, "05-check")
    assert "0 of 10 points" in result
    assert "Smallest failing input: replay(MyScheduler, " in result
    assert "Hint: " in result
    assert "MyScheduler" in text(lesson_05, "05-drive-result")


def test_a_broken_rule_is_named_and_the_engine_survives(lesson_05):
    broken = text(lesson_05, "05-broken")
    assert "Your scheduler broke a rule in step 1, request A" in broken
    assert "a row computes at least 1 token and no more than remain" in broken
    assert "expected: 1" in broken
    assert "got: 2" in broken
    assert "continuous" in text(lesson_05, "05-survives")
    assert "failed" not in text(lesson_05, "05-survives")


def test_no_cell_writes_to_stderr(lesson_05):
    writes_nothing_to_stderr(lesson_05)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “See both policies live” first: this one uses ab."
    assert run_too_early("05", "05-demo-result", monkeypatch) == [sentence]
