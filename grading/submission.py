"""Grades a submitted notebook from its text: no kernel, no trust in its marks.

What counts is our own source of the exercise: which questions there are, and their points. From the
submission only the code cells are taken. A question whose cells end or hang the process is tried
again without the other questions' cells, so that nobody's question costs another one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import shorten

import nbformat
from nbformat import NotebookNode

from grading.build import Block, blocks
from grading.cells import FromCells, defines, python_lines
from grading.child import NO_EXERCISE
from grading.exercise import NO_ANSWER
from grading.isolate import ChildProcess
from grading.limits import Limits
from grading.report import CheckReport, Group

MAX_NOTEBOOK_BYTES = 8 << 20
MAX_SHOWN = 200  # characters of an answer in a reason


class SubmissionError(ValueError):
    """A file that is no notebook, in one sentence."""


@dataclass(frozen=True)
class Question:
    """One test of an exercise. objects: name that `check` knows → name in the student's cells."""

    name: str
    points: float
    objects: dict[str, str]


@dataclass(frozen=True)
class Graded:
    """A question's result. report: what it shows. notes: what was wrong with the notebook."""

    question: Question
    report: CheckReport

    @property
    def score(self) -> float:
        return min(self.report.score, self.question.points)

    @property
    def reason(self) -> str:
        """Why points are missing, in one sentence; empty for full marks."""
        failure = self.report.first_failure
        if failure is None:
            return self.report.remark
        if failure.expected == NO_ANSWER:
            return f"{failure.name}: {failure.got}"
        expected, got = (shorten(text, MAX_SHOWN) for text in (failure.expected, failure.got))
        return f"{failure.name}: expected {expected}, got {got}"


def questions(exercise: str) -> list[Question]:
    """The questions of an exercise, in order."""
    return [_question(block) for block in blocks(exercise) if block.kind == "test"]


def _question(block: Block) -> Question:
    call = ast.parse(block.text, mode="eval").body
    objects = {keyword.arg: keyword.value.id for keyword in call.keywords}
    return Question(block.name, block.points, objects)


def read_notebook(path: Path) -> NotebookNode:
    """A submitted notebook. Raises SubmissionError for anything else."""
    if path.stat().st_size > MAX_NOTEBOOK_BYTES:
        raise SubmissionError(
            f"{path.name} has {path.stat().st_size:,} bytes; {MAX_NOTEBOOK_BYTES:,} are accepted."
        )
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # whatever a broken file makes nbformat raise
        raise SubmissionError(f"{path.name} is no notebook: {type(error).__name__}.") from error


def student_sources(notebook: NotebookNode) -> list[str]:
    """The student's code cells in order: all but those that only call the grader."""
    code = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    return [source for source in code if not calls_the_grader(source)]


def calls_the_grader(source: str) -> bool:
    """Whether this is a test cell, edited or not: it takes the grader and makes nothing itself."""
    try:
        body = ast.parse(python_lines(source)).body
    except (SyntaxError, ValueError):
        return False
    makes = any(not isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) for node in body)
    return "from grading" in source and not makes


def grade_notebook(exercise: str, notebook: NotebookNode, *, hidden: bool = True) -> list[Graded]:
    """Every question of the exercise, graded; nothing a notebook does raises here."""
    return list(graded(exercise, notebook, hidden=hidden))


def graded(exercise: str, notebook: NotebookNode, *, hidden: bool = True) -> Iterator[Graded]:
    """The same, one question after the other, as each is done."""
    sources = student_sources(notebook)
    survives = lru_cache(maxsize=None)(_survives)  # most questions try the same cells
    for question in questions(exercise):
        chosen = _chosen(_attempts(exercise, question, sources), survives)
        yield Graded(question, _report(exercise, question, chosen, hidden))


def _report(
    exercise: str, question: Question, sources: tuple[str, ...], hidden: bool
) -> CheckReport:
    from grading import examine
    from grading.hidden import both

    objects = {key: FromCells(name, sources) for key, name in question.objects.items()}
    try:
        return (both if hidden else examine)(exercise, **objects)
    except Exception as error:  # a fault of ours must not cost the other questions
        failure = Group("can be checked", False, 0, question.points, "", "", NO_ANSWER, str(error))
        return CheckReport(exercise, (failure,))


def _attempts(
    exercise: str, question: Question, sources: list[str]
) -> Iterator[tuple[str, ...]]:
    """The cells to run: all; without the other questions'; our plain ones and this question's."""
    names = list(question.objects.values())
    others = [
        name
        for other in questions(exercise)
        for name in other.objects.values()
        if name not in names
    ]

    def is_own(source: str) -> bool:
        return any(defines(source, name) for name in names)

    yield tuple(sources)
    yield tuple(
        source
        for source in sources
        if is_own(source) or not any(defines(source, name) for name in others)
    )
    ours = [block.text for block in blocks(exercise) if block.kind == "plain"]
    yield (*ours, *(source for source in sources if is_own(source)))


def _chosen(
    attempts: Iterable[tuple[str, ...]], survives: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...]:
    """The first of these whose cells leave their process alive, or the last."""
    *earlier, last = attempts
    return next((sources for sources in earlier if survives(sources)), last)


def _survives(sources: tuple[str, ...]) -> bool:
    with ChildProcess(NO_EXERCISE, {"cells": sources}, Limits()) as child:
        return not child.starts().died
