"""Every check gives full marks to right code, less to wrong code, and nothing to a stub."""

from __future__ import annotations

from importlib import import_module

import pytest

from grading import EXERCISES, check


def label(objects):
    return "+".join(getattr(thing, "__name__", "?") for thing in objects.values())


CASES = [
    pytest.param(exercise, kind, objects, id=f"{exercise}-{kind}-{index}-{label(objects)}")
    for exercise in EXERCISES
    for kind in ("RIGHT", "WRONG", "STUBS")
    for index, objects in enumerate(getattr(import_module(f"grading.mutants.{exercise}"), kind))
]


@pytest.mark.parametrize(("exercise", "kind", "objects"), CASES)
def test_the_score_tells_right_from_wrong(exercise, kind, objects):
    report = check(exercise, **objects)
    if kind == "RIGHT":
        assert report.score == report.max, repr(report)
        assert report.first_failure is None
    elif kind == "STUBS":
        assert report.score == 0, repr(report)
    else:
        assert report.score < report.max, repr(report)
        assert report.first_failure.hint.endswith("?")


@pytest.mark.parametrize("exercise", EXERCISES)
def test_there_are_enough_of_each(exercise):
    mutants = import_module(f"grading.mutants.{exercise}")
    assert len(mutants.WRONG) >= 6
    assert len(mutants.RIGHT) >= 2
    assert len(mutants.STUBS) >= 1
    names = {name for objects in mutants.RIGHT for name in objects}
    exercise = import_module(f"grading.checks.{exercise}").EXERCISE
    assert names == set(exercise.objects)
