"""Lesson 03 on the real model: one static batch, its waste, and the student's schedule."""

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
def lesson_03(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("03"), module_patch)


def test_the_batch_wastes_45_percent_of_its_rows_on_the_real_engine(lesson_03):
    assert FIGURE_TYPES[0] in outputs(lesson_03, "03-demo")[0].data
    result = text(lesson_03, "03-demo-result")
    assert "27 of 60 rows were computed for nobody: 45\u2009%." in result  # a tenth as long
    assert "Prompt padding is counted apart" in result
    assert "measured" in outputs(lesson_03, "03-demo-result")[0].data["text/html"]


def test_predictions_meet_what_was_seen(lesson_03):
    assert "You predicted 30\u202f%, you saw 45\u202f%." in text(lesson_03, "03-saw-share")
    assert "5 + 10 + 0 + 12 = 27 of 60 rows" in text(lesson_03, "03-saw-share")
    late = text(lesson_03, "03-saw-late")
    assert "You predicted when D, the shortest, is done, you saw when C, the longest" in late
    assert "E waited 15 steps" in late


def test_prompts_and_outputs_waste_different_things(lesson_03):
    lines = {line.split("  ")[0]: line for line in text(lesson_03, "03-kinds").splitlines()}
    assert "0 tokens" in lines["only outputs differ"]
    assert "45\u2009%" in lines["only outputs differ"]
    assert "960 tokens" in lines["only prompts differ"]
    assert "0\u2009%" in lines["only prompts differ"]
    assert "0 tokens" in lines["neither"]
    assert "simulated" in text(lesson_03, "03-kinds")


def test_larger_batches_waste_more_and_are_faster(lesson_03):
    def shown(name: str) -> tuple[int, float]:
        line = next(x for x in text(lesson_03, "03-size").splitlines() if x.startswith(name + "  "))
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        return int(cells[3].split("\u2009")[0]), float(cells[4].replace(",", ""))

    alone, eight, by_length = map(
        shown, ("batch size 1", "batch size 8", "batch size 8, sorted")
    )  # fmt: skip
    assert alone[0] == 0
    assert eight[0] > by_length[0] > 0
    assert eight[1] > alone[1]
    assert by_length[1] > eight[1]


def test_the_stub_runs_and_scores_nothing(lesson_03):
    result = text(lesson_03, "03-check")
    assert "0 of 10 points" in result
    assert "Smallest failing input: static_schedule([1], 1)" in result
    assert "Hint: " in result
    assert "[15, 15, 15, 15] rows computed, 27 dead" in text(lesson_03, "03-against")


def test_no_cell_writes_to_stderr(lesson_03):
    writes_nothing_to_stderr(lesson_03)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “See the batch live” first: this one uses batch."
    assert run_too_early("03", "03-demo-result", monkeypatch) == [sentence]
