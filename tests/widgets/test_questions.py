"""Predict locks before Run and stands beside the result; Quiz has one right option each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets import question_line, questions
from widgets.question_chart import Axis, Chart
from widgets.questions import Predict, Quiz, save_answers

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
    assert all(0 <= x <= question_line.WIDTH for x in circles)
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


# ── a point on a chart ──────────────────────────────────────────────────────────────────────


def drawn(**changes) -> Predict:
    axes = {
        "x": Axis("ms per token", 5, 100, log=True, unit="ms"),
        "y": Axis("tokens per second", 50, 20_000, log=True, unit="tok/s"),
        "lines": [("A100, batch 1 to 32", [(11.9, 84.0), (14.3, 2230.0)])],
    } | changes
    return Predict("point", "Where will batch 64 lie?", chart=Chart(**axes))


def circles(html: str) -> list[tuple[float, float]]:
    found = re.findall(r'<circle cx="([\d.-]+)" cy="([\d.-]+)"', html)
    return [(float(x), float(y)) for x, y in found]


def test_a_point_stands_beside_what_was_seen():
    predict = drawn()
    predict.answer = [20, 4000]
    predict.lock()
    shown = predict.saw((17.3, 3709.0), "simulated, A100")
    assert repr(shown) == (
        "You predicted 20.0\u202fms and 4,000\u202ftok/s, "
        "you saw 17.3\u202fms and 3,710\u202ftok/s. simulated, A100"
    )
    own, saw = circles(shown._repr_html_())
    assert own[0] > saw[0]
    assert own[1] < saw[1]  # more throughput stands higher


@pytest.mark.parametrize("actual", [(1.0, 3.0), (900.0, 3e6), (20.0, 4000.0)])
def test_a_result_off_the_axes_is_still_in_the_picture(actual):
    predict = drawn()
    predict.answer = [20.0, 4000.0]
    for x, y in circles(predict.saw(actual)._repr_html_()):
        assert 0 <= x <= 560
        assert 0 <= y <= 300


def test_no_point_was_placed():
    predict = drawn()
    predict.lock()
    html = predict.saw((17.3, 3709.0))._repr_html_()
    assert "You made no prediction" in html
    assert len(circles(html)) == 1
    assert "too short to say" not in html


def test_a_point_from_the_environment(monkeypatch):
    monkeypatch.setenv(questions.ANSWERS, json.dumps({"point": [20, 4000]}))
    assert drawn().answer == [20.0, 4000.0]


@pytest.mark.parametrize("point", [[20], [20, "x"], "20,4000", 3, [20, None], [True, 5], [1, 4000]])
def test_a_point_that_cannot_be_is_refused(monkeypatch, point):
    monkeypatch.setenv(questions.ANSWERS, json.dumps({"point": point}))
    with pytest.raises(ValueError, match=r"must be a point|off the chart"):
        drawn()


def test_a_chart_is_a_kind_of_its_own():
    axis = Axis("x", 0, 1)
    with pytest.raises(ValueError, match="or a chart"):
        Predict("x", "?", choices=["a"], chart=Chart(axis, axis))
    with pytest.raises(ValueError, match="cannot be drawn"):
        Axis("x", 0, 1, log=True)


def test_the_charts_words_are_escaped():
    predict = drawn(lines=[("<b>", [(10, 100)])], x=Axis("<i>", 5, 100))
    predict.answer = [20, 4000]
    html = predict.saw((17.3, 3709.0))._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<i>" not in html


def boxes(html: str, size: float) -> list[tuple[float, float, float, float]]:
    """Where the words "you predicted" and "you saw" stand, written in that size."""
    found = re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)" class="ml-(?:saw|strong)">(.*?)<',
        html,
    )
    made = []
    for x, y, anchor, words in found:
        wide = len(words) * size * 0.55
        left = float(x) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
        made.append((left, float(y) - size * 0.8, left + wide, float(y) + size * 0.2))
    return made


def apart(one, other) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@given(st.floats(5, 100), st.floats(50, 20_000), st.floats(-2, 2), st.floats(-0.2, 0.2))
def test_labels_of_points_that_lie_close_are_apart(ms, tok, right, up):
    chart = drawn()._chart
    near = (ms * 1.02**right, tok * 10**up)
    for size in (12, question_line.LARGE):
        own, saw = boxes(chart.svg((ms, tok), near, ""), size)
        assert apart(own, saw)
        assert all(box[0] >= 0 and box[2] <= 560 and box[1] >= 0 for box in (own, saw))


@given(
    st.floats(0, 1e4), st.floats(0, 1e4), st.sampled_from(["", "×", "tok/s", "requests a second"])
)
def test_labels_of_a_number_line_are_apart(answer, actual, unit):
    html = question_line.number_line(0, 1e4, answer, actual, lambda v: f"{v:,.1f} {unit}", "")
    for size in (12, question_line.LARGE):
        own, saw = boxes(html, size)
        assert apart(own, saw)
        assert all(box[0] >= -1 and box[2] <= 561 for box in (own, saw))


@pytest.mark.parametrize(
    ("low", "high", "marked"),
    [(1, 32, [1, 10, 20, 32]), (0, 80, [0, 20, 40, 60, 80]), (1, 163.2, [1, 50, 100, 163.2])],
)
def test_a_number_line_has_round_values_between_its_ends(low, high, marked):
    html = question_line.number_line(low, high, None, low, lambda v: f"{v:g}", "")
    assert [float(words) for words in re.findall(r">([\d.]+)</text>", html)] == marked


# ── saved answers ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(monkeypatch):
    monkeypatch.setattr(questions, "_asked", {})
    predict, quiz = choice(), Quiz([item(True, False), item(False, True)], "07")
    predict.answer = "1 step"
    predict.lock()
    quiz.picked = [0, None]
    return quiz


def test_answers_are_saved_with_what_was_right(asked, tmp_path):
    path = tmp_path / "answers.json"
    said = save_answers(path)
    assert repr(said).startswith(f"Saved to {path} at ")
    data = json.loads(path.read_text(encoding="utf-8"))
    (predict,) = data["predictions"]
    assert (predict["key"], predict["answer"]) == ("wait", "1 step")
    assert re.fullmatch(r"\d\d:\d\d", predict["locked_at"])
    (quiz,) = data["quizzes"]
    assert quiz["key"] == "07"
    assert [each["right"] for each in quiz["questions"]] == [True, None]
    assert list(tmp_path.iterdir()) == [path]


def test_a_cell_that_runs_again_asks_once(asked, tmp_path):
    choice()
    save_answers(tmp_path / "a.json")
    assert len(json.loads((tmp_path / "a.json").read_text())["predictions"]) == 1


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_lost(asked, tmp_path):
    path = tmp_path / "answers.json"
    save_answers(path)
    before = path.read_text()
    said = save_answers(tmp_path / "missing" / "answers.json")
    assert repr(said).startswith("Not saved: No such file or directory")
    assert "ml-alert" in said._repr_html_()
    (tmp_path / "folder").mkdir()
    assert repr(save_answers(tmp_path / "folder")).startswith("Not saved")
    assert path.read_text() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["answers.json", "folder"]


def test_the_button_saves_beside_the_notebook(asked, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked._handle_custom_msg({"save": True}, [])
    assert asked.saved.startswith("Saved to answers-07.json at ")
    assert (tmp_path / "answers-07.json").is_file()
    for odd in (None, 3, {}, {"save": False}):
        asked._handle_custom_msg(odd, [])


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
        assert "http" not in widget._esm.replace("http://www.w3.org/2000/svg", "")
        assert "import" not in re.sub(r"//.*", "", widget._esm)
        assert "url(" not in widget._css
