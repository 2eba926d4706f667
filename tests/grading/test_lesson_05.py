"""The check of exercise 5: right schedulers get full marks, each wrong one less, a stub nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grading import check, replay
from grading.checks import lesson_05
from grading.limits import Limits
from minillm.core import ContinuousScheduler, Scheduler, StaticScheduler

# ── right ones, written differently ─────────────────────────────────────────────────────────


class Straight(Scheduler):
    def schedule(self, now):
        budget, rows = self.config.max_num_batched_tokens, []
        for request in self.running:
            if budget:
                rows.append(self.continue_(request, min(request.num_remaining, budget)))
                budget -= rows[-1].num_tokens
        while self.waiting and budget:
            row = self.admit(self.waiting[0], budget)
            if row is None:
                break
            rows.append(row)
            budget -= row.num_tokens
        return self.output(rows)


class ByHelpers(Scheduler):
    """Decodes first, then prefills; a generator; counts slots itself."""

    def schedule(self, now):
        return self.output(list(self.rows()))

    def rows(self):
        left = self.config.max_num_batched_tokens
        for request in sorted(self.running, key=lambda r: r.num_remaining > 1):
            tokens = min(left, request.num_remaining)
            if tokens > 0:
                left -= tokens
                yield self.continue_(request, tokens)
        free = self.config.max_num_seqs - len(self.running)
        for request in list(self.waiting)[:free]:
            if left <= 0:
                return
            row = self.admit(request, left)
            left -= row.num_tokens
            yield row


# ── wrong ones ──────────────────────────────────────────────────────────────────────────────


class Empty(Scheduler):
    def schedule(self, now):
        return self.output([])


class NotWritten(Scheduler):
    def schedule(self, now):
        raise NotImplementedError


class ReturnsNothing(Scheduler):
    def schedule(self, now):
        pass


class OneAtATime(Scheduler):
    """The stub of the lesson: correct, but it does not batch."""

    def schedule(self, now):
        budget = self.config.max_num_batched_tokens
        if self.running:
            request = self.running[0]
            return self.output([self.continue_(request, min(request.num_remaining, budget))])
        if self.waiting:
            return self.output([self.admit(self.waiting[0], budget)])
        return self.output([])


class LastComeFirst(Straight):
    def schedule(self, now):
        self.waiting.reverse()
        plan = super().schedule(now)
        self.waiting.reverse()
        return plan


class ShortestFirst(Straight):
    def schedule(self, now):
        ordered = sorted(self.waiting, key=lambda r: r.num_tokens)
        self.waiting.clear()
        self.waiting.extend(ordered)
        return super().schedule(now)


class OneSlotShort(Straight):
    """Off by one: never fills the last slot (unless there is only one)."""

    def schedule(self, now):
        held = []
        while self.waiting and len(self.waiting) + len(self.running) >= self.config.max_num_seqs:
            if len(self.running) + len(self.waiting) <= 1:
                break
            held.append(self.waiting.pop())
        plan = super().schedule(now)
        self.waiting.extend(reversed(held))
        return plan


class WaitsForTheBatch(Straight):
    """Nobody joins while somebody runs: static batching without padding."""

    def schedule(self, now):
        held = list(self.waiting) if self.running else []
        if held:
            self.waiting.clear()
        plan = super().schedule(now)
        self.waiting.extend(held)
        return plan


class AdmitsOneAStep(Straight):
    def schedule(self, now):
        held = [self.waiting.pop() for _ in range(len(self.waiting) - 1)]
        plan = super().schedule(now)
        self.waiting.extend(reversed(held))
        return plan


class IgnoresTheBudget(Scheduler):
    def schedule(self, now):
        rows = [self.continue_(request, request.num_remaining) for request in self.running]
        while self.waiting:
            row = self.admit(self.waiting[0], self.waiting[0].num_tokens)
            if row is None:
                break
            rows.append(row)
        return self.output(rows)


class OneTokenTooMany(Straight):
    def schedule(self, now):
        if self.running:
            return self.output([self.continue_(r, r.num_remaining + 1) for r in self.running])
        return super().schedule(now)


class TwoRows(Straight):
    def schedule(self, now):
        plan = super().schedule(now)
        return self.output([*plan.rows, *plan.rows[:1]])


class StallsTheOthers(Scheduler):
    """Whoever is admitted makes all running requests wait for a step."""

    def schedule(self, now):
        budget, rows = self.config.max_num_batched_tokens, []
        while self.waiting and budget:
            row = self.admit(self.waiting[0], budget)
            if row is None:
                break
            rows.append(row)
            budget -= row.num_tokens
        if rows:
            return self.output(rows)
        for request in self.running:
            if budget:
                rows.append(self.continue_(request, min(request.num_remaining, budget)))
                budget -= rows[-1].num_tokens
        return self.output(rows)


class PreemptsForFun(Straight):
    """Throws work away: recomputes a request after its second token."""

    def schedule(self, now):
        for request in list(self.running):
            if request.num_output_tokens == 2 and not request.num_preemptions:
                self.preempt(request)
        return super().schedule(now)


class ForgetsOne(Straight):
    """Drops a request of the queue when all slots are taken."""

    def schedule(self, now):
        plan = super().schedule(now)
        if len(self.waiting) > 1:
            self.waiting.pop()
        return plan


class StopsEarly(Straight):
    """Ends requests one token early."""

    def update(self, plan, result):
        for row in plan.rows:
            row.request.max_tokens = max(1, row.request.max_tokens - (len(plan.rows) > 1))
        return super().update(plan, result)


class Raises(Straight):
    def schedule(self, now):
        if len(self.running) > 1:
            return self.output([self.running[5]])
        return super().schedule(now)


RIGHT = [Straight, ByHelpers, ContinuousScheduler]
NOTHING = [Empty, NotWritten, ReturnsNothing, OneAtATime]
WRONG = [
    LastComeFirst, ShortestFirst, OneSlotShort, WaitsForTheBatch, AdmitsOneAStep, IgnoresTheBudget,
    OneTokenTooMany, TwoRows, StallsTheOthers, PreemptsForFun, ForgetsOne, StopsEarly, Raises,
    StaticScheduler,
]  # fmt: skip


def names(schedulers):
    return [scheduler.__name__ for scheduler in schedulers]


@pytest.mark.parametrize("scheduler", RIGHT, ids=names(RIGHT))
def test_right_ones_get_full_marks(scheduler):
    report = check("lesson_05", scheduler=scheduler)
    assert report.score == report.max == 10, repr(report)
    assert report.first_failure is None
    assert report.headline == "All 6 properties hold."


@pytest.mark.parametrize("scheduler", NOTHING, ids=names(NOTHING))
def test_what_does_not_batch_gets_nothing(scheduler):
    report = check("lesson_05", scheduler=scheduler)
    assert report.score == 0, repr(report)


@pytest.mark.parametrize("scheduler", WRONG, ids=names(WRONG))
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
