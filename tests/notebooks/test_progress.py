"""A lesson run from top to bottom leaves its progress where it is told to, and nowhere else."""

from __future__ import annotations

import json

import nbformat
import pytest

from tests.notebooks.harness import execute, lesson_path, text
from widgets.progress_file import PLACE


@pytest.fixture(scope="module")
def ran(default_model_path, module_patch, tmp_path_factory) -> dict:
    """Lesson 0's own two cells, then all of lesson 2, with one file."""
    path = tmp_path_factory.mktemp("kept") / "progress.json"
    module_patch.setenv(PLACE, str(path))
    lessons = {
        "00": execute(lesson_path("00"), module_patch, only=["00-where", "00-progress"]),
        "02": execute(lesson_path("02"), module_patch),
    }
    return lessons | {"kept": json.loads(path.read_text(encoding="utf-8"))["lessons"]}


def test_predictions_check_and_end_are_kept(ran):
    kept = ran["kept"]
    assert set(kept["00"]) == {"end"}
    predictions = {"predict 02-last", "predict 02-grows", "predict 02-users"}
    assert set(kept["02"]) == predictions | {"check", "end"}  # nobody was there for the quiz
    notebook = nbformat.read(lesson_path("02"), as_version=4)
    given: dict = {}
    for cell in notebook.cells:
        given |= cell.metadata.get("minillm", {}).get("answers", {})
    for key, answer in given.items():
        assert kept["02"][f"predict {key}"]["answer"] == answer
    assert kept["02"]["check"]["points"] == 0  # of the stub
    assert kept["02"]["check"]["of"] > 0


def test_the_cells_say_where_one_is(ran):
    first = text(ran["00"], "00-where")  # it followed what the cells below it did
    assert first.startswith("Where you are: 1 of 13 lessons done. Go on with lesson 1, Why one ")
    assert text(ran["00"], "00-progress").splitlines() == [
        "Lesson 0 is done.", "Next: lesson 1, Why one user wastes a GPU (45 min)",
    ]  # fmt: skip
    said = text(ran["02"], "02-progress")
    assert said.startswith("Lesson 2: the check and the quiz are still open.\n✓ predictions 3 of 3")
    assert "check 0 of " in said


def test_a_run_that_is_told_no_place_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv(PLACE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    lesson = execute(lesson_path("00"), monkeypatch, only=["00-where", "00-progress"])
    assert "in no file" in text(lesson, "00-where")
    assert text(lesson, "00-progress").startswith("Lesson 0 is done.")
    assert list(tmp_path.iterdir()) == []
