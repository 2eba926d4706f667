"""Lesson 12: an own server under an own load, configurations against an SLO, speculation."""

from __future__ import annotations

import re

import nbformat
import pytest

from tests.notebooks.harness import (
    execute,
    lesson_path,
    run_too_early,
    text,
    writes_nothing_to_stderr,
)


@pytest.fixture(scope="module")
def lesson_12(module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("12"), module_patch)


def line(shown: str, name: str) -> list[str]:
    """A table's row as its cells."""
    row = next(one for one in shown.splitlines() if one.startswith(f"{name}  "))
    return re.split(r"\s{2,}", row.strip())


def test_an_own_server_answers_an_own_load(lesson_12):
    shown = text(lesson_12, "12-server")
    assert line(shown, "completed")[1] == "20"
    assert line(shown, "failed")[1] == "0"
    assert "● measured by this client; the GPU behind the server is ◐ simulated" in shown


def test_three_gpus_keep_the_slo_and_two_do_not(lesson_12):
    shown = text(lesson_12, "12-slo")
    share = {
        name: int(re.match(r"\d+", line(shown, name)[1])[0])
        for name in ("2 A100, 256 slots, budget 2,048", "3 A100, 256 slots, budget 2,048",
                     "3 A100, 32 slots, budget 512")
    }  # fmt: skip
    two, three, few_slots = share.values()
    assert two < 95 <= three
    assert few_slots < 95
    assert "You predicted 10, you saw 3" in text(lesson_12, "12-saw-gpus")


def test_speculation_gains_less_as_the_batch_grows(lesson_12):
    shown = text(lesson_12, "12-spec")
    gains = [float(line(shown, str(batch))[4].rstrip("×")) for batch in (1, 8, 32, 64, 128, 256)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1.3 > 1 > gains[-1]
    assert line(shown, "128")[1] == "640"
    claim = next(c.source for c in lesson_12.cells if c.id == "12-misconceptions")
    assert f"here it is {gains[0]:.1f} times" in claim
    assert "You predicted 2.0×, you saw " in text(lesson_12, "12-saw-guess")
    assert "simulated" in shown


def test_the_stub_runs_and_scores_nothing(lesson_12):
    result = text(lesson_12, "12-check")
    assert "0 of 10 points" in result
    assert "Hint: " in result


def test_no_cell_writes_to_stderr(lesson_12):
    writes_nothing_to_stderr(lesson_12)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    [shown] = run_too_early("12", "12-saw-gpus", monkeypatch)
    assert shown.startswith(
        "Run the cells under “A thousand users, and an SLO” and “Predict” first"
    )
