"""Submissions as they come: graded from their text, each fault costing its own question alone."""

from __future__ import annotations

import csv
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from grading.build import (
    SourceError,
    _block,
    exercises,
    source_notebook,
)
from grading.cells import FromCells, defines, python_lines, resolve
from grading.grade import unpack
from grading.release import beside_python, release_all, student_notebooks
from grading.submission import SubmissionError, grade_notebook, questions

ROOT = Path(__file__).resolve().parents[2]
ONE = "lesson_05"


def submission(exercise: str = ONE) -> nbformat.NotebookNode:
    """The released notebook with the source's own solutions filled in."""
    return source_notebook(exercise)


def solution_cell(notebook):
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("solution"))


@pytest.fixture(scope="module")
def released() -> dict[str, str]:
    return student_notebooks()


@pytest.mark.parametrize("exercise", exercises())
def test_the_student_version_is_current_and_holds_no_solution(exercise, released):
    path = ROOT / "notebooks" / "exercises" / f"{exercise}.ipynb"
    assert path.read_text(encoding="utf-8") == released[exercise], "run `make exercises`"
    text = released[exercise]
    for word in ("BEGIN SOLUTION", "BEGIN HIDDEN", "grading.hidden"):
        assert word not in text
    assert "raise NotImplementedError" in text


@pytest.mark.parametrize("exercise", exercises())
def test_the_source_gets_every_point_and_the_stub_none(exercise, released):
    graded = grade_notebook(exercise, submission(exercise))
    for one in graded:
        assert one.report.max == one.question.points, one.question
        assert one.score == one.question.points, repr(one.report)
        assert one.reason == ""
    for one in grade_notebook(exercise, nbformat.reads(released[exercise], as_version=4)):
        assert one.score == 0, repr(one.report)
        assert one.reason


def test_a_block_that_is_none_is_refused():
    for words, code in (
        (["solution", "x"], "def x(): pass"),
        (["test", "x", "points=3"], 'grade("lesson_06", x=x)'),
        (["exam"], ""),
    ):
        with pytest.raises(SourceError, match="lesson_05: a "):
            _block("lesson_05", words, code)


# ── cells as text ───────────────────────────────────────────────────────────────────────────


def test_cells_run_in_order_and_a_bad_one_loses_only_its_own():
    cells = ("a = 1", "1 / 0", "%matplotlib inline\n!ls\nb = a + 1", "def broken(:", "%%bash\nls")
    found = resolve({"b": FromCells("b", cells)})
    assert found == {"b": 2}
    with pytest.raises(NameError, match="Code cell 2: ZeroDivisionError"):
        resolve({"c": FromCells("c", cells)})


def test_definitions_are_found():
    assert defines("x = 1\ndef f(): pass", "f")
    assert defines("class F: pass", "F")
    assert defines("G = 3", "G")
    assert not defines("def f():\n    g = 1", "g")
    assert defines("def f(:\n", "f")
    assert python_lines("a\n%time b\nc") == "a\n\nc"


# ── one file a student ──────────────────────────────────────────────────────────────────────


def write(path: Path, notebook) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def test_a_folder_of_submissions_becomes_a_csv(tmp_path, released):
    folder = tmp_path / "submissions"
    write(folder / "ann" / "deep" / "my lesson_05 final.ipynb", submission())
    write(folder / "bob.lesson_05.ipynb", nbformat.reads(released[ONE], as_version=4))
    (folder / "cy").mkdir()
    (folder / "cy" / "lesson_05.ipynb").write_text("{broken")
    (folder / "dee").mkdir()
    write(tmp_path / "zipped" / "lesson_05.ipynb", submission())
    with zipfile.ZipFile(folder / "eve.zip", "w") as zipped:
        zipped.write(tmp_path / "zipped" / "lesson_05.ipynb", "hw/lesson_05.ipynb")
    with zipfile.ZipFile(folder / "fay.zip", "w") as zipped:
        zipped.writestr("../../lesson_05.ipynb", "{}")
    out = tmp_path / "grades.csv"
    done = subprocess.run(
        [sys.executable, "-m", "grading.grade", str(folder), str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with out.open(encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        "ann": 12, "bob": 0, "cy": 0, "dee": 0, "eve": 12, "fay": 0,
    }  # fmt: skip
    assert "NotImplementedError" in rows["bob"]["reason"]
    assert "is no notebook" in rows["cy"]["reason"]
    assert "No notebook named like" in rows["dee"]["reason"]
    assert "leads out of it" in rows["fay"]["reason"]


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("/etc/lesson_05.ipynb", 0, "leads out"),
        ("a/../../b", 0, "leads out"),
        ("C:\\b", 0, "leads out"),
        ("link", stat.S_IFLNK | 0o777, "a link"),
    ],
)
def test_a_zip_that_leads_out_is_refused(tmp_path, name, mode, says):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        zipped.writestr(info, "x")
    with pytest.raises(SubmissionError, match=says):
        unpack(archive, tmp_path / "out")


def test_a_zip_bomb_is_refused(tmp_path):
    archive = tmp_path / "bomb.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("zeros", b"\0" * (65 << 20))
    with pytest.raises(SubmissionError, match="more than 64 MiB"):
        unpack(archive, tmp_path / "out")


# ── hostile cells ───────────────────────────────────────────────────────────────────────────

HOSTILE = {
    "endless loop": ("while True:\n    pass", 12),
    "ends the process": ("import os\nos._exit(0)", 0),
    "SystemExit": ("raise SystemExit", 12),
    "input()": ("answer = input('? ')", 12),
    "no Python": ("def f(:\n    x", 12),
    "flood": ("for _ in range(5000):\n    print('x' * 1000)", 12),
}


@pytest.mark.parametrize("fault", ["endless loop", "ends the process", "no Python"])
def test_a_hostile_cell_beside_the_answer(fault):
    source, score = HOSTILE[fault]
    notebook = submission()
    notebook.cells.insert(0, nbformat.v4.new_code_cell(source))
    [one] = grade_notebook(ONE, notebook)
    # A cell that ends the process is left out in a further try: its question is another one.
    assert one.score == (12 if fault == "ends the process" else score), repr(one.report)


def test_an_edited_test_cell_changes_nothing():
    notebook = submission()
    test = next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade"))
    test.source = "12"
    solution_cell(notebook).source = "class MyScheduler:\n    pass"
    [one] = grade_notebook(ONE, notebook)
    assert one.score == 0
    assert "takes your class itself" in one.reason


def test_questions_come_from_the_source():
    [one] = questions(ONE)
    assert (one.name, one.points, one.objects) == ("scheduler", 12, {"scheduler": "MyScheduler"})


# ── the real nbgrader ───────────────────────────────────────────────────────────────────────


def spoil_metadata(notebook):
    for cell in notebook.cells:
        cell.metadata = {}


def spoil_test_cell(notebook):
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = "12"


def spoil_duplicate(notebook):
    notebook.cells.append(solution_cell(notebook).copy())


def spoil_deleted(notebook):
    notebook.cells = [c for c in notebook.cells if not c.metadata.get("nbgrader", {}).get("grade")]


def spoil_exit(notebook):
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import os\nos._exit(1)"))


def spoil_answer(notebook):
    solution_cell(notebook).source = "import os\nos._exit(1)\nclass MyScheduler: pass"


SPOILED = {
    "plain": (lambda notebook: None, 12),
    "stripped": (spoil_metadata, 12),
    "edited_test": (spoil_test_cell, 12),
    "duplicated": (spoil_duplicate, 12),
    "deleted_test": (spoil_deleted, 12),
    "exits_beside": (spoil_exit, 12),
    "exits_inside": (spoil_answer, 0),
}


def test_nbgrader_generates_autogrades_and_gives_feedback(tmp_path):
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI

    from grading.nbgrader_config import course_config

    course = tmp_path / "course"
    release_all(course)
    for student, (spoil, _) in SPOILED.items():
        notebook = submission()
        spoil(notebook)
        write(course / "submitted" / student / ONE / f"{ONE}.ipynb", notebook)
    api = NbGraderAPI(config=course_config(course))
    with beside_python():
        for student in SPOILED:
            result = api.autograde(ONE, student)
            assert result["success"], result["log"]
        assert api.generate_feedback(ONE, "stripped")["success"]
        with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
            scores = {s: book.find_submission(ONE, s).score for s in SPOILED}
    assert scores == {student: score for student, (_, score) in SPOILED.items()}
    feedback = (course / "feedback" / "stripped" / ONE / f"{ONE}.html").read_text(encoding="utf-8")
    assert "had lost its marks" in feedback
    assert "All 8 properties hold." in feedback
    exits = course / "autograded" / "exits_inside" / ONE / f"{ONE}.ipynb"
    assert "ended its process (exit status 1)" in exits.read_text(encoding="utf-8")
