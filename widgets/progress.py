"""Where you are: how the lessons stand, from the one file on this machine that keeps it.

    progress()        # all lessons
    progress("05")    # a lesson's last cell: how it stands, and what comes next

Shown as HTML that follows the theme and as text everywhere else; what is shown stays current while
the kernel lives. `python -m widgets.progress` (`make progress`) prints the table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from html import escape
from pathlib import Path

from widgets import assets, cards, progress_file
from widgets.course import Lesson, after, lesson_of
from widgets.progress_model import Facts, Standing, go_on_with, standing, standings

STYLE = f"<style>{assets.style('lesson/progress.css')}</style>"
COLUMNS = ("lesson", "predictions", "check", "quiz", "last")


def progress(lesson: str = "") -> Shown:
    """How all lessons stand; or how this one does, whose end is thereby reached.

    Raises ValueError for a lesson that the course does not have.
    """
    if lesson:
        lesson_of(lesson)
        progress_file.ended(lesson)
    return Shown(lesson)


class Shown:
    """What `progress` shows. In a notebook it is drawn anew with each thing done."""

    def __init__(self, lesson: str) -> None:
        self.lesson = lesson

    def _card(self) -> cards.Html:
        kept = progress_file.here()
        facts = kept.facts()
        if self.lesson:
            return lesson_card(lesson_of(self.lesson), facts, kept.note)
        return course_card(facts, kept.note, kept.path)

    def _repr_html_(self) -> str:
        return self._card().html

    def __repr__(self) -> str:
        return self._card().text

    def _ipython_display_(self) -> None:
        from IPython.display import display

        handle = display(self._card(), display_id=True)
        if handle is not None:  # None outside of a notebook
            watchers = progress_file.here().watchers
            watchers[f"shown {self.lesson}"] = lambda: handle.update(self._card())


# ── all lessons ─────────────────────────────────────────────────────────────────────────────


def course_card(facts: Facts, note: str = "", path: Path | None = None) -> cards.Html:
    """All lessons: a tile each, and a table. path: of the file, to be told."""
    every = standings(facts)
    title, where = _headline(every, facts), "" if note.startswith("Not kept") else _where(path)
    rows = [_row(each) for each in every]
    goal = go_on_with(facts)
    tiles = "".join(_tile(each, each.lesson is goal) for each in every)
    html = cards.card(
        STYLE, cards.head(title), f'<ol class="ml-lessons">{tiles}</ol>',
        _small("The three bars of a lesson: predictions, check, quiz. "
               "A ✓ when the check has all its points and the quiz is right."),
        _small(where) if where else "", _noted(note),
        "<details><summary>Lesson by lesson</summary>"
        f"{cards.table(('', *COLUMNS), rows, left=True)}</details>",
    )  # fmt: skip
    marked = [(f"{row[0] or ' '} {row[1]}", *row[2:]) for row in rows]
    listing = cards.text_table(COLUMNS, marked)
    text = "\n".join(part for part in (title, listing, where, note) if part)
    return cards.Html(html, text)


def _headline(every: Sequence[Standing], facts: Facts) -> str:
    done, goal = sum(each.is_done for each in every), go_on_with(facts)
    if not facts:
        return "Where you are: at the start."
    title = f"Where you are: {done} of {len(every)} lessons done."
    return f"{title} Go on with {goal.name}." if goal else title


def _tile(each: Standing, is_next: bool) -> str:
    lesson = each.lesson
    mark = '<span class="ml-ok" aria-hidden="true">✓</span>' if each.is_done else ""
    bars = "".join(f'<i style="--done:{share * 100:.0f}%"></i>' for share in each.shares)
    said = escape(f"{lesson.name[0].upper()}{lesson.name[1:]}: {_said(each)}", quote=True)
    return (
        f'<li><a class="ml-tile{" ml-next" if is_next else ""}" href="{lesson.file}" '
        f'title="{said}" aria-label="{said}">'
        f'<span class="ml-tile-head"><span>{int(lesson.number)}</span>{mark}</span>'
        f'<span class="ml-bars" aria-hidden="true">{bars}</span></a></li>'
    )


def _row(each: Standing) -> tuple[str, ...]:
    lesson = each.lesson
    name = f"{int(lesson.number):>2} {lesson.short}"
    cells = [shown for _, shown, _ in parts(each)] or [""] * 3
    return "✓" if each.is_done else "", name, *cells, shown_date(each.last) if each.last else ""


# ── one lesson ──────────────────────────────────────────────────────────────────────────────


def lesson_card(lesson: Lesson, facts: Facts, note: str = "") -> cards.Html:
    """One lesson's parts, and the way to the next."""
    each, following = standing(lesson, facts), after(lesson)
    title = _lesson_headline(each)
    shown = [(f"{name} {text}".strip(), is_done) for name, text, is_done in parts(each)]
    marks = "".join(
        f'<span><b class="{"ml-ok" if is_done else ""}" aria-hidden="true">'
        f"{'✓' if is_done else '○'}</b>{escape(text)}</span>"
        for text, is_done in shown
    )
    way = f"Next: {following.name} ({following.minutes} min)" if following else ""
    link = f'<a class="ml-way" href="{following.file}">{escape(way)} →</a>' if following else ""
    html = cards.card(
        STYLE,
        f'<div class="ml-head"><span class="ml-title">{escape(title)}</span>{link}</div>',
        f'<div class="ml-parts">{marks}</div>' if marks else "", _noted(note),
        kind="good" if each.is_done else "",
    )  # fmt: skip
    lines = [title, *(f"{'✓' if is_done else '○'} {text}" for text, is_done in shown), way, note]
    return cards.Html(html, "\n".join(line for line in lines if line))


def parts(each: Standing) -> list[tuple[str, str, bool]]:
    """(name, how it stands, whether it is done) of predictions, check and quiz."""
    if not each.has_check:
        return []
    lesson, check = each.lesson, each.check
    points = f"{check.points:g} of {check.of:g} points" if check else "not run"
    if each.answered == 0:
        quiz = "not answered"
    else:
        quiz = f"{each.right} of {lesson.questions} right"
    count = len(lesson.predictions)
    return [
        ("predictions", f"{each.predicted} of {count}", each.predicted == count),
        ("check", points, each.is_checked),
        ("quiz", quiz, each.is_answered),
    ]


def _lesson_headline(each: Standing) -> str:
    number = int(each.lesson.number)
    if each.is_done:
        return f"Lesson {number} is done."
    left = [f"the {name}" for name, _, is_done in parts(each)[1:] if not is_done]
    verb = "are" if len(left) > 1 else "is"
    return f"Lesson {number}: {' and '.join(left)} {verb} still open."


# ── pieces ──────────────────────────────────────────────────────────────────────────────────


def shown_date(time: datetime) -> str:
    """1 Dec 2026"""
    return f"{time.day} {time:%b %Y}"


def _said(each: Standing) -> str:
    state = "done" if each.is_done else "begun" if each.last else "not begun"
    return ", ".join([state, *(f"{name} {text}" for name, text, _ in parts(each))])


def _where(path: Path | None) -> str:
    if path is None:
        return "Kept until this kernel ends, in no file."
    home = str(Path.home())
    shown = str(path)
    if shown.startswith(home):
        shown = f"~{shown[len(home):]}"
    return f"Kept on this machine alone, in {shown}."


def _small(text: str) -> str:
    return f'<p class="ml-small">{escape(text)}</p>'


def _noted(note: str) -> str:
    return f'<p class="ml-bad">{escape(note)}</p>' if note else ""


def main() -> int:
    """Print the table."""
    print(progress())
    return 0


if __name__ == "__main__":
    sys.exit(main())
