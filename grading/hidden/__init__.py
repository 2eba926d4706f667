"""The hidden half of the checks: other inputs, for the instructor's machine alone.

Each group counts whole or not at all, and its report names no input. Students' copies of the
course come without this folder.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from grading import examine
from grading.report import CheckReport, show


def grade(exercise: str, **objects: object) -> float:
    """Check an object publicly and with the hidden inputs, show both, and give all its points."""
    return show(both(exercise, **objects))


def both(exercise: str, **objects: object) -> CheckReport:
    """The public report with the hidden groups behind its own."""
    public = examine(exercise, **objects)
    hidden = import_module(f"grading.hidden.{exercise}").EXERCISE.check(objects)
    groups = tuple(
        replace(group, name=f"hidden: {group.name}", failing_call="(a hidden input)", pictures=())
        for group in hidden.groups
    )
    return CheckReport(exercise, public.groups + groups, public.remark)
