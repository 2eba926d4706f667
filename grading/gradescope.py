"""Grades one submission for Gradescope: /autograder/submission → /autograder/results/results.json.

Run by the script run_autograder of the zip that grading/gradescope_zip.py makes. The file follows
https://gradescope-autograders.readthedocs.io/en/latest/specs/: two tests a question, one for the
public checks, shown at once, and one for the hidden inputs, shown when the grades are published. It
is written before the first question and again after each one, so it is there whatever happens.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from grading.build import exercises
from grading.child import NO_EXERCISE
from grading.entries import NAME, notebooks
from grading.hidden import with_hidden
from grading.isolate import MEMORY_MB, USER, ChildProcess
from grading.limits import Limits
from grading.submission import (
    Graded,
    Question,
    SubmissionError,
    graded,
    questions,
    read_notebook,
)

ALL_SECONDS = 480  # Gradescope ends an autograder after 10 minutes, and then nothing counts
STUDENT = "student"  # setup.sh makes this user where it runs as root
MEMORY_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
SHARE_OF_MEMORY = 0.6  # for the checked code; the rest is for the grader and the system
FAULT = "The autograder failed, which is no fault of yours: please tell your instructor."


@dataclass
class Entry:
    """The two tests of a question."""

    exercise: str
    number: str
    question: Question
    worth: tuple[float, float]  # public points, hidden points
    scores: tuple[float, float] = (0, 0)
    texts: tuple[str, str] = ("Not graded.", "Not graded.")

    def tests(self) -> Iterable[dict]:
        """Both, as results.json has them."""
        title = f"Exercise {int(self.exercise[-2:])}: {self.question.name}"
        for hidden, mark in ((False, ""), (True, "h")):
            if self.worth[hidden]:
                yield {
                    "name": f"{title}, hidden inputs" if hidden else title,
                    "number": self.number + mark,
                    "score": self.scores[hidden],
                    "max_score": self.worth[hidden],
                    "output": self.texts[hidden],
                    "visibility": "after_published" if hidden else "visible",
                }

    def say(self, text: str) -> None:
        """Why there are no points."""
        self.texts = (text, text)

    def take(self, one: Graded) -> None:
        """What came of it."""
        public, hidden = one.report.part(False), one.report.part(True)
        self.scores = (min(public.score, self.worth[0]), min(hidden.score, self.worth[1]))
        self.texts = (repr(public), repr(hidden) if hidden.groups else repr(public))


class Results:
    """The file results.json."""

    def __init__(self, path: Path, wanted: Iterable[str]) -> None:
        self._path, self._start = path, time.monotonic()
        self.note = ""
        self.entries = {
            (exercise, question.name): Entry(
                exercise, f"{int(exercise[-2:])}.{place}", question, worth(exercise, question)
            )
            for exercise in wanted
            for place, question in enumerate(questions(exercise), 1)
        }
        self.write()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def of(self, exercise: str) -> list[Entry]:
        return [entry for (name, _), entry in self.entries.items() if name == exercise]

    def write(self) -> None:
        """Replace the file whole: whenever somebody reads it, it is complete."""
        data = {
            "tests": [test for entry in self.entries.values() for test in entry.tests()],
            "output": self.note,
            "execution_time": round(self.seconds),
            "stdout_visibility": "hidden",
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".part")
        draft.write_text(json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8")
        draft.replace(self._path)


def worth(exercise: str, question: Question) -> tuple[float, float]:
    """(public points, hidden points) of a question."""
    properties = with_hidden(exercise).properties
    own = [prop for prop in properties if set(prop.needs) <= set(question.objects)]
    hidden = sum(prop.points for prop in own if prop.hidden)
    return sum(prop.points for prop in own) - hidden, hidden


def grade_submission(submission: Path, results: Results) -> None:
    """Grade all that is handed in, and write the results after each question."""
    wanted = list(dict.fromkeys(exercise for exercise, _ in results.entries))
    with TemporaryDirectory(prefix="minillm-grade-") as scratch:
        try:
            found = find(submission, wanted, Path(scratch))
        except SubmissionError as error:
            found, results.note = {}, str(error)
        for exercise in wanted:
            if exercise in found:
                _grade_exercise(exercise, found[exercise], results)
            else:
                for entry in results.of(exercise):
                    entry.say(f"No notebook named like {exercise}.ipynb was handed in.")
    if not found and not results.note:
        names = sorted(path.name for path in submission.glob("*"))[:10]
        results.note = (
            f"No notebook named like {wanted[0]}.ipynb was found in what you handed in: "
            f"{', '.join(names) or 'nothing'}."
        )


def find(submission: Path, wanted: list[str], scratch: Path) -> dict[str, Path]:
    """Exercise → notebook. Where one exercise is asked for, a notebook that names none is it."""
    found = notebooks(submission, scratch)
    others = [
        path
        for path in submission.rglob("*.ipynb")
        if not path.is_symlink() and not NAME.search(path.name)
    ]
    if not found and len(wanted) == len(others) == 1:
        found = {wanted[0]: others[0]}
    return found


def _grade_exercise(exercise: str, path: Path, results: Results) -> None:
    try:
        notebook = read_notebook(path)
    except SubmissionError as error:
        for entry in results.of(exercise):
            entry.say(str(error))
        return
    left = results.of(exercise)
    grading = graded(exercise, notebook)
    while left and results.seconds < ALL_SECONDS:
        entry, one = left.pop(0), next(grading)
        entry.take(one)
        print(f"{exercise} {one.question.name}: {one.score:g} of {one.question.points:g}")
        results.write()
    for entry in left:
        entry.say(
            f"Not graded: the questions before it took the {ALL_SECONDS} s that there are. "
            "Hand in again without what does not end."
        )


def use_this_container() -> None:
    """Let the checked code run as a user without rights, and leave memory for the grader."""
    for name in MEMORY_FILES:
        try:
            most = int(Path(name).read_text(encoding="ascii")) >> 20
        except (OSError, ValueError):  # not there, or "max"
            continue
        os.environ.setdefault(MEMORY_MB, str(int(most * SHARE_OF_MEMORY)))
        break
    if hasattr(os, "geteuid") and os.geteuid() == 0 and USER not in os.environ:
        os.environ[USER] = STUDENT
        try:
            with ChildProcess(NO_EXERCISE, {"cells": ()}, Limits()) as child:
                works = not child.starts().died
        except (KeyError, OSError):  # there is no such user
            works = False
        if not works:
            del os.environ[USER]


def main() -> int:
    root = Path(sys.argv[1])
    results = Results(root / "results" / "results.json", exercises())
    try:
        use_this_container()
        grade_submission(root / "submission", results)
    except Exception:  # ours: tell both sides, keep what is graded
        results.note = FAULT
        traceback.print_exc(file=sys.stdout)
    results.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
