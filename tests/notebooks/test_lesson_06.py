"""Lesson 06 on the real model: step time over prompt length, and the KV that grows."""

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
def lesson_06(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("06"), module_patch)


def rows(shown: str) -> list[list[str]]:
    """The lines of a text table, each cut into its cells."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown.splitlines()
    ]


def test_prompts_are_measured_here_and_simulated(lesson_06):
    assert FIGURE_TYPES[0] in outputs(lesson_06, "06-demo")[0].data
    shown = text(lesson_06, "06-demo-gpu")
    times = {(row[0], row[1]): row[3] for row in rows(shown) if len(row) == 5}
    assert ("Your machine", "128") in times
    assert float(times["A100", "8"].rstrip("×")) < 1.1
    assert float(times["A100", "8,192"].rstrip("×")) > 40
    assert "● measured: Your machine, CPU" in shown
    assert "◐ simulated: A100, A100-80GB-SXM, llama-3.1-8b bf16" in shown
    assert "<svg" in outputs(lesson_06, "06-demo-gpu")[0].data["text/html"]


def test_the_predictions_meet_what_was_seen(lesson_06):
    assert "You predicted 8.0×, you saw 1.0×." in text(lesson_06, "06-saw-short")
    crossing = text(lesson_06, "06-saw-cross")
    assert "You predicted about 1,000, you saw about 100,000." in crossing
    assert "114,512 tokens: 15.0 GB of weights" in crossing
    assert "it would be 122,528" in crossing


def test_the_first_step_reads_the_prompt_and_gives_the_first_token(lesson_06):
    steps = [row for row in rows(text(lesson_06, "06-steps")) if row[0].isdigit()]
    prompt = int(steps[0][2])
    assert steps[0][1:5] == ["prefill", str(prompt), "0", "number 1"]
    assert steps[1][1:5] == ["decode", "1", str(prompt), "number 2"]
    assert [row[1] for row in steps[1:]] == ["decode"] * 3


def test_the_kv_bar_grows_with_the_run(lesson_06):
    assert FIGURE_TYPES[0] in outputs(lesson_06, "06-bar")[0].data
    first, last = (row for row in rows(text(lesson_06, "06-bar-result")) if row[0].isdigit())
    assert int(first[1]) < int(last[1]) == 64 + 7
    assert "● measured: CPU" in text(lesson_06, "06-bar-result")


def test_a_large_model_reads_weights_first_and_kv_later(lesson_06):
    shown = rows(text(lesson_06, "06-panel-table"))
    shares = {(row[0], row[1]): row[4] for row in shown if len(row) == 7}
    assert shares["1", "512"] == "0.4\u2009%"
    assert shares["32", "4,096"] == "53\u2009%"
    assert "114,500 tokens" in text(lesson_06, "06-token")
    assert "131\u2009kB" in text(lesson_06, "06-token")


def test_the_stub_runs_and_scores_nothing(lesson_06):
    result = text(lesson_06, "06-check")
    assert "0 of 10 points" in result
    assert "Smallest failing input: kv_bytes_per_token(1, 1, 1, 1, 1)" in result
    assert "Hint: " in result
    assert "KV of one token: 23,040 bytes by the engine, 0 by you" in text(lesson_06, "06-against")


def test_no_cell_writes_to_stderr(lesson_06):
    writes_nothing_to_stderr(lesson_06)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    assert run_too_early("06", "06-bar-result", monkeypatch) == [
        "Run the cell under “The KV bar grows” first: this one uses growing."
    ]
