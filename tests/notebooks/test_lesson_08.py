"""Lesson 08 on the real model: a long prompt whole and in chunks, 8k simulated, the plan."""

from __future__ import annotations

import re

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
def lesson_08(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("08"), module_patch)


def line(shown: str, name: str) -> list[str]:
    """A table's row as its cells."""
    row = next(one for one in shown.splitlines() if one.startswith(f"{name}  "))
    return re.split(r"\s{2,}", row.strip())


def test_the_long_prompt_meets_the_others_whole_and_in_chunks(lesson_08):
    assert FIGURE_TYPES[0] in outputs(lesson_08, "08-demo")[0].data
    result = text(lesson_08, "08-demo-result")
    assert "F’s prompt of" in result
    assert line(result, "Prompt whole")[1] == "1"
    assert int(line(result, "Budget 64")[1]) > 1
    assert "● measured: CPU" in result
    more = text(lesson_08, "08-own")
    assert int(line(more, "Budget 16")[1]) > int(line(more, "Budget 256")[1])


def test_predictions_meet_what_was_seen(lesson_08):
    assert "You predicted 10×, you saw " in text(lesson_08, "08-saw")
    assert "within a budget of 64 tokens it is " in text(lesson_08, "08-saw")
    chunks = text(lesson_08, "08-saw-chunks")
    assert "You predicted 1.2×, you saw 3.2×." in chunks
    assert "48.5 ms in four chunks, 15.1 ms at once (simulated A100)" in chunks


def test_8192_tokens_stall_an_a100_and_a_budget_bounds_it(lesson_08):
    shown = text(lesson_08, "08-gpu")
    whole, middle, small, first = (
        line(shown, name)
        for name in ("budget 8,224", "budget 512", "budget 128", "budget 512, prompts first")
    )
    milliseconds = [float(row[4].split("\u2009")[0]) for row in (whole, middle, small, first)]
    assert milliseconds[0] > 500 > 50 > milliseconds[1] > milliseconds[2]
    assert milliseconds[3] > milliseconds[0]
    assert "◐ simulated: A100-80GB-SXM, llama-3.1-8b bf16" in shown


def test_the_numbers_of_the_claim_come_from_a_cell(lesson_08):
    shown = text(lesson_08, "08-sum")
    claim = next(c.source for c in lesson_08.cells if c.id == "08-misconceptions")
    for name, takes in (
        ("8 users get a token", "12.4"), ("a chunk of 25 tokens", "12.6"),
        ("both in one step", "13.9"), ("a prompt of 100 tokens", "15.1"),
    ):  # fmt: skip
        assert line(shown, name)[2] == f"{takes}\u2009ms"
        assert f"{takes} ms" in claim
    assert "15.0 GB at the datasheet’s 2,039 GB/s are 7.4\u2009ms" in shown
    assert "15.0 GB of weights alone take 7.4 ms" in claim


def test_the_stub_runs_and_scores_nothing(lesson_08):
    result = text(lesson_08, "08-check")
    assert "0 of 11 points" in result
    assert "Smallest failing input: plan_step([1, 1], 4)" in result
    assert "Hint: " in result
    assert "A pddddd\nB ······pddddd" in text(lesson_08, "08-serve")
    assert text(lesson_08, "08-drive-result").splitlines()[1].startswith("Planned")


def test_no_cell_writes_to_stderr(lesson_08):
    writes_nothing_to_stderr(lesson_08)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “Paste a long prompt, watch the others” first: "
    [shown] = run_too_early("08", "08-demo-result", monkeypatch)
    assert shown == sentence + "this one uses long."
