"""Exercise 5: a continuous batching Scheduler, checked by six properties.

On the simulated runner and virtual time: nothing here measures the machine. Points for the safe
properties count only once at least two requests share a step, since a scheduler that serves one
at a time keeps them without batching.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from grading.cases import Case, smaller
from grading.exercise import Call, Exercise, Finding, Pictures, Property, Skip
from grading.picture import picture
from grading.replay import Replay, computed_positions, is_seamless, replay
from minillm.core import Scheduler
from minillm.core.trace import DEAD, letter

NUM_RANDOM = 32
SEED = 5


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
    return sorted([*HAND_PICKED, *random_cases(SEED, NUM_RANDOM)], key=lambda case: case.size)


def random_cases(seed: int, count: int) -> list[Case]:
    """Inputs of many shapes: together or one by one, with a wide and with a narrow budget."""
    chance = random.Random(seed)
    drawn = []
    for number in range(count):
        together = number % 2 == 0
        requests = [
            (
                0.0 if together else round(chance.random() * 0.15, 3),
                chance.randint(1, 30),
                chance.randint(1, 9),
            )
            for _ in range(chance.randint(2, 9))
        ]
        requests.sort(key=lambda request: request[0])
        budget = 512 if number % 4 < 2 else chance.randint(8, 24)
        drawn.append(Case(tuple(requests), chance.randint(1, 5), budget))
    return drawn


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


def served(run: Replay) -> Finding:
    """Not scored by itself: a run with an error says nothing about the other properties."""
    if run.error is not None:
        return "every request served", str(run.error)
    return ("every request served", "no progress any more") if run.gave_up else None


def _is_limit(error: Exception | None) -> bool:
    return "max_num" in getattr(error, "rule", "")


# ── the exercise ────────────────────────────────────────────────────────────────────────────


def run(objects: Mapping[str, object], args: dict) -> dict:
    """One case under the student's scheduler, as plain data."""
    return Case.from_plain(args).run(objects["scheduler"]).to_plain()


def call(case: Case) -> Call:
    return Call(case.call("{scheduler}"), case.to_plain())


def property_(
    name: str, points: float, judge: Callable[[Case, Replay], Finding], hint: str,
    on_errors: bool = False, inputs: Sequence[Case] | None = None,
) -> Property:  # fmt: skip
    """A property of replays. on_errors: judged in runs that broke a rule, too."""

    def finding(args: dict, run: Replay) -> Finding | Skip:
        fault = served(run)
        if fault is not None and not on_errors:
            return Skip(*fault)
        return judge(Case.from_plain(args), run)

    return Property(
        name, points, hint, tuple(call(case) for case in inputs or cases()), finding,
        ("scheduler",), smaller=_smaller, pictures=_pictures,
    )  # fmt: skip


def _smaller(call_: Call) -> Iterator[Call]:
    return map(call, smaller(Case.from_plain(call_.args)))


def _pictures(args: dict, run: Replay) -> Pictures:
    right = Case.from_plain(args).run("continuous")
    steps = max(len(run.trace.steps), len(right.trace.steps))
    return (("A right one", picture(right, steps)), ("Yours", picture(run, steps)))


def is_scheduler(name: str, thing: object) -> str:
    if isinstance(thing, type) and issubclass(thing, Scheduler):
        return ""
    return "check() takes your class itself, a subclass of Scheduler: check(MyScheduler)."


def batches(runs: Sequence[Replay]) -> str:
    if any(len(step.rows) > 1 for run in runs for step in run.trace.steps):
        return ""
    return "Points count once at least two requests share a step: that is what batching is."


EXERCISE = Exercise(
    "lesson_05",
    run,
    (
        property_(
            "every request gets every token once", 2, every_token_once,
            "For each running request: how many tokens remain, and how many do you ask for?",
            on_errors=True,
        ),
        property_(
            "at most max_num_seqs rows and max_num_batched_tokens tokens a step", 1,
            within_the_limits,
            "What is left of the budget after the rows that you have planned already?",
            on_errors=True,
        ),
        property_(
            "first come, first served", 2, first_come_first_served,
            "Which end of self.waiting has waited longest?",
        ),
        property_(
            "no idle slot while a request waits", 2, no_idle_slot,
            "In that step a slot is free and somebody could use it. What keeps your rows from it?",
        ),
        property_(
            "each output is what the request gets when it runs alone", 1, outputs_as_alone,
            "Did every request keep its own tokens, and did none end early?",
        ),
        property_(
            "never slower than static batching", 2, no_slower_than_static,
            "How many steps does your scheduler take, and how many rows has each?",
        ),
    ),
    accepts=is_scheduler,
    gate=batches,
    decode=Replay.from_plain,
)  # fmt: skip


def _tokens(count: int) -> str:
    return f"{count} token" if count == 1 else f"{count} tokens"


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
