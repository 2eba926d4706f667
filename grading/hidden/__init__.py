"""The hidden half of the checks: other inputs, for the instructor's machine alone.

Each group counts whole or not at all, and its report names no input. Students' copies of the
course come without this folder.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from grading.exercise import Exercise
from grading.report import CheckReport, show


def grade(exercise: str, **objects: object) -> float:
    """Check an object publicly and with the hidden inputs, show both, and give all its points."""
    return show(both(exercise, **objects))


def both(exercise: str, **objects: object) -> CheckReport:
    """The public report with the hidden groups behind its own, from one process."""
    return with_hidden(exercise).check(objects)


def with_hidden(exercise: str) -> Exercise:
    """The exercise with its hidden properties behind the public ones, and time for both."""
    public = import_module(f"grading.checks.{exercise}").EXERCISE
    hidden = import_module(f"grading.hidden.{exercise}").EXERCISE
    limits = public.limits
    return replace(
        public,
        properties=public.properties
        + tuple(replace(one, name=f"hidden: {one.name}", hidden=True) for one in hidden.properties),
        limits=replace(limits, total_s=2 * limits.total_s, cpu_s=2 * limits.cpu_s),
    )
