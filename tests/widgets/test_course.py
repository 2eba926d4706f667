"""The course's plan is what the notebooks and quizzes hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from grading import EXERCISES
from widgets.course import LESSONS, Lesson, after, lesson_of
from widgets.questions import Quiz

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def cells_of(lesson: Lesson) -> dict[str, str]:
    cells = json.loads((NOTEBOOKS / lesson.file).read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


def test_every_lesson_has_its_notebook_and_its_exercise():
    assert [lesson.file for lesson in LESSONS] == sorted(
        path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")
    )
    assert tuple(f"lesson_{each.number}" for each in LESSONS if each.questions) == EXERCISES


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_the_plan_is_what_the_notebook_holds(lesson):
    cells = cells_of(lesson)
    title = cells[f"{lesson.number}-title"]
    assert title.splitlines()[0] == f"# {lesson.title}"
    assert f"**{lesson.minutes} min** · Lesson {int(lesson.number)} of 12" in title
    text = "\n".join(cells.values())
    assert tuple(re.findall(r'\bPredict\(\s*"([\w-]+)"', text)) == lesson.predictions
    if lesson.questions:
        assert len(Quiz.of(lesson.number).items) == lesson.questions
        assert f'Quiz.of("{lesson.number}")' in text
        assert f'"lesson_{lesson.number}"' in text
    else:
        assert "Quiz" not in text


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.number)
def test_every_lesson_ends_with_where_it_stands(lesson):
    cells = cells_of(lesson)
    cell = cells[f"{lesson.number}-progress"]
    assert cell == f'from widgets.progress import progress\n\nprogress("{lesson.number}")'
    behind = list(cells)[list(cells).index(f"{lesson.number}-progress") + 1 :]
    assert behind == (["12-page-text", "12-page"] if lesson.number == "12" else [])


def test_lessons_follow_one_another():
    assert after(lesson_of("00")).number == "01"
    assert after(lesson_of("12")) is None
    assert lesson_of("05").name == "lesson 5, Continuous batching"
    with pytest.raises(ValueError, match="no lesson '13'"):
        lesson_of("13")
