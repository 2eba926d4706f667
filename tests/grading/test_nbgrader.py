"""The real nbgrader, by its commands: release, validate, autograde, feedback, export.

Every kind of hostile submission costs at most its own question, the reason is in the feedback, and
all others are graded.
"""

from __future__ import annotations

import csv
import html
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from grading.build import exercises, source_notebook
from grading.submission import questions
from tests.grading import hostile

ROOT = Path(__file__).resolve().parents[2]
COMMAND_LIMIT_S = 1200
ONE = hostile.EXERCISE


def run(course: Path, *words: str, limit_s: float = COMMAND_LIMIT_S) -> str:
    """A command in a course's folder, with this Python's programs in reach; what it said."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=course, capture_output=True, text=True,
        timeout=limit_s, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-4000:]
    return said


def make_course(folder: Path) -> Path:
    """A course as docs/instructor.md has an instructor make it."""
    course = folder / "course"
    course.mkdir()
    run(course, "grading.release", "--course", str(course))
    shutil.copy(ROOT / "grading" / "nbgrader_config.py", course)
    return course


def hand_in(course: Path, student: str, exercise: str, notebook: nbformat.NotebookNode) -> None:
    path = course / "submitted" / student / exercise / f"{exercise}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def released(course: Path, exercise: str, *, solved: bool) -> nbformat.NotebookNode:
    """The students' notebook; solved: with the source's answers."""
    notebook = nbformat.read(course / "release" / exercise / f"{exercise}.ipynb", as_version=4)
    answers = {cell["id"]: cell for cell in source_notebook(exercise).cells}
    for cell in notebook.cells:
        if solved and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell["id"]].source
    return notebook


def exported(course: Path) -> dict[tuple[str, str], float]:
    """(student, exercise) → score, from nbgrader's CSV."""
    run(course, "nbgrader", "export")
    with (course / "grades.csv").open(encoding="utf-8") as file:
        return {
            (row["student_id"], row["assignment"]): float(row["score"] or "nan")
            for row in csv.DictReader(file)
        }


def validate(course: Path, exercise: str, *, solved: bool) -> str:
    """What `nbgrader validate` says of a notebook."""
    folder = course / "home" / f"{exercise}-{solved}"
    folder.mkdir(parents=True)
    path = folder / f"{exercise}.ipynb"
    nbformat.write(released(course, exercise, solved=solved), path)
    return run(folder, "nbgrader", "validate", path.name)


# ── hostile submissions ─────────────────────────────────────────────────────────────────────


@dataclass
class Graded:
    """A course after autograde and generate_feedback, with the folder that nobody may touch."""

    course: Path
    victim: Path

    def points(self, student: str) -> dict[str, float]:
        """Question → points in the gradebook."""
        with Gradebook(f"sqlite:///{self.course / 'gradebook.db'}") as book:
            [notebook] = book.find_submission(ONE, student).notebooks
            return {grade.cell.name.removeprefix("test_"): grade.score for grade in notebook.grades}

    def feedback(self, student: str) -> str:
        path = self.course / "feedback" / student / ONE / f"{ONE}.html"
        return html.unescape(path.read_text(encoding="utf-8"))


def grade_all(folder: Path, students: tuple[str, ...]) -> Graded:
    victim = folder / "victim"
    victim.mkdir()
    (victim / "file").write_text("still here", encoding="utf-8")
    course = make_course(folder)
    for student in students:
        hand_in(course, student, ONE, hostile.submitted(student, str(victim)))
    run(course, "nbgrader", "autograde", ONE)
    run(course, "nbgrader", "generate_feedback", ONE)
    return Graded(course, victim)


def comes_to_what_it_must(graded: Graded, student: str) -> None:
    expected = hostile.STUDENTS[student]
    assert graded.points(student) == {
        hostile.QUESTION: expected.points, hostile.OTHER: hostile.OTHERS,
    }  # fmt: skip
    shown = graded.feedback(student)
    assert expected.says in shown
    assert "the secret is [" not in shown  # what a hidden input looked like
    assert (graded.victim / "file").read_text(encoding="utf-8") == "still here"


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Graded:
    return grade_all(tmp_path_factory.mktemp("few"), hostile.FEW)


@pytest.mark.parametrize("student", hostile.FEW)
def test_a_hostile_submission_costs_its_question_and_says_why(few, student):
    comes_to_what_it_must(few, student)


def test_nbgrader_exports_everybody(few):
    scores = exported(few.course)
    assert {student: scores[student, ONE] for student in hostile.FEW} == {
        student: hostile.STUDENTS[student].points + hostile.OTHERS for student in hostile.FEW
    }


@pytest.mark.slow
def test_every_hostile_submission_costs_its_question_and_says_why(tmp_path):
    graded = grade_all(tmp_path, tuple(hostile.STUDENTS))
    wrong = []
    for student in hostile.STUDENTS:
        try:
            comes_to_what_it_must(graded, student)
        except AssertionError as error:
            wrong.append(f"{student}: {error}")
    assert not wrong, "\n".join(wrong)


# ── all exercises as they are ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("solved", [True, False])
def test_nbgrader_validates_a_solved_notebook_and_no_other(few, solved):
    said = validate(few.course, ONE, solved=solved)
    assert says_solved(said, ONE) is solved, said


def says_solved(said: str, exercise: str) -> bool:
    """Whether `nbgrader validate` found every question solved; else it must have found none."""
    solved = "Success! Your notebook passes all the tests." in said
    assert solved or f"VALIDATION FAILED ON {len(questions(exercise))} CELL(S)!" in said, said
    return solved


@pytest.mark.slow
def test_nbgrader_runs_on_all_exercises(tmp_path):
    course = make_course(tmp_path)
    for exercise in exercises():
        for student in ("solved", "empty"):
            notebook = released(course, exercise, solved=student == "solved")
            hand_in(course, student, exercise, notebook)
        run(course, "nbgrader", "autograde", exercise)
        run(course, "nbgrader", "generate_feedback", exercise)
        for solved in (True, False):
            assert says_solved(validate(course, exercise, solved=solved), exercise) is solved
        for student in ("solved", "empty"):
            feedback = course / "feedback" / student / exercise / f"{exercise}.html"
            assert "mg-card" in feedback.read_text(encoding="utf-8")
    scores = exported(course)
    for exercise in exercises():
        assert scores["solved", exercise] == sum(one.points for one in questions(exercise))
        assert scores["empty", exercise] == 0
