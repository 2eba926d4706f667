"""The landing page: what the course is, its picture, a start button for each lesson.

Titles, minutes and aims come from the notebooks' own title cells, so that nothing is said twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from urllib.parse import quote

from tools.site.contents import FOLDER
from tools.site.errors import SiteError

TEMPLATE = Path(__file__).with_name("landing.html")
LAB = "lab/index.html"

_TITLE = re.compile(r"# (.+)")
_LINE = re.compile(r"\*\*(\d+) min\*\* · Lesson (\d+) of \d+ · Needs: (.+)")
_AIM = re.compile(r"\d+\. (.+)")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson's title cell. path, exercise: notebooks' places on the site ("" for none)."""

    number: int
    title: str
    minutes: int
    needs: str
    aims: tuple[str, ...]
    path: str
    exercise: str = ""

    @property
    def name(self) -> str:
        """The title up to its colon."""
        return self.title.split(":")[0]


def read_lessons(notebooks: Path) -> list[Lesson]:
    """The lessons in their order; SiteError names a notebook without a proper title cell."""
    return [read_lesson(path) for path in sorted(notebooks.glob("[0-9][0-9]_*.ipynb"))]


def read_lesson(path: Path) -> Lesson:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = "".join(cells[0]["source"]).splitlines() if cells else []
    title = next(filter(None, map(_TITLE.fullmatch, lines)), None)
    line = next(filter(None, map(_LINE.fullmatch, lines)), None)
    aims = tuple(found[1] for found in map(_AIM.fullmatch, lines) if found)
    if title is None or line is None or not aims:
        raise SiteError(
            f"{path.name}: its first cell has to hold “# Title”, "
            "“**N min** · Lesson N of N · Needs: …” and numbered aims."
        )
    exercise = path.parent / "exercises" / f"lesson_{path.name[:2]}.ipynb"
    return Lesson(
        int(line[2]), title[1], int(line[1]), line[3], aims, path.name,
        f"exercises/{exercise.name}" if exercise.exists() else "",
    )  # fmt: skip


def lab_link(notebook: str) -> str:
    """The address of a notebook in the site's lab, relative to the landing page."""
    return f"{LAB}?path={quote(f'{FOLDER}/{notebook}', safe='')}"


def page(lessons: Sequence[Lesson], figure: str, versions: str) -> str:
    """The page's HTML. figure: inline SVG; versions: what is inside, for the last line."""
    first = next(lesson for lesson in lessons if lesson.number == 1)
    minutes = sum(lesson.minutes for lesson in lessons)
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        first=escape(lab_link(first.path)),
        dashboard=escape(lab_link("dashboard.ipynb")),
        figure=figure,
        count=len(lessons),
        hours=f"{minutes / 60:.0f}",
        lessons="\n".join(map(_row, lessons)),
        versions=escape(versions),
    )


def _row(lesson: Lesson) -> str:
    aims = "".join(f"<li>{inline(aim)}</li>" for aim in lesson.aims)
    label = escape(f"Start lesson {lesson.number}, {lesson.name}", quote=True)
    exercise = ""
    if lesson.exercise:
        words = f"Exercise of lesson {lesson.number} alone"
        link = escape(lab_link(lesson.exercise))
        exercise = f'<a href="{link}" aria-label="{words}">Exercise</a>'
    return (
        f'<li class="lesson"><span class="number">{lesson.number}</span>'
        f"<div><h3>{inline(lesson.title)}</h3>"
        f'<p class="meta">{lesson.minutes} min · needs {inline(lesson.needs)}</p>'
        f"<details><summary>What you will be able to do</summary><ol>{aims}</ol></details></div>"
        f'<div class="go"><a class="button" href="{escape(lab_link(lesson.path))}" '
        f'aria-label="{label}">Start</a>{exercise}</div></li>'
    )


def inline(markdown: str) -> str:
    """A title cell's line as HTML: text, `code` and *emphasis*."""
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(markdown, quote=False))
    return re.sub(r"\*([^*]+)\*", r"<em>\1</em>", text)
