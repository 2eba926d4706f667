"""Checks of the exercises: properties of a student's code, with the smallest failing input.

`check(exercise, …)` returns a CheckReport; `replay(…)` shows one failing input again.
"""

from __future__ import annotations

import os
from importlib import import_module

from grading.replay import replay
from grading.report import CheckReport, Group, show

EXERCISES = (
    "lesson_01", "lesson_02", "lesson_03", "lesson_04", "lesson_05", "lesson_06", "lesson_07",
    "lesson_08", "lesson_09", "lesson_10", "lesson_11", "lesson_12",
)  # fmt: skip


def check(exercise: str, **objects: object) -> CheckReport:
    """Check the student's objects, given by name: check("lesson_05", scheduler=MyScheduler).

    A check of all that the exercise asks for goes into the student's progress. Raises ValueError
    for an unknown exercise; what the student's code does is in the report.
    """
    report = examine(exercise, **objects)
    if set(import_module(f"grading.checks.{exercise}").EXERCISE.objects) <= set(objects):
        from widgets import progress_file  # only here: graders have no widgets

        progress_file.checked(exercise, report.score, report.max)
    return report


def examine(exercise: str, **objects: object) -> CheckReport:
    """What `check` gives, and nothing is kept of it: for grading."""
    if exercise not in EXERCISES:
        raise ValueError(f"Unknown exercise {exercise!r}: choose one of {', '.join(EXERCISES)}.")
    return import_module(f"grading.checks.{exercise}").EXERCISE.check(objects)


def grade(exercise: str, **objects: object) -> float | None:
    """Check an object, show the report, and give its points: a graded notebook's test cell.

    `nbgrader validate` compares with all points, and the hidden ones cannot be had in a student's
    copy. Under it full public marks give None, which it takes for a solved cell.
    """
    report = examine(exercise, **objects)
    score = show(report)
    is_validated = os.environ.get("NBGRADER_VALIDATING") == "1"
    return None if is_validated and score == report.max else score


__all__ = ["EXERCISES", "CheckReport", "Group", "check", "examine", "grade", "replay"]
