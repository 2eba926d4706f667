"""The check of exercise 5: right schedulers get full marks, each wrong one less, a stub nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grading import check, replay
from grading.checks import lesson_05
from grading.limits import Limits
from grading.mutants.lesson_05 import (
    WRONG,
    AdmitsOneAStep,
    ForgetsOne,
    IgnoresTheBudget,
    LastComeFirst,
    OneSlotShort,
    OneTokenTooMany,
    PreemptsForFun,
    ShortestFirst,
    StallsTheOthers,
    Straight,
    TwoRows,
    WaitsForTheBatch,
)
from minillm.core import Scheduler

SCHEDULERS = [objects["scheduler"] for objects in WRONG]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.__name__)
def test_each_wrong_one_gets_less_and_can_be_replayed(scheduler):
    report = check("lesson_05", scheduler=scheduler)
    assert report.score < report.max, repr(report)
    failure = report.first_failure
    assert failure.hint.endswith("?")
    assert failure.expected
    assert failure.got
    run = eval(failure.failing_call, {"replay": replay, scheduler.__name__: scheduler})
    assert f"{len(run.trace.steps)} step" in repr(run)
    assert all("<svg" in html for _, html in failure.pictures)


@pytest.mark.parametrize(
    ("scheduler", "property_name"),
    [
        (LastComeFirst, "first come, first served"),
        (ShortestFirst, "first come, first served"),
        (OneSlotShort, "no idle slot while a request waits"),
        (WaitsForTheBatch, "no idle slot while a request waits"),
        (AdmitsOneAStep, "no idle slot while a request waits"),
        (StallsTheOthers, "no idle slot while a request waits"),
        (IgnoresTheBudget, "at most max_num_seqs rows and max_num_batched_tokens tokens a step"),
        (OneTokenTooMany, "every request gets every token once"),
        (PreemptsForFun, "every request gets every token once"),
        (ForgetsOne, "every request gets every token once"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_property_that_is_broken_is_named(scheduler, property_name):
    failed = [g.name for g in check("lesson_05", scheduler=scheduler).groups if not g.passed]
    assert property_name in failed


def test_a_single_mistake_leaves_the_other_points():
    assert check("lesson_05", scheduler=LastComeFirst).score == 8
    assert check("lesson_05", scheduler=IgnoresTheBudget).score == 9


def test_the_smallest_failing_input_is_small():
    failure = check("lesson_05", scheduler=LastComeFirst).first_failure
    assert failure.failing_call == "replay(LastComeFirst, [(0, 1, 1), (0, 1, 1)], max_num_seqs=2)"
    assert failure.expected == "admitted in the order A B"
    assert failure.got == "B A"


def test_a_contract_error_names_step_and_request():
    failure = check("lesson_05", scheduler=OneTokenTooMany).first_failure
    assert "request A" in failure.got
    assert "Step 1" in failure.got


def test_the_check_is_the_same_each_time():
    first, second = (repr(check("lesson_05", scheduler=OneSlotShort)) for _ in range(2))
    assert first == second


def test_an_endless_loop_ends_with_a_message():
    class Endless(Scheduler):
        def schedule(self, now):
            while True:
                pass

    exercise = replace(lesson_05.EXERCISE, limits=Limits(call_s=0.5))
    report = exercise.check({"scheduler": Endless})
    assert report.score == 0
    assert "did not end within 0.5 s" in repr(report)
    assert check("lesson_05", scheduler=Straight).score == 10  # and nothing is left behind


@pytest.mark.parametrize("thing", [None, Straight.schedule, object, "Straight"])
def test_only_a_scheduler_class_can_be_checked(thing):
    with pytest.raises(ValueError, match="a subclass of Scheduler"):
        check("lesson_05", scheduler=thing)


def test_an_unknown_exercise_is_named():
    with pytest.raises(ValueError, match="Unknown exercise 'lesson_99'"):
        check("lesson_99")


def test_the_report_as_html_is_escaped_and_needs_no_script():
    html = check("lesson_05", scheduler=TwoRows)._repr_html_()
    assert "<script" not in html
    assert "http" not in html
    assert 'role="img" aria-label="fails"' in html


def test_a_replay_is_drawn_as_text():
    run = replay(Straight, [(0, 4, 4), (0, 4, 1), (0, 4, 2)], max_num_seqs=2)
    assert run.diagram() == [" A pddd", " B p", " C ·pd"]
    static = replay("static", [(0, 4, 3), (0, 4, 1)], max_num_seqs=2)
    assert static.diagram() == [" A pdd", " B pxx"]


@pytest.mark.parametrize("request_", [(-1, 4, 4), (0, 0, 4), (0, 4, 0)])
def test_a_replay_of_nonsense_is_refused(request_):
    with pytest.raises(ValueError, match="A request is"):
        replay(Straight, [request_])
