"""The hidden inputs: graded in the same process as the public ones, and never shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from grading import EXERCISES, check
from grading.exercise import Call, Exercise, Property, calls, equals, run_function
from grading.hidden import both, with_hidden
from grading.isolate import IN_PROCESS, ChildProcess
from grading.mutants import lesson_02
from grading.submission import questions


def wants_positive(calls_, **more):
    return Property(
        "doubled", 1, "What is twice it?", calls_, equals(lambda x: 2 * x), ("double",), **more
    )


def smaller(call):
    [number] = call.args["args"]
    if number > 1:
        yield Call(f"double({number - 1})", {"name": "double", "args": [number - 1]})


def test_all_public_inputs_come_before_the_first_hidden_one(monkeypatch):
    """Or the code could keep a hidden input, and tell it when a smaller public one is tried."""
    monkeypatch.setenv(IN_PROCESS, "1")
    seen = []

    def double(x):
        seen.append(x)
        raise ValueError(f"seen so far: {seen}")

    exercise = Exercise("doubles", run_function, (
        wants_positive(calls("double", [(1000,)]), hidden=True),
        wants_positive(calls("double", [(9,)]), smaller=smaller),
    ))  # fmt: skip
    report = exercise.check({"double": double})
    assert seen == [9, 8, 7, 6, 5, 4, 3, 2, 1, 1000]
    assert "1000" not in repr(report) + report._repr_html_()
    assert "ValueError" in repr(report.part(True))
    assert "seen" not in repr(report.part(True))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda x: x, "another answer"),
        (lambda x: {x}, "no answer that can be used"),
        (lambda x: 1 / 0, "ZeroDivisionError"),
        (lambda x: [][x], "IndexError"),
    ],
)
def test_what_came_of_a_hidden_input_is_told_without_it(monkeypatch, answer, says):
    monkeypatch.setenv(IN_PROCESS, "1")
    exercise = Exercise(
        "doubles", run_function, (wants_positive(calls("double", [(4321,)]), hidden=True),)
    )
    [group] = exercise.check({"double": answer}).groups
    assert (group.got, group.failing_call, group.hidden) == (says, "(a hidden input)", True)
    assert "4321" not in json.dumps(vars(group))


def test_public_and_hidden_inputs_share_one_process(monkeypatch):
    started = []
    start = ChildProcess._start
    monkeypatch.setattr(ChildProcess, "_start", lambda self: started.append(1) or start(self))
    [right, *_] = lesson_02.RIGHT
    report = both("lesson_02", **right)
    assert report.score == report.max == 14
    assert len(started) == 1


@pytest.mark.parametrize("exercise", EXERCISES)
def test_hidden_points_are_those_that_the_questions_have_beyond_the_public_ones(exercise):
    whole = with_hidden(exercise)
    for question in questions(exercise):
        own = [one for one in whole.properties if set(one.needs) <= set(question.objects)]
        assert sum(one.points for one in own) == question.points
        assert any(one.hidden for one in own)
    texts = [call.text for one in whole.properties if not one.hidden for call in one.calls]
    for one in whole.properties:
        if one.hidden:
            assert one.name.startswith("hidden: ")
            new = [call for call in one.calls if call.text not in texts]
            assert new or one.calls[0].text == "serving_config()"


def test_a_public_check_knows_no_hidden_input():
    [right, *_] = lesson_02.RIGHT
    report = check("lesson_02", **right)
    assert not any(group.hidden for group in report.groups)
    assert report.part(False) == report
    assert report.part(True) == replace(report, groups=())
