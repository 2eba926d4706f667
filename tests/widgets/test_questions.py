"""Predict locks before Run and stands beside the result; Quiz has one right option each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from widgets import questions
from widgets.questions import Predict, Quiz

QUIZZES = sorted((Path(questions.__file__).parent / "quizzes").glob("*.json"))


def number(**changes) -> Predict:
    settings = {"low": 1, "high": 5, "step": 0.1, "unit": "×"} | changes
    return Predict("speed", "How many times as fast?", **settings)


def choice() -> Predict:
    return Predict("wait", "How long?", choices=["1 step", "80 steps"])


def test_locking_stamps_the_time_once():
    predict = number()
    assert predict.locked_at == ""
    predict.answer = 3.0
    predict.lock()
    stamp = predict.locked_at
    assert re.fullmatch(r"\d\d:\d\d", stamp)
    predict.lock()
    assert predict.locked_at == stamp


def test_the_result_stands_beside_the_prediction():
    predict = number()
    predict.answer = 3.0
    predict.lock()
    shown = predict.saw(2.13, "measured here")
    assert repr(shown) == "You predicted 3.0×, you saw 2.1×. measured here"
    html = shown._repr_html_()
    assert "<svg" in html
    assert 'aria-label="You predicted 3.0×, you saw 2.1×."' in html
    assert predict.locked_at in html


@pytest.mark.parametrize(("answer", "saw"), [(1.0, 9.0), (5.0, 0.2), (3.0, 3.0), (3.0, 3.1)])
def test_the_number_line_holds_both_marks(answer, saw):
    predict = number()
    predict.answer = answer
    html = predict.saw(saw)._repr_html_()
    circles = [float(x) for x in re.findall(r'<circle cx="([\d.-]+)"', html)]
    assert len(circles) == 2
    assert all(0 <= x <= questions.WIDTH for x in circles)
    assert (circles[0] < circles[1]) == (answer < saw)


def test_no_prediction_is_said_and_not_invented():
    predict = number()
    predict.lock()
    assert "You made no prediction" in repr(predict.saw(2.0))
    assert predict.answer is None


def test_a_run_too_short_to_say():
    predict = number()
    predict.answer = 2.0
    assert "too short to say" in repr(predict.saw(None))


def test_choices_are_compared_as_words():
    predict = choice()
    predict.answer = "80 steps"
    assert repr(predict.saw("1 step")) == "You predicted 80 steps, you saw 1 step."
    assert "<svg" not in predict.saw("1 step")._repr_html_()


def test_whole_steps_have_no_decimals():
    predict = number(step=5, unit="%", low=0, high=100)
    predict.answer = 45.0
    assert repr(predict.saw(30.0)) == "You predicted 45\u202f%, you saw 30\u202f%."


def test_text_is_escaped():
    predict = Predict("x", "?", choices=["<b>", "&"])
    predict.answer = "<b>"
    assert "<b>" not in predict.saw("&", "<i>")._repr_html_().replace("<b></b>", "")
    assert "<i>" not in predict.saw("&", "<i>")._repr_html_()


# ── runs without a person ───────────────────────────────────────────────────────────────────


def test_answers_come_from_the_environment_and_are_locked(monkeypatch):
    monkeypatch.setenv(questions.ANSWERS, json.dumps({"speed": 2, "wait": "1 step"}))
    assert (number().answer, choice().answer) == (2.0, "1 step")
    assert number().locked_at
    assert Predict("other", "?", choices=["a"]).answer is None


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ('{"wait": "2 steps"}', "is no choice of wait"),
        ('{"speed": "fast"}', "must be a number"),
        ("[1]", "JSON object"),
        ("{", "JSON object"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(monkeypatch, answers, message):
    monkeypatch.setenv(questions.ANSWERS, answers)
    with pytest.raises(ValueError, match=message):
        [number(), choice()]


def test_a_question_has_choices_or_a_range():
    with pytest.raises(ValueError, match="either choices or both low and high"):
        Predict("x", "?")
    with pytest.raises(ValueError, match="either choices or both low and high"):
        Predict("x", "?", choices=["a"], low=0, high=1)
    with pytest.raises(ValueError, match="low must be below high"):
        Predict("x", "?", low=2, high=1)


# ── quiz ────────────────────────────────────────────────────────────────────────────────────


def item(*right: bool) -> dict:
    options = [{"text": str(i), "right": one, "feedback": "so"} for i, one in enumerate(right)]
    return {"text": "?", "options": options}


def test_a_quiz_has_exactly_one_right_option_each():
    assert Quiz([item(True, False)]).picked == [None]
    for wrong in (item(True, True), item(False, False)):
        with pytest.raises(ValueError, match="Exactly one option"):
            Quiz([wrong])
    with pytest.raises(ValueError, match="at least one question"):
        Quiz([])


@pytest.mark.parametrize("path", QUIZZES, ids=lambda path: path.stem)
def test_the_lessons_quizzes(path):
    quiz = Quiz.of(path.stem)
    assert len(quiz.items) == 3
    for question in quiz.items:
        assert len(question["options"]) >= 3
        for option in question["options"]:
            assert len(option["feedback"]) > 20, option["text"]
    # The right answer is not always at the same place.
    places = [[o["right"] for o in question["options"]].index(True) for question in quiz.items]
    assert len(set(places)) > 1


def test_the_scripts_load_nothing_from_elsewhere():
    for widget in (Predict, Quiz):
        assert "http" not in widget._esm
        assert "import" not in re.sub(r"//.*", "", widget._esm)
        assert "url(" not in widget._css
