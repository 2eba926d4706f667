"""What one call of a student's code came to, and how an exercise's code is called.

`answer` runs in the process that has the student's objects: a child's, or in a browser this one.
"""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from grading.limits import TimeLimitError
from grading.plain import NotPlainError, plain

HERE = Path(__file__).resolve().parent
OURS = (str(HERE), str(HERE.parent / "minillm"), "<frozen")  # whose lines are no student's
MAX_MESSAGE = 300
Run = Callable[[Mapping[str, object], dict], object]


@dataclass(frozen=True)
class Outcome:
    """value: plain data, where there is an answer. error: a sentence, where there is none.

    died: the process ended or had to be ended, so nothing after it ran either.
    """

    value: object = None
    error: str | None = None
    died: bool = False


def answer(run: Run, objects: Mapping[str, object], args: dict) -> Outcome:
    """One call. Whatever the student's code raises becomes a sentence; its time limit, too."""
    try:
        value = run(objects, copy.deepcopy(args))
    except TimeLimitError as error:
        return Outcome(error=str(error), died=True)
    except BaseException as error:  # SystemExit and KeyboardInterrupt included: it's their code
        return Outcome(error=describe(error))
    try:
        return Outcome(plain(value))
    except NotPlainError as error:
        return Outcome(error=f"What it returns cannot be used. {error}")
    except BaseException as error:
        return Outcome(error=describe(error))


def describe(error: BaseException) -> str:
    """Type, message, and the line of the student's code that raised it."""
    try:
        message = str(error)
    except BaseException:
        message = "(its message cannot be shown)"
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if len(text) > MAX_MESSAGE:
        text = text[:MAX_MESSAGE] + "…"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(OURS)
    ]
    if not frames:
        return text
    return f"{text} (line {frames[-1].lineno} of its cell, in {frames[-1].name})"
