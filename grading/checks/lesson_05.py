"""Exercise 5: a continuous batching Scheduler, checked by six properties.

On the simulated runner and virtual time: nothing here measures the machine. Points for the safe
properties count only once at least two requests share a step, since a scheduler that serves one
at a time keeps them without batching.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from grading.cases import Case, smaller
from grading.limits import TimeLimitError, time_limit
from grading.picture import picture
from grading.replay import Replay, computed_positions, is_seamless, letter, replay
from grading.report import CheckReport, Group
from minillm.core import Scheduler
from minillm.core.trace import DEAD

NUM_RANDOM = 32
SEED = 5
TIME_LIMIT_S = 20.0
SHRINK_TRIES = 120

Finding = tuple[str, str] | None  # (expected, got) of a failure


HAND_PICKED = (
    Case([(0, 4, 1)], 1),
    Case([(0, 4, 3)], 3),
    Case([(0, 4, 2), (0, 4, 2)], 2),
    Case([(0, 4, 1), (0, 4, 3)], 1),  # one slot: a plain queue
    Case([(0, 4, 4), (0, 4, 1), (0, 4, 2)], 2),  # C takes B's slot
    Case([(0, 4, 5), (0, 4, 1), (0, 4, 1), (0, 4, 1)], 2),  # one slot is used again and again
    Case([(0, 4, 2), (0, 4, 2), (0, 4, 2), (0, 4, 2)], 2),  # both slots free at once
    Case([(0, 9, 2), (0, 3, 2), (0, 1, 2)], 2),  # a shorter prompt must not overtake
    Case([(0, 4, 6), (0.02, 4, 2), (0.03, 4, 2)], 3),  # they arrive while A decodes
    Case([(0, 4, 2), (1.0, 4, 2)], 2),  # an empty engine in between
    Case([(0, 40, 3)], 2, 16),  # a prompt longer than the token budget
    Case([(0, 4, 6), (0, 40, 3), (0, 4, 2)], 3, 16),  # and two others who go on meanwhile
    Case([(0, 4, 4)] * 4, 4, 4),  # a budget of just one token a slot
    Case([(0, 4, 4), (0, 4, 1), (0, 4, 6), (0, 4, 6), (0, 4, 5)], 3),  # the walk of this lesson
)


def cases() -> list[Case]:
    """The hand-picked inputs and random ones (always the same), smallest first."""
    chance = random.Random(SEED)
    drawn = []
    for number in range(NUM_RANDOM):
        together = number % 2 == 0
        count = chance.randint(2, 9)
        requests = [
            (
                0.0 if together else round(chance.random() * 0.15, 3),
                chance.randint(1, 30),
                chance.randint(1, 9),
            )
            for _ in range(count)
        ]
        requests.sort(key=lambda request: request[0])
        budget = 512 if number % 4 < 2 else chance.randint(8, 24)
        drawn.append(Case(tuple(requests), chance.randint(1, 5), budget))
    return sorted([*HAND_PICKED, *drawn], key=lambda case: case.size)


# ── the properties: None where a run keeps it ───────────────────────────────────────────────


def every_token_once(case: Case, run: Replay) -> Finding:
    if run.error is not None:
        if _is_limit(run.error):  # counted under the limits
            return None
        return "a plan that keeps the rules in every step", str(run.error)
    for index, (_, prompt, output) in enumerate(case.requests):
        name = letter(index)
        count = len(run.outputs[name])
        if count != output:
            return f"{_tokens(output)} for {name}", f"{_tokens(count)}"
        spans = computed_positions(run)[name]
        if not is_seamless(spans, prompt + output - 1):
            total = sum(end - start for start, end in spans)
            return f"{name} computes {_tokens(prompt + output - 1)} once", f"{_tokens(total)}"
    return None


def within_the_limits(case: Case, run: Replay) -> Finding:
    for position, step in enumerate(run.trace.steps):
        tokens = sum(row.n_tokens for row in step.rows)
        if len(step.rows) > case.max_num_seqs:
            limit = f"at most {case.max_num_seqs} rows in a step"
            return limit, f"{len(step.rows)} in step {position}"
        if tokens > case.max_num_batched_tokens:
            limit = _tokens(case.max_num_batched_tokens)
            return f"at most {limit} in a step", f"{tokens} in step {position}"
    if _is_limit(run.error):
        unit = "tokens" if "tokens" in run.error.rule else "rows"
        return f"{run.error.expected} {unit}", f"{run.error.got} in step {run.error.step}"
    return None


def first_come_first_served(case: Case, run: Replay) -> Finding:
    expected = run.letters  # requests are given in order of arrival
    got = run.admitted
    if got != expected[: len(got)]:
        return f"admitted in the order {' '.join(expected)}", " ".join(got)
    return None


def no_idle_slot(case: Case, run: Replay) -> Finding:
    left = {letter(i): output for i, (_, _, output) in enumerate(case.requests)}
    for position, step in enumerate(run.trace.steps):
        in_step = {letter(row.req_idx) for row in step.rows if row.kind != DEAD}
        here = {
            letter(i)
            for i, (arrival, _, _) in enumerate(case.requests)
            if arrival <= step.t_start and left[letter(i)] > 0
        }
        tokens = sum(row.n_tokens for row in step.rows)
        could = min(case.max_num_seqs, len(here))
        if len(in_step) < could and tokens < case.max_num_batched_tokens:
            idle = ", ".join(sorted(here - in_step))
            why = f"{len(here)} requests are there, {case.max_num_batched_tokens} tokens would fit"
            expected = f"{_rows(could)} in step {position} ({why})"
            return expected, f"{_rows(len(in_step))}, while {idle} could go on"
        for row in step.rows:
            left[letter(row.req_idx)] -= row.token_id is not None
    return None


def outputs_as_alone(case: Case, run: Replay) -> Finding:
    for index, request in enumerate(case.requests):
        name = letter(index)
        # The prompt depends on the place in the list: the others leave after one token.
        others = [(0.0, 1, 1)] * index
        alone = replay("continuous", [*others, (0.0, *request[1:])], 1).outputs[name]
        if run.outputs[name] != alone:
            return f"{name}: {alone}", f"{run.outputs[name]}"
    return None


def no_slower_than_static(case: Case, run: Replay) -> Finding:
    together = all(arrival == 0 for arrival, _, _ in case.requests)
    if not together or case.max_num_batched_tokens < 512:
        return None  # static batching knows no budget: nothing to compare
    static = case.run("static")
    if run.makespan > static.makespan * (1 + 1e-9):
        limit = f"{static.makespan * 1e3:.1f} ms, as static batching is (simulated)"
        return f"done within {limit}", f"{run.makespan * 1e3:.1f} ms"
    return None


def served(case: Case, run: Replay) -> Finding:
    """Not scored by itself: a run with an error says nothing about the other properties."""
    if run.error is not None:
        return "every request served", str(run.error)
    return ("every request served", "no progress any more") if run.gave_up else None


def _is_limit(error: Exception | None) -> bool:
    return "max_num" in getattr(error, "rule", "")


@dataclass(frozen=True)
class Property:
    name: str
    points: float
    finding: Callable[[Case, Replay], Finding]
    hint: str
    on_errors: bool = False  # judged in runs with an error too

    def holds(self, case: Case, run: Replay) -> Finding:
        skipped = not self.on_errors and served(case, run) is not None
        return None if skipped else self.finding(case, run)


PROPERTIES = (
    Property(
        "every request gets every token once", 2, every_token_once,
        "For each running request: how many tokens remain, and how many do you ask for?",
        on_errors=True,
    ),
    Property(
        "at most max_num_seqs rows and max_num_batched_tokens tokens a step", 1, within_the_limits,
        "What is left of the budget after the rows that you have planned already?",
        on_errors=True,
    ),
    Property(
        "first come, first served", 2, first_come_first_served,
        "Which end of self.waiting has waited longest?",
    ),
    Property(
        "no idle slot while a request waits", 2, no_idle_slot,
        "In that step a slot is free and somebody could use it. What keeps your rows from it?",
    ),
    Property(
        "each output is what the request gets when it runs alone", 1, outputs_as_alone,
        "Did every request keep its own tokens, and did none end early?",
    ),
    Property(
        "never slower than static batching", 2, no_slower_than_static,
        "How many steps does your scheduler take, and how many rows has each?",
    ),
)  # fmt: skip


def check(scheduler: type[Scheduler]) -> CheckReport:
    """Check a Scheduler subclass; never raises for what it does."""
    if not (isinstance(scheduler, type) and issubclass(scheduler, Scheduler)):
        raise ValueError(
            "check() takes your class itself, a subclass of Scheduler: check(MyScheduler)."
        )
    inputs = cases()
    try:
        with time_limit(TIME_LIMIT_S):
            runs = [(case, case.run(scheduler)) for case in inputs]
            batches = any(_shares_a_step(run) for _, run in runs)
            groups = [_judge(prop, runs, scheduler, batches) for prop in PROPERTIES]
    except TimeLimitError as error:
        groups = [
            Group(p.name, False, 0, p.points, "not finished", f"{scheduler.__name__}", "an answer",
                  str(error), "Which loop of schedule() can go on for ever?")
            for p in PROPERTIES
        ]  # fmt: skip
        batches = True
    remark = ""
    if not batches:
        remark = "Points count once at least two requests share a step: that is what batching is."
    return CheckReport("lesson_05", tuple(groups), remark)


def _judge(
    prop: Property,
    runs: list[tuple[Case, Replay]],
    scheduler: type[Scheduler],
    batches: bool,
) -> Group:
    for case, run in runs:
        if prop.holds(case, run) is not None:
            return _failed(prop, _shrink(prop, case, scheduler), scheduler, len(runs))
    unserved = [case for case, run in runs if served(case, run) is not None]
    if len(unserved) * 2 > len(runs) and not prop.on_errors:  # too few runs to tell
        whole = replace(prop, finding=served, on_errors=True)
        return _failed(whole, _shrink(whole, unserved[0], scheduler), scheduler, len(runs))
    points = prop.points if batches else 0
    return Group(prop.name, True, points, prop.points, f"{len(runs)} cases")


def _failed(prop: Property, case: Case, scheduler: type[Scheduler], total: int) -> Group:
    run, right = case.run(scheduler), case.run("continuous")
    expected, got = prop.holds(case, run)
    steps = max(len(run.trace.steps), len(right.trace.steps))
    pictures = (("A right one", picture(right, steps)), ("Yours", picture(run, steps)))
    return Group(
        prop.name, False, 0, prop.points, f"fails, {total} cases", case.call(scheduler.__name__),
        expected, got, prop.hint, pictures,
    )  # fmt: skip


def _shrink(prop: Property, case: Case, scheduler: type[Scheduler]) -> Case:
    """A smaller input that fails too, found by leaving out and shortening requests."""
    tries = SHRINK_TRIES
    found = True
    while found:
        found = False
        for candidate in smaller(case):
            tries -= 1
            if tries < 0:
                return case
            if prop.holds(candidate, candidate.run(scheduler)) is not None:
                case, found = candidate, True
                break
    return case


def _shares_a_step(run: Replay) -> bool:
    return any(len(step.rows) > 1 for step in run.trace.steps)


def _tokens(count: int) -> str:
    return f"{count} token" if count == 1 else f"{count} tokens"


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
