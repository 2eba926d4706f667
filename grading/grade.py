"""Grades a folder of submissions into a CSV: `make grade DIR=submissions OUT=grades.csv`.

The folder has an entry a student: a folder (with notebooks in it, or in folders inside it), a
notebook named student.lesson_05.ipynb, or a zip of either. OUT gets a line a question: student,
exercise, question, score, max, and why points are missing; OUT_by_student a line a student. One
student's fault never stops the others.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grading.build import exercises
from grading.entries import notebooks, student_of
from grading.submission import SubmissionError, graded, questions, read_notebook
from grading.tables import Line, QuestionTable, beside, summary, write_students


def grade_folder(folder: Path, *, hidden: bool = True) -> Iterator[Line]:
    """The lines of every student in the folder, in order of name."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith("."):
            yield from grade_entry(entry, hidden=hidden)


def grade_entry(entry: Path, *, hidden: bool = True) -> Iterator[Line]:
    """The lines of one student."""
    student = student_of(entry)
    with tempfile.TemporaryDirectory(prefix="minillm-grade-") as scratch:
        try:
            found = notebooks(entry, Path(scratch))
        except (SubmissionError, OSError) as error:
            yield Line(student, "", "", 0, 0, str(error))
            return
        if not found:
            names = f"{exercises()[0]} … {exercises()[-1]}"
            yield Line(student, "", "", 0, 0, f"No notebook named like {names} was found.")
        for exercise, path in sorted(found.items()):
            yield from _grade_one(student, exercise, path, hidden)


def _grade_one(student: str, exercise: str, path: Path, hidden: bool) -> Iterator[Line]:
    try:
        notebook = read_notebook(path)
    except SubmissionError as error:
        for question in questions(exercise):
            yield Line(student, exercise, question.name, 0, question.points, str(error))
        return
    for one in graded(exercise, notebook, hidden=hidden):
        question = one.question
        yield Line(student, exercise, question.name, one.score, question.points, one.reason)


def progress(line: Line) -> str:
    """What is printed of a line while the others are graded."""
    if not line.exercise:
        return f"{line.student}: not graded. {line.reason}"
    where = f"{line.student} {line.exercise} {line.question}"
    return f"{where}: {line.score:g} of {line.max:g}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m grading.grade", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("folder", type=Path, help="the folder with an entry a student")
    parser.add_argument("out", type=Path, help="the CSV to write")
    parser.add_argument("--public", action="store_true", help="without the hidden checks")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder: give one with an entry a student.")
    if options.out.is_dir() or not os.access(options.out.resolve().parent, os.W_OK):
        parser.error(f"{options.out} cannot be written.")
    lines = []
    with options.out.open("w", newline="", encoding="utf-8-sig") as file:
        table = QuestionTable(file)
        for line in grade_folder(options.folder, hidden=not options.public):
            table.add(line)
            lines.append(line)
            print(progress(line))
    write_students(beside(options.out), lines)
    print("", *summary(lines), sep="\n")
    print(f"\n{options.out}: a line a question; {beside(options.out)}: a line a student")
    return 0


if __name__ == "__main__":
    sys.exit(main())
