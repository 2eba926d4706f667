"""A plan of single steps, driven until all requests are served: what it made of them.

serve(plan_step, [(0, 9, 2), (1, 1, 4)], budget=8)   # (step of arrival, prompt, output) each
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minillm.core.trace import letter

MOST_STEPS = 400
Row = tuple[int, int, bool]  # (which request, tokens in this step, whether it samples one)
Arrivals = Sequence[tuple[int, int, int]]  # (step, prompt, output) of each request, in order


@dataclass
class Served:
    """What a plan made of some requests: the rows of each step, tokens given, what went wrong."""

    requests: list[list[int]]
    steps: list[list[list]]  # of each step: [request, tokens, samples, was it a decode]
    given: list[int]
    fault: str = ""

    def marks(self, request: int) -> str:
        """A character a step: p a chunk of the prompt, d one more token, · waiting, blank else."""
        arrives, _, output = self.requests[request]
        found, got = "", 0
        for step, rows in enumerate(self.steps):
            mine = next((row for row in rows if row[0] == request), None)
            if mine is None:
                found += "·" if arrives <= step and got < output else " "
                continue
            got += mine[2]
            found += "d" if mine[3] else "p"
        return found

    def __repr__(self) -> str:
        lines = [f"{letter(i)} {self.marks(i).rstrip()}" for i in range(len(self.requests))]
        return "\n".join([*lines, self.fault] if self.fault else lines)


def serve(plan: Callable[[list[int], int], object], requests: Arrivals, budget: int) -> Served:
    """Serve these requests, planning each step with `plan`; a broken rule ends it."""
    asked = [list(map(int, request)) for request in requests]
    left = [prompt for _, prompt, _ in asked]
    run = Served(asked, [], [0] * len(asked))
    for step in range(MOST_STEPS):
        here = [
            i for i, (arrives, _, output) in enumerate(asked)
            if arrives <= step and run.given[i] < output
        ]  # fmt: skip
        if all(done >= output for done, (_, _, output) in zip(run.given, asked, strict=True)):
            return run
        rows = rows_of(plan([left[i] for i in here], budget))
        run.fault = broken(rows, [left[i] for i in here], budget, step)
        if run.fault:
            return run
        run.steps.append([])
        for place, tokens, samples in rows:
            i = here[place]
            decodes = run.given[i] > 0
            run.steps[-1].append([i, tokens, samples, decodes])
            left[i] -= tokens
            if samples:
                run.given[i], left[i] = run.given[i] + 1, 1
    run.fault = f"After {MOST_STEPS} steps not all are served."
    return run


def rows_of(value: object) -> list[Row] | None:
    """A plan as rows; None where it is none."""
    if not isinstance(value, list | tuple):
        return None
    rows = []
    for row in value:
        if not (isinstance(row, list | tuple) and len(row) == 3):
            return None
        place, tokens, samples = row
        whole = all(isinstance(x, int) and not isinstance(x, bool) for x in (place, tokens))
        if not whole or not isinstance(samples, bool):
            return None
        rows.append((place, tokens, samples))
    return rows


def broken(rows: list[Row] | None, left: list[int], budget: int, step: int) -> str:
    """The rule that a plan breaks, as a sentence; empty when it keeps them."""
    where = f"in step {step}, plan_step({left}, {budget})"
    if rows is None:
        return f"{where} is no list of (request, tokens, samples)."
    places = [place for place, _, _ in rows]
    if len(set(places)) < len(places) or not set(places) <= set(range(len(left))):
        return f"{where} names the requests {places}."
    for place, tokens, samples in rows:
        if not 1 <= tokens <= left[place]:
            return f"{where} gives {letter(place)} {tokens} tokens; {left[place]} are left."
        if samples != (tokens == left[place]):
            return f"{where} says {samples} for {tokens} of the {left[place]} that are left."
    total = sum(tokens for _, tokens, _ in rows)
    return f"{where} computes {total} tokens." if total > budget else ""
