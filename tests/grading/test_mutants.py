"""Every check gives full marks to right code, less to wrong code, and nothing to a stub."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import pytest

from grading import EXERCISES, check
from grading.submission import questions


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
def test_each_question_has_enough_of_each(exercise):
    """Six wrong ones, two right ones and a stub for each function or class that is asked for."""
    mutants = import_module(f"grading.mutants.{exercise}")
    names = import_module(f"grading.checks.{exercise}").EXERCISE.objects
    assert {name for one in questions(exercise) for name in one.objects} == set(names)
    for kind, least in (("RIGHT", 2), ("WRONG", 6), ("STUBS", 1)):
        entries = getattr(mutants, kind)
        different = {(name, id(thing)) for objects in entries for name, thing in objects.items()}
        counts = Counter(name for name, _ in different)
        assert set(counts) == set(names), kind
        assert all(counts[name] >= least for name in names), (kind, counts)
    assert all(len(objects) == 1 for objects in mutants.WRONG), "a wrong one stands alone"
