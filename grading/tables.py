"""Grades as CSV files that a spreadsheet opens, and as a summary for the terminal."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import TextIO

COLUMNS = ("student", "exercise", "question", "score", "max", "reason")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would compute a cell that begins so


@dataclass(frozen=True)
class Line:
    """A question of a student. An unreadable submission has one line with an empty exercise."""

    student: str
    exercise: str
    question: str
    score: float
    max: float
    reason: str


class QuestionTable:
    """A CSV with a line a question, written as it comes: what is graded is never lost."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._writer = file, csv.writer(file)
        self._writer.writerow(COLUMNS)

    def add(self, line: Line) -> None:
        self._writer.writerow([_cell(value) for value in astuple(line)])
        self._file.flush()


def write_students(path: Path, lines: Sequence[Line]) -> None:
    """A CSV with a line a student: points of each exercise (empty: not handed in), and in all."""
    names = sorted({line.exercise for line in lines if line.exercise})
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["student", *names, "total"])
        for student in dict.fromkeys(line.student for line in lines):
            own = [line for line in lines if line.student == student]
            scores = [_sum(own, name) for name in names]
            total = sum(score for score in scores if score is not None)
            writer.writerow([_cell(student), *map(_points, scores), _points(total)])


def beside(path: Path) -> Path:
    """Where the table of students belongs: grades.csv → grades_by_student.csv."""
    return path.with_name(f"{path.stem}_by_student{path.suffix}")


def summary(lines: Sequence[Line]) -> Iterator[str]:
    """Lines for the terminal: each question's mean, and who could not be graded."""
    students = len({line.student for line in lines})
    yield f"{students} student{'s' if students != 1 else ''}"
    questions = dict.fromkeys((one.exercise, one.question) for one in lines if one.exercise)
    for exercise, question in sorted(questions):
        own = [one for one in lines if (one.exercise, one.question) == (exercise, question)]
        full = sum(one.score >= one.max for one in own)
        mean = fmean(one.score for one in own)
        yield (
            f"  {exercise} {question:24} mean {mean:5.1f} of {own[0].max:g}, "
            f"full marks {full} of {len(own)}"
        )
    for line in lines:
        if not line.exercise:
            yield f"  not graded: {line.student}: {line.reason}"


def _sum(lines: Iterable[Line], exercise: str) -> float | None:
    own = [line.score for line in lines if line.exercise == exercise]
    return sum(own) if own else None


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _cell(value: object) -> object:
    """A value as it is safe in a spreadsheet: a text that looks like a formula stays a text."""
    if isinstance(value, float):
        return _points(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
