"""Plumbing of the lessons' cells: sizes in fast mode, cells run out of order, cards.

from widgets.lesson import needs, size
needs(llm="Set up")              # a sentence instead of a NameError
requests = size(16, fast=6)      # the smaller one when MINILLM_FAST=1
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from html import escape
from typing import Protocol, TypeVar

from widgets import cards

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


class Check(Protocol):
    """One line of `minillm doctor`."""

    name: str
    status: str
    detail: str
    fix: str


def machine_card(checks: Iterable[Check]) -> cards.Html:
    """What `minillm doctor` found, as a card: what is there, and what to do where it is not."""
    checks = list(checks)
    todo = sum(check.status == "fail" for check in checks)
    if todo:
        things = "thing" if todo == 1 else "things"
        title = f"Not ready yet: {todo} {things} to do, marked ✕ below."
    else:
        title = "The course can run here."
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
