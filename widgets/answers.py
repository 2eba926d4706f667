"""A student's answers as one JSON file: predictions with the time they were locked, quizzes.

    save_answers("answers-05.json")    # all of this notebook; returns a card that says where

It never raises for a file that cannot be written: the card has the reason. No network.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Protocol

from widgets import cards
from widgets.files import reason, write_whole

SCHEMA = 1


class Answered(Protocol):
    """A question that knows what was answered."""

    def answered(self) -> dict: ...


def answers_data(questions: Iterable[Answered]) -> dict:
    """What was answered, in the order in which the questions were made."""
    answered = [question.answered() for question in questions]
    return {
        "schema": SCHEMA,
        "saved": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "predictions": [each for each in answered if each["kind"] == "predict"],
        "quizzes": [each for each in answered if each["kind"] == "quiz"],
    }


def write_answers(path: str | Path, data: dict) -> str:
    """Write the file whole or not at all; the sentence that says what happened."""
    path = Path(path)
    try:
        write_whole(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        return f"Not saved: {reason(error, path)}."
    return f"Saved to {path} at {time.strftime('%H:%M')}."


def saved_card(sentence: str) -> cards.Html:
    """The sentence as a card."""
    kind = "good" if sentence.startswith("Saved") else "alert"
    return cards.Html(cards.card(f"<p>{escape(sentence)}</p>", kind=kind), sentence)
