"""Each rule that a scheduler can break, the message it gets, and the engine that survives it."""

import pytest

from minillm.core import (
    ContinuousScheduler,
    SamplingParams,
    Scheduler,
    SchedulerContractError,
    SchedulerOutput,
)
from tests.core.helpers import assert_idle, make_engine, run_all, solo

PARAMS = SamplingParams(max_tokens=4, ignore_eos=True)


class Broken(ContinuousScheduler):
    """Continuous batching whose plan of step 1 is spoiled by `spoil(self, plan)`."""

    spoil = staticmethod(lambda scheduler, plan: plan)

    def schedule(self, now):
        plan = super().schedule(now)
        return type(self).spoil(self, plan) if self.step_id == 1 else plan


def edit(**changes):
    """Spoil the first row by replacing fields."""

    def spoil(scheduler, plan):
        plan.rows[0] = plan.rows[0]._replace(**changes)
        return plan

    return spoil


def twice(scheduler, plan):
    plan.rows.append(plan.rows[0])
    return plan


def stranger(scheduler, plan):
    other = make_engine().add_request("stranger", [1], PARAMS)
    plan.rows[0] = plan.rows[0]._replace(request=other)
    return plan


def nothing(scheduler, plan):
    plan.rows.clear()
    return plan


def too_many_running(scheduler, plan):
    scheduler.running.extend(scheduler.running * 9)
    return plan


def raises(scheduler, plan):
    return plan.rows[7]


CASES = [
    (lambda s, p: None, r"schedule\(\) must return self.output\(rows\)", "NoneType", False),
    (lambda s, p: p.rows.__setitem__(0, "row") or p, "each row must come from", "str", False),
    (twice, "only one row in a step", "2 or more", True),
    (stranger, "a request that the engine knows", "stranger", True),
    (edit(start=0), "a row starts where the KV ends.*Expected 3, got 0", "", True),
    (edit(num_tokens=0), "at least 1 token and no more than remain.*Expected 1, got 0", "", True),
    (edit(num_tokens=2), "no more than remain.*Expected 1, got 2", "", True),
    (edit(num_padding=-1), "padding cannot be negative", "", True),
    (edit(samples=False), "samples exactly when it catches up.*True, got False", "", True),
    (edit(block_ids=(7,)), "its request's block table", "", True),
    (edit(is_dead=True), "a dead row is a finished request", "", True),
    (nothing, "a step makes progress.*got no row with 2 running", "", False),
    (too_many_running, "at most max_num_seqs running requests.*at most 8, got 20", "", False),
    (raises, r"schedule\(\) raised IndexError: list index out of range", "", False),
]


@pytest.mark.parametrize(("spoil", "rule", "got", "names_request"), CASES)
def test_a_broken_rule_is_named_and_the_engine_goes_on(spoil, rule, got, names_request):
    scheduler = type("Spoiled", (Broken,), {"spoil": staticmethod(spoil)})
    engine = make_engine(scheduler, max_num_batched_tokens=16)
    for name in "ab":
        engine.add_request(name, [1, 2, 3], PARAMS)
    engine.step()
    outputs = engine.step()
    error = engine.last_error
    assert isinstance(error, SchedulerContractError)
    assert error.step == 1
    assert str(error).startswith("Step 1")
    assert got in str(error)
    with pytest.raises(SchedulerContractError, match=rule):
        raise error
    assert (error.request_id is not None) == names_request
    assert outputs
    assert {(o.finish_reason, o.error) for o in outputs} == {("error", str(error))}
    engine.scheduler.running[:] = [r for r in engine.scheduler.running if not r.is_finished]
    engine.scheduler.spoil = None
    engine.add_request("next", [4], PARAMS)
    engine.trace.steps.clear()
    type(engine.scheduler).spoil = staticmethod(lambda scheduler, plan: plan)
    assert run_all(engine)["next"] == solo([4], PARAMS)
    assert_idle(engine)


def test_a_scheduler_that_never_schedules_ends_in_an_error_not_a_hang():
    class Lazy(Scheduler):
        def schedule(self, now):
            return self.output([])

    engine = make_engine(Lazy)
    engine.add_request("a", [1], PARAMS)
    assert engine.step() == []  # somebody else may still come
    engine.close_input()
    outputs = engine.step()
    assert "no row with 0 running and 1 waiting" in outputs[0].error
    assert_idle(engine)


def test_a_step_over_its_token_budget_is_named():
    class Everybody(Scheduler):
        def schedule(self, now):
            return self.output([self.admit(r, r.num_tokens) for r in list(self.waiting)])

    engine = make_engine(Everybody, max_num_batched_tokens=16)
    for name in "ab":
        engine.add_request(name, [1] * 10, PARAMS)
    engine.step()
    assert str(engine.last_error) == (
        "Step 0: a step computes at most max_num_batched_tokens tokens. "
        "Expected at most 16, got 20."
    )
    assert_idle(engine)


def by_hand(scheduler):
    """Into the running requests without admit()."""
    scheduler.running.append(scheduler.waiting.popleft())
    return scheduler.output(scheduler.decode()[0])


def twice_decoded(scheduler):
    return scheduler.output(scheduler.decode()[0] + scheduler.decode()[0])


def behind_a_preemption(scheduler):
    rows, _ = scheduler.decode()
    scheduler.preempt(scheduler.running[0])
    return SchedulerOutput(scheduler.step_id, rows)


def back_again(scheduler):
    rows, _ = scheduler.decode()
    request = scheduler.running[0]
    scheduler.preempt(request)
    scheduler.admit(request, 1)
    return SchedulerOutput(scheduler.step_id, rows)


def stale(scheduler):
    if scheduler.step_id == 1:
        scheduler.old = scheduler.decode()[0]
        return scheduler.output(scheduler.old)
    scheduler.decode()
    return scheduler.output(scheduler.old)


HAND_MADE = [
    (by_hand, "only a running request can have a row.*Expected running, got waiting"),
    (twice_decoded, "a request can have only one row in a step"),
    (behind_a_preemption, "only a running request can have a row.*got preempted"),
    (back_again, "a row starts where the KV ends.*Expected 0, got 3"),
    (stale, "a row starts where the KV ends.*Expected 4, got 3"),
]


@pytest.mark.parametrize(("make", "rule"), HAND_MADE)
def test_rows_of_decode_are_looked_at_too(make, rule):
    class Careless(ContinuousScheduler):
        def schedule(self, now):
            return super().schedule(now) if self.step_id == 0 else make(self)

    engine = make_engine(Careless, max_num_seqs=4, prefix_caching=False)
    for name in "ab":
        engine.add_request(name, [1, 2, 3], PARAMS)
    engine.step()
    engine.add_request("c", [4], PARAMS)
    engine.step()
    if engine.last_error is None:  # `stale` needs one good step before
        engine.step()
    with pytest.raises(SchedulerContractError, match=rule):
        raise engine.last_error


@pytest.mark.parametrize("call", ["admit", "preempt"])
def test_helpers_refuse_a_request_in_the_wrong_state(call):
    class Wrong(ContinuousScheduler):
        def schedule(self, now):
            if self.step_id == 1:
                request = self.running[0]
                if call == "admit":
                    self.admit(request, 1)
                self.preempt(request)
                self.preempt(request)
            return super().schedule(now)

    engine = make_engine(Wrong)
    engine.add_request("a", [1], PARAMS)
    engine.step()
    engine.step()
    state = "running, not waiting" if call == "admit" else "preempted: nothing to preempt"
    assert f"raised ValueError: a is {state}" in str(engine.last_error)
    assert_idle(engine)
