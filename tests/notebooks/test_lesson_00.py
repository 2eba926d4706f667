"""Lesson 00 on the real model: machine, run and answer."""

from __future__ import annotations

import nbformat
import pytest

from tests.notebooks.harness import (
    FIGURE_TYPES,
    execute,
    lesson_path,
    outputs,
    text,
    writes_nothing_to_stderr,
)


@pytest.fixture(scope="module")
def lesson_00(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("00"), module_patch)


def test_lesson_00_shows_machine_run_and_answer(lesson_00):
    assert "The course can run here." in text(lesson_00, "00-machine")
    assert "tok/s" in text(lesson_00, "00-live-result")
    assert "measured" in text(lesson_00, "00-live-result")
    assert len(text(lesson_00, "00-answer")) > 60
    assert FIGURE_TYPES[0] in outputs(lesson_00, "00-live")[0].data


def test_no_cell_writes_to_stderr(lesson_00):
    writes_nothing_to_stderr(lesson_00)
