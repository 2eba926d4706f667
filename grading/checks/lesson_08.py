"""Exercise 8: plan one step with chunked prefill, and be driven by it until all are served."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from grading.exercise import Call, Exercise, Finding, Pictures, Property, calls, run_function, show
from grading.picture import strips
from grading.served import Arrivals, Row, Served, rows_of, serve
from minillm.core.trace import letter

PLAN = "plan_step"
SEED = 8


def plan_step(left: Sequence[int], budget: int) -> list[Row]:
    """Rows of one step. left: tokens each request has to compute before its next token."""
    decodes = [i for i, tokens in enumerate(left) if tokens == 1]
    prompts = [i for i, tokens in enumerate(left) if tokens > 1]
    rows = []
    for i in decodes + prompts:
        tokens = min(left[i], budget)
        if tokens:
            rows.append((i, tokens, tokens == left[i]))
            budget -= tokens
    return rows


# ── the properties ──────────────────────────────────────────────────────────────────────────


def one_step(judge: Callable[[list[int], int, list[Row]], Finding]) -> Callable:
    """A finding about one plan: rows in any order, each request once."""

    def finding(args: dict, answer: object) -> Finding:
        left, budget = args["args"]
        if answer["changed"]:
            return "the arguments left as they were", "a changed argument"
        rows = rows_of(answer["value"])
        if rows is None:
            return f"rows such as {show_rows(plan_step(left, budget))}", show(answer["value"])
        places = [place for place, _, _ in rows]
        if len(set(places)) < len(places) or not set(places) <= set(range(len(left))):
            return f"each of the {len(left)} requests at most once", show_rows(rows)
        return judge(left, budget, sorted(rows))

    return finding


def decodes_first(left: list[int], budget: int, rows: list[Row]) -> Finding:
    expected = [row for row in sorted(plan_step(left, budget)) if left[row[0]] == 1]
    got = [row for row in rows if left[row[0]] == 1]
    return None if got == expected else (show_rows(expected), show_rows(got))


def within_budget(left: list[int], budget: int, rows: list[Row]) -> Finding:
    total = sum(tokens for _, tokens, _ in rows)
    if total > budget:
        return f"at most {budget} tokens in the step", f"{total}: {show_rows(rows)}"
    for place, tokens, _ in rows:
        if not 1 <= tokens <= left[place]:
            return f"1 to {left[place]} tokens for request {place}", f"{tokens}"
    return None


def as_expected(left: list[int], budget: int, rows: list[Row]) -> Finding:
    expected = sorted(plan_step(left, budget))
    return None if rows == expected else (show_rows(expected), show_rows(rows))


def token_after_the_last_chunk(left: list[int], budget: int, rows: list[Row]) -> Finding:
    for place, tokens, samples in rows:
        if samples != (tokens == left[place]):
            of = f"{tokens} of the {left[place]} tokens left"
            return f"{tokens == left[place]} for request {place}: {of}", f"{samples}"
    return as_expected(left, budget, rows)


def all_served(args: dict, run: Served) -> Finding:
    if run.fault:
        return "every request served by the rules", run.fault
    for i, (_, prompt, output) in enumerate(run.requests):
        mine = [row for step in run.steps for row in step if row[0] == i]
        read = sum(row[1] for row in mine if not row[3])
        if read != prompt:
            return f"the chunks of {letter(i)} sum to its {prompt} tokens", f"{read}"
        if run.given[i] != output:
            return f"{output} tokens for {letter(i)}", f"{run.given[i]}"
    for step, rows in enumerate(run.steps):
        planned = {row[0] for row in rows}
        for i in range(len(run.requests)):
            begun = any(row[0] == i and row[2] for before in run.steps[:step] for row in before)
            more = any(row[0] == i for after in run.steps[step:] for row in after)
            if begun and more and i not in planned and len(run.requests) <= args["budget"]:
                return f"a token for {letter(i)} in step {step}: it decodes", "it stands still"
    return None


def pictures(args: dict, run: Served) -> Pictures:
    right = serve(plan_step, args["requests"], args["budget"])
    columns = max(len(right.steps), len(run.steps))
    return tuple(
        (title, strips(
            [(letter(i), one.marks(i)) for i in range(len(one.requests))], columns, repr(one)
        ))
        for title, one in (("A right one", right), ("Yours", run))
    )  # fmt: skip


def show_rows(rows: Sequence[Row]) -> str:
    """Rows as Python shows them."""
    return repr([tuple(row) for row in rows])


def random_steps(seed: int, count: int, most: int) -> list[tuple[list[int], int]]:
    """Requests that decode, others that read long and short prompts, wide and narrow budgets."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        size = chance.randint(1, most)
        left = [chance.choice([1, 1, 2, chance.randint(2, 60)]) for _ in range(size)]
        drawn.append((left, chance.choice([1, 2, most, chance.randint(1, 80)])))
    return drawn


def random_runs(seed: int, count: int, most: int) -> list[tuple[list[tuple[int, int, int]], int]]:
    """Requests that come one by one, prompts shorter and longer than the budget."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        size = chance.randint(2, most)
        arrives = sorted(chance.randint(0, 6) for _ in range(size))
        requests = [(step, chance.randint(1, 40), chance.randint(1, 6)) for step in arrives]
        drawn.append((requests, chance.randint(size, 24)))
    return drawn


# ── the exercise ────────────────────────────────────────────────────────────────────────────


def run(objects: Mapping[str, object], args: dict) -> object:
    """One plan, or a whole service made of plans; plain data."""
    if "requests" not in args:
        return run_function(objects, args)
    return vars(serve(objects[PLAN], args["requests"], args["budget"]))


def decode(value: object) -> object:
    return Served(**value) if "steps" in value else value


def batches(answers: Sequence[object]) -> str:
    for answer in answers:
        plans = answer.steps if isinstance(answer, Served) else [answer["value"]]
        if any(isinstance(rows, list) and len(rows) > 1 for rows in plans):
            return ""
    return "Points count once a step has rows of at least two requests."


def served_calls(cases: Sequence[tuple[Arrivals, int]]) -> tuple[Call, ...]:
    """Services as calls of serve()."""
    return tuple(
        Call(
            f"serve({{{PLAN}}}, {[tuple(r) for r in requests]}, budget={budget})",
            {"requests": [list(request) for request in requests], "budget": budget},
        )
        for requests, budget in cases
    )


def step_property(
    name: str, points: float, hint: str, arguments: Sequence[tuple], judge: Callable
) -> Property:
    return Property(name, points, hint, calls(PLAN, arguments), one_step(judge), (PLAN,))


def run_property(
    name: str, points: float, hint: str, cases: Sequence[tuple[Arrivals, int]]
) -> Property:
    return Property(name, points, hint, served_calls(cases), all_served, (PLAN,), pictures=pictures)


EXERCISE = Exercise(
    "lesson_08",
    run,
    (
        step_property(
            "who decodes comes first, one token each", 2,
            "Whose user waits for the next word while a prompt is read?",
            [([1], 4), ([1, 1], 4), ([5, 1], 4), ([9, 1, 1], 4), ([9, 1, 9, 1], 2),
             ([1, 1, 1], 2), ([64, 1, 1, 1], 16)],
            decodes_first,
        ),
        step_property(
            "never more tokens than the budget, never more than are left", 2,
            "What is left of the budget when the rows before this one are planned?",
            [([4], 4), ([5], 4), ([3], 4), ([3, 3], 4), ([1, 5], 4), ([8, 8, 1], 4),
             ([1] * 5, 3), ([2, 2, 2], 4)],
            within_budget,
        ),
        step_property(
            "the rest of the budget goes to the prompts, first come, first served", 2,
            "Which prompt came first, and what does it leave for the next one?",
            [([3, 3], 4), ([5, 3], 4), ([2, 9], 8), ([9, 2], 8), ([1, 6, 4], 8),
             ([6, 1, 2, 4], 12)],
            as_expected,
        ),
        step_property(
            "a token comes after the last chunk, and only then", 2,
            "When has the model seen the whole prompt?",
            [([3], 4), ([4], 4), ([5], 4), ([1, 3], 4), ([1, 4], 4), ([2, 2, 5], 8)],
            token_after_the_last_chunk,
        ),
        run_property(
            "served to the end: the chunks sum to the prompt, nobody stands still", 2,
            "What is left of a prompt after its first chunk, and who goes on meanwhile?",
            [([(0, 3, 1)], 4), ([(0, 9, 2)], 4), ([(0, 2, 4), (1, 9, 2)], 4),
             ([(0, 1, 8), (0, 1, 8), (2, 20, 2)], 8), ([(0, 7, 3), (0, 7, 3)], 5),
             *random_runs(SEED, 12, 5)],
        ),
        step_property(
            "any requests, any budget, and the input is left as it was", 1,
            "Which of the properties above breaks on longer lists?",
            [([], 8), *random_steps(SEED, 40, 9)],
            as_expected,
        ),
    ),
    decode=decode,
    gate=batches,
)  # fmt: skip
