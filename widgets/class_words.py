"""What a class's panels say, as HTML: status lines, answers, the table of students. Pure Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from minillm.core.trace import TraceHeader
from widgets import cards

COLUMNS = ("nickname", "running", "waiting", "tok/s", "share", "requests", "refused")
MOST_ROWS = 40
FLOOD = 0.5  # of all tokens computed, by one of several: worth a look


def status_line(who: str, status: str, header: TraceHeader | None, live: bool) -> str:
    """Who and where one is, and how things stand."""
    mark, kind = ("●", "ml-ok") if live else ("○", "ml-bad")
    where = f'<span class="ml-note">{escape(cards.provenance(header))}</span>' if header else ""
    return (
        f'<div class="ml-head"><span><span class="{kind}" aria-hidden="true">{mark}</span> '
        f"<b>{escape(who)}</b> · {escape(status)}</span>{where}</div>"
    )


def answers(exchanges: Iterable[Any]) -> str:
    """One's own questions and answers, the newest first."""
    parts = []
    for each in exchanges:
        waiting = "" if each.over else " ▍"
        error = f'<p class="ml-bad">{escape(each.error)}</p>' if each.error else ""
        text = f"<p>{escape(each.text)}{waiting}</p>" if each.text or waiting else ""
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
    """The finding above the table: who takes most, if somebody does."""
    count = f"{len(students):,} student{'s' * (len(students) != 1)}"
    busy = [row for row in students if row["share"]]
    if len(busy) > 1 and busy[0]["share"] >= FLOOD:
        first = busy[0]
        return f"{first['nickname']} takes {percent(first['share'])} of all tokens computed"
    refused = max(students, key=lambda row: row["refused"])
    if not busy and refused["refused"]:
        times = f"{refused['refused']:,} time{'s' * (refused['refused'] != 1)}"
        return f"{count}, nothing running; {refused['nickname']} was refused {times}"
    return f"{count}, {len(busy):,} with something computed just now"


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
