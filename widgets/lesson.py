"""Plumbing of the lessons' cells: sizes in fast mode, cells run out of order, cards.

    from widgets.lesson import needs, size
    needs(llm="Set up")              # a sentence instead of a NameError
    requests = size(16, fast=6)      # the smaller one when MINILLM_FAST=1

What a student should read stays in the cell; the rest is here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from minillm.core import Arrival, SamplingParams, Trace, drive
from minillm.core.trace import letter
from widgets import cards
from widgets.capability import has_engine

if TYPE_CHECKING:
    from minillm.llm import LLM

FAST = "MINILLM_FAST"
MARKS = {"ok": ("✓", "ml-ok"), "warn": ("!", "ml-bad"), "fail": ("✕", "ml-bad")}
T = TypeVar("T")


class CellMissingError(NameError):
    """A cell was run before one that it needs. Shown as its sentence alone."""

    def _render_traceback_(self) -> list[str]:  # IPython shows this in place of a traceback
        return [str(self)]


def is_fast() -> bool:
    """Whether the lessons run in fast mode: smaller sizes, the same code."""
    return os.environ.get(FAST) == "1"


def size(full: T, *, fast: T) -> T:
    """`full`, or `fast` in fast mode."""
    return fast if is_fast() else full


def needs(**names: str) -> None:
    """Raise CellMissingError unless the calling cell's names exist.

    names: variable → heading of the section whose cell makes it.
    """
    there = sys._getframe(1).f_globals
    missing = {name: heading for name, heading in names.items() if name not in there}
    if not missing:
        return
    headings = list(dict.fromkeys(missing.values()))
    where = " and ".join(f"“{heading}”" for heading in headings)
    cells = "the cells" if len(headings) > 1 else "the cell"
    variables = ", ".join(missing)
    raise CellMissingError(f"Run {cells} under {where} first: this one uses {variables}.")


def workload(
    llm: LLM, number: int, *, longest: int, rate: float | None = None, seed: int = 0
) -> list[Arrival]:
    """The mixed workload of `minillm compare`, named A, B, C … as the timeline names them.

    longest: outputs are cut to that many tokens. rate: requests a second; None: all at once.
    """
    from minillm.bench.workload import mixed_workload

    named = []
    for index, arrival in enumerate(mixed_workload(llm.encode, number, seed, rate)):
        tokens = min(arrival.params.max_tokens, longest)
        params = replace(arrival.params, max_tokens=tokens)
        named.append(replace(arrival, request_id=letter(index), params=params))
    return named


def requests_with(
    llm: LLM,
    outputs: Sequence[int],
    *,
    prompts: Sequence[int] | None = None,
    times: Sequence[float] | None = None,
) -> list[Arrival]:
    """Requests A, B, C … with these output lengths (tokens), all at 0 or at `times` (seconds).

    prompts: their lengths in tokens, with made-up text; None: real prompts of the course.
    """
    from minillm.bench.workload import read_prompts

    texts = read_prompts()
    found = []
    for index, output in enumerate(outputs):
        text = texts[index * 17 % len(texts)]  # they are sorted by length: take mixed ones
        ids = llm.encode(text)
        if prompts is not None:  # each its own beginning, so that none shares a prefix
            text, ids = "", [*ids[:4], *ids * (prompts[index] // len(ids) + 1)][: prompts[index]]
        params, time = SamplingParams(output, ignore_eos=True), times[index] if times else 0.0
        found.append(Arrival(letter(index), tuple(ids), params, time, prompt_preview=text))
    return found


def simulate(llm: LLM, requests: Iterable[Arrival], policy: str, **settings: object) -> Trace:
    """Serve the requests on a simulated LLM's virtual clock, in a moment: the run's trace.

    settings: fields of SchedulerConfig. Raises ValueError for a real LLM: that takes a session.
    """
    if llm.info.provenance != "simulated":
        raise ValueError("simulate() is for LLM.simulated(…): run a real one in an EngineSession.")
    engine = llm.new_engine(policy, **settings)
    for _ in drive(engine, requests):
        pass
    return engine.trace


def workload_card(llm: LLM, requests: Sequence[Arrival]) -> cards.Html:
    """Where the run will happen, and what is asked: a row a request."""
    info = llm.info
    outputs = [request.params.max_tokens for request in requests]
    where = f"{info.provenance}: {info.device}, {info.model} {info.dtype}"
    least, most = min(outputs), max(outputs)
    each = f"{most}" if least == most else f"{least} to {most}"
    title = f"{len(requests)} requests, {each} output tokens each, {sum(outputs)} in all"
    columns = ("", "arrives", "prompt", "output", "it asks")
    rows = [
        (
            request.request_id, f"{request.time * 1e3:.0f}\u202fms",
            str(len(request.prompt_token_ids)), str(request.params.max_tokens),
            _short(request.prompt_preview),
        )
        for request in requests
    ]  # fmt: skip
    listing = cards.table(columns, rows, left=True)
    html = cards.card(
        cards.head(title, f"{cards.GLYPHS[info.provenance]} {where}"),
        f"<details><summary>The requests one by one (tokens)</summary>{listing}</details>",
    )
    return cards.Html(html, f"{title}\n{where}\n{cards.text_table(columns, rows)}")


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


class Check(Protocol):
    """One line of `minillm doctor`."""

    name: str
    status: str
    detail: str
    fix: str


class TabCheck(NamedTuple):
    """A line about a browser tab, in place of what `minillm doctor` finds on a machine."""

    name: str
    status: str
    detail: str
    fix: str = ""


TAB = (
    TabCheck("Python", "ok", f"{sys.version.split()[0]}, in this browser tab"),
    TabCheck("simulated", "ok", "GPUs, live views, exercises and their public checks"),
    TabCheck(
        "real engine", "warn", "it needs PyTorch, processes and sockets, which a tab lacks",
        "With the course installed, `make lab` runs it on your machine.",
    ),
    TabCheck("marks", "warn", "they are given in the installed course"),
)  # fmt: skip


def machine_card(checks: Iterable[Check]) -> cards.Html:
    """What `minillm doctor` found, as a card: what is there, and what to do where it is not.

    In a browser tab: what runs in it, and what does not.
    """
    checks = list(checks) if has_engine() else TAB
    todo = sum(check.status == "fail" for check in checks)
    if todo:
        things = "thing" if todo == 1 else "things"
        title = f"Not ready yet: {todo} {things} to do, marked ✕ below."
    else:
        title = "The course can run here." if has_engine() else "The simulated course runs here."
    rows, lines = [], [title]
    for check in checks:
        mark, kind = MARKS[check.status]
        fix = f'<br><span class="ml-bad">{escape(check.fix)}</span>' if check.fix else ""
        rows.append(
            f'<tr><td><span class="{kind}" role="img" aria-label="{check.status}">{mark}</span> '
            f"{escape(check.name)}</td><td>{escape(check.detail)}{fix}</td></tr>"
        )
        lines.append(f"{mark} {check.name:<10} {check.detail}")
        lines += [f"  → {check.fix}"] if check.fix else []
    body = f'<table class="ml-table ml-left"><tbody>{"".join(rows)}</tbody></table>'
    html = cards.card(cards.head(title), body, kind="alert" if todo else "good")
    return cards.Html(html, "\n".join(lines))


def answer_card(question: str, answer: str, note: str = "") -> cards.Html:
    """A prompt and what the model said."""
    html = cards.card(
        cards.head("One answer of the model", note),
        f"<p><b>{escape(question)}</b></p><p>{escape(answer)}</p>",
    )
    return cards.Html(html, f"{question}\n{answer}\n{note}")
