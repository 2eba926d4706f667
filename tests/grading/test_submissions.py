"""Submissions as they come: graded from their text, each fault costing its own question alone."""

from __future__ import annotations

import csv
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

import grading.submission as submission_module
from grading.build import (
    SourceError,
    _block,
    exercises,
    source_notebook,
)
from grading.cells import FromCells, defines, python_lines, resolve
from grading.entries import student_of, unpack
from grading.release import student_notebooks
from grading.submission import SubmissionError, calls_the_grader, grade_notebook, questions
from grading.tables import Line, QuestionTable, write_students

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
    with out.open(encoding="utf-8-sig") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert {name: float(row["score"]) for name, row in rows.items()} == {
        "ann": 12, "bob": 0, "cy": 0, "dee": 0, "eve": 12, "fay": 0,
    }  # fmt: skip
    assert "NotImplementedError" in rows["bob"]["reason"]
    assert "is no notebook" in rows["cy"]["reason"]
    assert "No notebook named like" in rows["dee"]["reason"]
    assert "leads out of it" in rows["fay"]["reason"]
    with (tmp_path / "grades_by_student.csv").open(encoding="utf-8-sig") as file:
        totals = {row["student"]: (row[ONE], row["total"]) for row in csv.DictReader(file)}
    assert totals["ann"] == totals["eve"] == ("12", "12")
    assert totals["bob"] == totals["cy"] == ("0", "0")
    assert totals["dee"] == totals["fay"] == ("", "0")
    assert "6 students" in done.stdout
    assert re.search(r"lesson_05 scheduler +mean   6\.0 of 12, full marks 2 of 4", done.stdout)
    assert "not graded: fay: fay.zip has a path that leads out of it" in done.stdout


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

def test_a_broken_zip_is_refused_in_one_sentence(tmp_path):
    archive = tmp_path / "broken.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("lesson_05.ipynb", bytes(range(256)) * 40)
    data = bytearray(archive.read_bytes())
    data[60:200] = b"\xff" * 140  # in the middle of the compressed data
    archive.write_bytes(data)
    with pytest.raises(SubmissionError, match=r"^broken.zip cannot be unpacked: .*\.$"):
        unpack(archive, tmp_path / "out")
    (tmp_path / "text.zip").write_text("no zip at all", encoding="utf-8")
    with pytest.raises(SubmissionError, match=r"^text.zip cannot be unpacked: .*\.$"):
        unpack(tmp_path / "text.zip", tmp_path / "out")


def test_a_zip_that_lies_about_its_size_is_refused(tmp_path, monkeypatch):
    archive = tmp_path / "liar.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("zeros", b"\0" * 5000)
    monkeypatch.setattr("grading.entries.MAX_ZIP_BYTES", 1000)
    monkeypatch.setattr("grading.entries._check_members", lambda *_: None)
    with pytest.raises(SubmissionError, match="unpacks to more than"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "student"),
    [
        ("ann", "ann"),
        ("ann.zip", "ann"),
        ("ann.lesson_05.ipynb", "ann"),
        ("leeann_12345_678_lesson_05-2.ipynb", "leeann_12345_678"),  # as Canvas names them
        ("Ann Lee_12345_assignsubmission_file", "Ann Lee_12345_assignsubmission_file"),  # Moodle
        ("lesson_05.ipynb", "lesson_05.ipynb"),
    ],
)
def test_whose_entry_it_is(name, student):
    assert student_of(Path(name)) == student


def test_a_student_called_like_a_formula_stays_a_text(tmp_path):
    out = tmp_path / "grades.csv"
    line = Line("=1+1", ONE, "scheduler", 3, 12, "@home: a\nb")
    with out.open("w", newline="", encoding="utf-8-sig") as file:
        QuestionTable(file).add(line)
    [row] = csv.DictReader(out.open(encoding="utf-8-sig", newline=""))
    assert (row["student"], row["reason"]) == ("'=1+1", "'@home: a\nb")
    write_students(out, [line])
    [row] = csv.DictReader(out.open(encoding="utf-8-sig", newline=""))
    assert row == {"student": "'=1+1", ONE: "3", "total": "3"}


def test_an_answer_that_calls_the_check_itself_counts():
    notebook = submission()
    answer = solution_cell(notebook)
    answer.source += '\n\nfrom grading import check\ncheck("lesson_05", scheduler=MyScheduler)'
    [one] = grade_notebook(ONE, notebook)
    assert one.score == 12, repr(one.report)
    assert calls_the_grader("from grading import grade\n\n12")
    assert not calls_the_grader("from grading import check\nhelp = 1")


def test_what_fills_the_memory_does_not_cost_the_next_cell():
    cells = ("a = 1\nkept = []", "a = 2\nkept = [bytearray(8 << 40)]", "b = a")
    assert resolve({"b": FromCells("b", cells)}) == {"b": 1}


def test_cells_are_tried_once_for_all_questions(monkeypatch):
    tried = []
    survives = submission_module._survives
    monkeypatch.setattr(
        submission_module, "_survives", lambda cells: tried.append(cells) or survives(cells)
    )
    graded = grade_notebook("lesson_09", submission("lesson_09"))
    assert [one.score for one in graded] == [one.question.points for one in graded]
    assert len(tried) == 1


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


