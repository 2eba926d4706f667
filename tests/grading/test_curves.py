"""The curves of a check: right and yours on one scale, whatever the student's numbers are."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from grading import check
from grading.curves import curves
from grading.mutants.lesson_01 import one_after_the_other, step_time


def test_the_right_curve_stands_behind_the_students():
    pictures = dict(curves([1, 2, 4], [1.0, 1.0, 2.0], [1.0, 2.0, 4.0], "seconds over the batch"))
    right, yours = (ElementTree.fromstring(pictures[name]) for name in ("A right one", "Yours"))
    assert len(right.findall("polyline")) == 1
    assert len(yours.findall("polyline")) == 2
    assert "1: 1; 2: 2; 4: 4" in yours.get("aria-label")


@pytest.mark.parametrize("given", [None, "no", [0.0, -1, None], [float("inf")], [True, [], {}]])
def test_what_cannot_be_drawn_is_left_out(given):
    pictures = dict(curves([1, 2, 4], [1.0, 1.0, 2.0], given, "seconds over the batch"))
    assert "no number above 0" in pictures["Yours"]
    ElementTree.fromstring(pictures["Yours"])


def test_a_failing_curve_of_exercise_1_is_drawn():
    report = check("lesson_01", step_time=one_after_the_other)
    group = next(group for group in report.groups if group.name.startswith("flat before"))
    assert not group.passed
    assert [title for title, _ in group.pictures] == ["A right one", "Yours"]
    call = group.failing_call
    assert eval(call, {"one_after_the_other": one_after_the_other, "step_time": step_time})
