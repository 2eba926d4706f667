"""What a class's panels say, as HTML: status lines, answers, the table of students. Pure Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from widgets import cards

COLUMNS = ("nickname", "running", "waiting", "tok/s", "share", "requests", "refused")
MOST_ROWS = 12
BREAK = ' style="overflow-wrap: anywhere"'  # a simulated answer has no spaces
FLOOD = 3.0  # times what the others take on average: worth a look


def status_line(who: str, status: str, live: bool) -> str:
    """Who one is, and how things stand."""
    mark, color = ("●", "#009e73") if live else ("○", "#d55e00")
    return (
        f'<div style="line-height: 1.5"><span style="color: {color}" aria-hidden="true">{mark}'
        f"</span> <b>{escape(who)}</b> · {escape(status)}</div>"
    )


def answers(exchanges: Iterable[Any]) -> str:
    """One's own questions and answers, the newest first."""
    parts = []
    for each in exchanges:
        waiting = "" if each.over else " ▍"
        error = f'<p class="ml-bad">{escape(each.error)}</p>' if each.error else ""
        text = f"<p{BREAK}>{escape(each.text)}{waiting}</p>" if each.text or waiting else ""
        parts.append(cards.card(f"<p><b>{escape(each.question)}</b></p>", text, error))
    return "".join(parts)


def student_rows(students: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows of the table as texts, in COLUMNS' order."""
    return [
        [
            row["nickname"], f"{row['running']:,}", f"{row['waiting']:,}", f"{row['tok_s']:,.1f}",
            percent(row["share"]), f"{row['requests']:,}", f"{row['refused']:,}",
        ]
        for row in students
    ]  # fmt: skip


def student_table(students: Sequence[dict[str, Any]]) -> str:
    """Who asks for how much now; the first rows where there are many."""
    if not students:
        return cards.card(cards.head("Students"), "<p>Nobody has joined yet.</p>")
    shown = students[:MOST_ROWS]
    table = cards.table(COLUMNS, student_rows(shown))
    left = len(students) - len(shown)
    more = f'<p class="ml-note">and {left:,} more who ask for less</p>' if left > 0 else ""
    note = "tok/s and share: over the last 10 s; share counts prompt tokens too"
    return cards.card(cards.head(flood_sentence(students), note), table, more)


def flood_sentence(students: Sequence[dict[str, Any]]) -> str:
    """The finding above the table: who takes far more than the others, if somebody does."""
    busy = [row for row in students if row["share"]]
    if len(busy) > 1:
        first = busy[0]
        mean = (1.0 - first["share"]) / (len(busy) - 1)
        if first["share"] >= FLOOD * mean:
            times = first["share"] / mean
            return (
                f"{first['nickname']} takes {percent(first['share'])} of all tokens computed, "
                f"{times:,.{0 if times >= 10 else 1}f} times the others' mean{_refusals(first)}"
            )
    count = f"{len(students):,} student{'s' * (len(students) != 1)}"
    most = max(students, key=lambda row: row["refused"])
    if not busy:
        return f"{count}, nothing computed in the last 10 s{_refused(most)}"
    return f"{count}, {len(busy):,} of them with tokens in the last 10 s{_refused(most)}"


def _refusals(row: dict[str, Any]) -> str:
    count, asked = row["refused"], row["requests"]
    return f"; {count:,} of {asked:,} request{'s' * (asked != 1)} refused" if count else ""


def _refused(row: dict[str, Any]) -> str:
    count = row["refused"]
    return f"; {row['nickname']} was refused {count:,} time{'s' * (count != 1)}" if count else ""


def percent(share: float | None) -> str:
    """A share as a whole percentage that never rounds up to 100."""
    if share is None:
        return "n/a"
    rounded = round(100 * share)
    return f"{99 if rounded == 100 and share < 1 else rounded}\u202f%"


def code_card(code: str, url: str) -> str:
    """What to read out to the class."""
    return cards.card(
        cards.head("Students run this in a notebook"),
        f'<p><code>import widgets; widgets.join("{escape(url)}", "{escape(code)}", "your name")'
        f"</code></p><p>Join code: <b>{escape(code)}</b></p>",
    )
