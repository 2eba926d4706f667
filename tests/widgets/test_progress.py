"""What a student sees of their progress, and what the lessons' widgets and checks tell of it."""

from __future__ import annotations

import re

import pytest

import grading
from tests.widgets.progress_facts import at, finished
from widgets import progress_file, questions
from widgets.course import LESSONS, lesson_of
from widgets.progress import course_card, lesson_card, main, progress
from widgets.progress_model import Fact, merge
from widgets.questions import Predict, Quiz


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv(progress_file.PLACE, str(tmp_path / "progress.json"))
    return progress_file.here()


def items(kept) -> set[str]:
    return {item for _, item in kept.facts()}


# ── the cards ───────────────────────────────────────────────────────────────────────────────


def test_the_strip_says_where_you_are_in_words_and_tiles(tmp_path):
    facts = merge(finished("00"), finished("01"), {("02", "predict 02-last"): Fact(at(3), 3.0)})
    card = course_card(facts, path=tmp_path / "progress.json")
    text = repr(card)
    assert text.startswith(
        "Where you are: 2 of 13 lessons done. Go on with lesson 2, The queue."
    )
    assert re.search(r"✓  1 Why one user wastes a GPU +2 of 2 +10 of 10 points +3 of 3 right", text)
    assert re.search(r"^   2 The queue +1 of 3 +not run +not answered +3 Dec 2026", text, re.M)
    html = card.html
    tile = r'<a class="ml-tile( ml-next)?" href="([\w.]+)".*?aria-label="([^"]+)"'
    tiles = re.findall(tile, html)
    assert [file for _, file, _ in tiles] == [lesson.file for lesson in LESSONS]
    assert [file for chosen, file, _ in tiles if chosen] == [lesson_of("02").file]
    assert tiles[2][2] == (
        "Lesson 2, The queue: begun, predictions 1 of 3, check not run, quiz not answered"
    )
    assert "http" not in html


def test_at_the_start_and_at_the_end():
    assert repr(course_card({})).startswith("Where you are: at the start.")
    every = merge(*(finished(lesson.number) for lesson in LESSONS))
    assert repr(course_card(every)).startswith("Where you are: 13 of 13 lessons done.\n")


def test_a_lessons_line_says_what_is_open_and_what_comes_next():
    facts = {("05", "check"): Fact(at(1), points=7, of=10)}
    card = lesson_card(lesson_of("05"), facts)
    assert repr(card).splitlines() == [
        "Lesson 5: the check and the quiz are still open.",
        "○ predictions 0 of 2",
        "○ check 7 of 10 points",
        "○ quiz not answered",
        "Next: lesson 6, Prefill and decode (50 min)",
    ]
    assert 'href="06_prefill_and_decode.ipynb"' in card.html
    done = lesson_card(lesson_of("05"), finished("05"))
    assert repr(done).startswith("Lesson 5 is done.\n✓ predictions 2 of 2\n")
    assert "ml-good" in done.html
    assert "Next" not in repr(lesson_card(lesson_of("12"), {}))
    assert "<a" not in lesson_card(lesson_of("12"), {}).html


def test_a_note_is_shown_and_escaped():
    note = "Not kept: <b>"
    for card in (course_card({}, note), lesson_card(lesson_of("05"), {}, note)):
        assert "Not kept: &lt;b&gt;" in card.html
        assert note in repr(card)


def test_progress_marks_the_end_and_refuses_what_is_no_lesson(kept):
    assert repr(progress("00")).startswith("Lesson 0 is done.")
    assert items(kept) == {"end"}
    progress()
    assert items(kept) == {"end"}
    with pytest.raises(ValueError, match="There is no lesson '5'"):
        progress("5")


def test_what_is_shown_stays_current(kept, monkeypatch):
    import IPython.display

    shown = []

    class Handle:
        def update(self, card):
            shown.append(repr(card))

    monkeypatch.setattr(IPython.display, "display", lambda card, display_id: Handle())
    progress("05")._ipython_display_()
    progress_file.checked("lesson_05", 10, 10)
    assert "✓ check 10 of 10 points" in shown[-1]
    progress("05")._ipython_display_()  # the cell is run again: its old output is gone
    count = len(shown)
    progress_file.answered("05", {1: True})
    assert len(shown) == count + 1


def test_the_command_prints_the_table(kept, capsys):
    assert main() == 0
    out = capsys.readouterr().out
    assert "Where you are: at the start." in out
    assert str(kept.path) in out


# ── what the widgets and checks tell ────────────────────────────────────────────────────────


@pytest.fixture
def predict(kept) -> Predict:
    return Predict("05-speed", "How many times as fast?", low=1, high=5, step=0.1)


def test_a_locked_prediction_is_kept(kept, predict):
    predict.answer = 3.0
    assert items(kept) == set()
    predict.locked_at = "14:07"  # the button sets it in the browser
    assert kept.facts()["05", "predict 05-speed"].answer == 3.0


def test_a_prediction_locked_by_the_demo_is_kept_if_there_is_one(kept, predict):
    predict.lock()
    assert items(kept) == set()
    again = Predict("05-speed", "How many times as fast?", low=1, high=5, step=0.1)
    again.answer = 2.0
    again.lock()
    assert items(kept) == {"predict 05-speed"}


def test_a_quiz_is_kept_answer_by_answer(kept):
    quiz = Quiz.of("05")
    right = [[one["right"] for one in item["options"]].index(True) for item in quiz.items]
    quiz.picked = [right[0], None, None]
    assert kept.facts().keys() == {("05", "quiz 1")}
    quiz.picked = [right[0], (right[1] + 1) % 3, right[2]]
    facts = kept.facts()
    assert [facts["05", f"quiz {i}"].right for i in (1, 2, 3)] == [True, False, True]


def fifo(arrivals, services):
    return None


def test_a_check_of_all_functions_is_kept(kept):
    grading.check("lesson_02", fifo_waits=fifo, littles_law=lambda *numbers: None)
    fact = kept.facts()["02", "check"]
    assert (fact.points, fact.of) == (0, 12)


def test_a_check_of_some_functions_is_not_kept(kept):
    grading.check("lesson_02", fifo_waits=fifo)
    assert kept.facts() == {}


def test_grading_is_not_kept(kept, monkeypatch):
    objects = {"fifo_waits": fifo, "littles_law": lambda *numbers: None}
    grading.grade("lesson_02", **objects)
    hidden = pytest.importorskip("grading.hidden")
    hidden.grade("lesson_02", **objects)
    assert kept.facts() == {}


def test_a_run_without_a_person_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.delenv(progress_file.PLACE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv(questions.ANSWERS, '{"05-speed": 3}')
    predict = Predict("05-speed", "How many times as fast?", low=1, high=5, step=0.1)
    assert predict.locked_at
    assert list(tmp_path.iterdir()) == []
