"""Predict (an answer that locks before Run) and Quiz (feedback for every answer).

    predict = Predict("05-speedup", "How many times as fast?", low=1, high=5, step=0.1, unit="×")
    predict = Predict("10-point", "Where will batch 64 lie?", chart=Chart(…))   # a drawn point
    predict.lock()             # the demo's cell: from now on the answer stands
    predict.saw(2.1)           # afterwards: prediction and result on one line, or chart
    save_answers("answers.json")   # predictions and quizzes of this notebook, as JSON

A run without a person takes the answers from the environment: MINILLM_ANSWERS is a JSON object,
key → answer, which whoever runs the notebook fills from the cells' metadata (minillm.answers).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import anywidget
import traitlets

from widgets import answers, assets, cards, progress_file
from widgets.numbers import fixed, step_digits
from widgets.question_chart import Chart
from widgets.question_line import number_line

CSS = assets.style("lesson/lesson.css") + assets.style("questions/questions.css")
ANSWERS = "MINILLM_ANSWERS"
_asked: dict[str, Predict | Quiz] = {}  # by key: a cell that is run again asks anew


class Predict(anywidget.AnyWidget):
    """One question with choices (texts), a number between low and high, or a point on a chart.

    key: names the answer in MINILLM_ANSWERS. answer: None until given; a point is [x, y].
    locked_at: "14:07", or "" while it may change.
    """

    _esm = assets.module(
        "shared/keys.js", "shared/format.js", "shared/axis.js", "shared/scale.js",
        "questions/dom.js", "questions/chart.js", "questions/predict.js",
    )  # fmt: skip
    _css = CSS

    title = traitlets.Unicode("Predict").tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    low = traitlets.Float(0).tag(sync=True)
    high = traitlets.Float(1).tag(sync=True)
    step = traitlets.Float(0.1).tag(sync=True)
    unit = traitlets.Unicode("").tag(sync=True)
    chart = traitlets.Dict(None, allow_none=True).tag(sync=True)
    answer = traitlets.Any(None, allow_none=True).tag(sync=True)
    locked_at = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        key: str,
        question: str,
        *,
        choices: Iterable[str] = (),
        low: float | None = None,
        high: float | None = None,
        step: float = 1.0,
        unit: str = "",
        title: str = "Predict",
        chart: Chart | None = None,
    ) -> None:
        options = list(choices)
        if [bool(options), low is not None and high is not None, chart is not None].count(
            True
        ) != 1:
            raise ValueError("A question has either choices or both low and high, or a chart.")
        if low is not None and high is not None and not low < high:
            raise ValueError(f"low must be below high, got {low!r} and {high!r}.")
        super().__init__(
            title=title, question=question, choices=options, step=step, unit=unit,
            low=0.0 if low is None else low, high=1.0 if high is None else high,
            chart=None if chart is None else chart.as_dict(),
        )  # fmt: skip
        self.key = key
        self._chart = chart
        self.observe(self._keep, "locked_at")
        _asked[f"predict {key}"] = self
        given = _given_answers().get(key)
        if given is not None:
            self.answer = self._checked(given)
            self.lock()

    def lock(self) -> None:
        """From now on the answer stands (none given: it is noted that there was none)."""
        if not self.locked_at:
            self.locked_at = time.strftime("%H:%M")

    def _keep(self, _change: object) -> None:
        """In the student's progress, once it is locked: by the button or by the demo's cell."""
        if self.locked_at:
            progress_file.predicted(self.key, self.answer)

    def saw(self, actual: float | str | Sequence[float] | None, remark: str = "") -> cards.Html:
        """Prediction and result side by side: a number line, a chart, or the two choices."""
        result = None if actual is None else self._shown(actual)
        if self.answer is None:
            sentence = f"You made no prediction. The run shows {result or 'n/a'}."
        elif result is None:
            sentence = f"You predicted {self._shown(self.answer)}; the run was too short to say."
        else:
            sentence = f"You predicted {self._shown(self.answer)}, you saw {result}."
        line = ""
        if self._chart is not None and actual is not None:
            line = self._chart.svg(self.answer, actual, sentence)
        elif not self.choices and isinstance(actual, (int, float)):
            own = None if self.answer is None else float(self.answer)
            line = number_line(self.low, self.high, own, float(actual), self._number, sentence)
        html = cards.card(
            cards.head(sentence, f"{self.title}, locked {self.locked_at or 'never'}"), line,
            f"<p>{escape(remark)}</p>" if remark else "",
        )  # fmt: skip
        return cards.Html(html, f"{sentence} {remark}".strip())

    def answered(self) -> dict:
        """For the file of answers."""
        return {
            "kind": "predict", "key": self.key, "question": self.question, "answer": self.answer,
            "locked_at": self.locked_at or None,
        }  # fmt: skip

    def _checked(self, answer: object) -> object:
        if self._chart is not None:
            return self._chart.checked(answer)
        if self.choices:
            if answer not in self.choices:
                known = ", ".join(self.choices)
                raise ValueError(f"{answer!r} is no choice of {self.key}: {known}.")
            return answer
        if isinstance(answer, bool) or not isinstance(answer, (int, float)):
            raise ValueError(f"The answer to {self.key} must be a number, got {answer!r}.")
        return float(answer)

    def _shown(self, value: object) -> str:
        if self._chart is not None:
            return self._chart.shown(value)
        return str(value) if self.choices else self._number(float(value))

    def _number(self, value: float) -> str:
        """As many digits as the step has; "2.1×", but "45 %"."""
        gap = "" if self.unit in ("", "×") else "\u202f"
        return f"{fixed(value, step_digits(self.step))}{gap}{self.unit}"


class Quiz(anywidget.AnyWidget):
    """Questions with feedback for every option; it works without a kernel.

    items: {"text", "options": [{"text", "right", "feedback"}]}, exactly one option right.
    picked: the option chosen last for each question, None before.
    """

    _esm = assets.module("shared/keys.js", "questions/dom.js", "questions/quiz.js")
    _css = CSS

    items = traitlets.List(traitlets.Dict()).tag(sync=True)
    picked = traitlets.List().tag(sync=True)
    saved = traitlets.Unicode("").tag(sync=True)

    def __init__(self, items: Iterable[dict], key: str = "") -> None:
        questions = list(items)
        if not questions:
            raise ValueError("A quiz needs at least one question.")
        for question in questions:
            if sum(option["right"] for option in question["options"]) != 1:
                raise ValueError(f"Exactly one option must be right: {question['text']!r}.")
        super().__init__(items=questions, picked=[None] * len(questions))
        self.key = key
        self.on_msg(self._on_message)
        self.observe(self._keep, "picked")
        _asked[f"quiz {key}"] = self

    @classmethod
    def of(cls, lesson: str) -> Quiz:
        """The quiz of a lesson, such as "05" (widgets/quizzes/05.json)."""
        file = files("widgets") / "quizzes" / f"{lesson}.json"
        return cls(json.loads(file.read_text(encoding="utf-8")), lesson)

    def answered(self) -> dict:
        """For the file of answers."""
        picked = []
        for item, index in zip(self.items, self.picked, strict=True):
            option = None if index is None else item["options"][index]
            picked.append({
                "question": item["text"], "picked": option and option["text"],
                "right": option and bool(option["right"]),
            })  # fmt: skip
        return {"kind": "quiz", "key": self.key, "questions": picked}

    def _keep(self, _change: object) -> None:
        """In the student's progress, answer by answer."""
        given = {
            number: each["right"]
            for number, each in enumerate(self.answered()["questions"], 1)
            if each["picked"] is not None
        }
        progress_file.answered(self.key, given)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """The button: all of this notebook's answers, into a file beside it."""
        if isinstance(content, dict) and content.get("save"):
            name = "-".join(part for part in ("answers", self.key) if part)
            self.saved = answers.write_answers(
                f"{name}.json", answers.answers_data(_asked.values())
            )


def save_answers(path: str | Path = "answers.json") -> cards.Html:
    """Save this notebook's predictions and quizzes as JSON; a card says where, or why not."""
    return answers.saved_card(_write(path))


def _write(path: str | Path) -> str:
    return answers.write_answers(path, answers.answers_data(list(_asked.values())))


def _given_answers() -> dict:
    text = os.environ.get(ANSWERS, "")
    if not text:
        return {}
    try:
        answers = json.loads(text)
    except ValueError:
        answers = None
    if not isinstance(answers, dict):
        raise ValueError(f"{ANSWERS} must be a JSON object (key → answer), got {text[:60]!r}.")
    return answers
