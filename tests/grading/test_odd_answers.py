"""Whatever a student's function returns, the check says what is wrong with it and never raises."""

from __future__ import annotations

from importlib import import_module

import pytest

from grading import EXERCISES, examine
from grading.isolate import IN_PROCESS
from minillm.core import Scheduler

ODD = {
    "none": None, "true": True, "minus": -1, "nan": float("nan"), "infinity": float("inf"),
    "text": "x", "empty": [], "nones": [None, None], "texts": ["x", "y"], "nested": [[[]]],
    "pairs": [(None, None), ("a", 1.5)], "mixed": [1, "x", None, [2]], "dict": {"a": None},
    "dicts": [{}, {"request": 0}], "huge": 10**400, "set": {1}, "object": object(),
}  # fmt: skip


def returning(odd: object, name: str) -> object:
    """What the student wrote under that name, such that every call of it returns `odd`."""
    if name == "scheduler":
        return type("Odd", (Scheduler,), {"schedule": lambda self, now: odd})
    if name[0].isupper():
        methods = {name: lambda self, *_: odd for name in ("allocate", "free")}
        return type("Odd", (), {"__init__": lambda self, *_: None, **methods})
    return lambda *_: odd


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_odd_answer_is_told(exercise, kind, monkeypatch):
    monkeypatch.setenv(IN_PROCESS, "1")
    for name in import_module(f"grading.checks.{exercise}").EXERCISE.objects:
        report = examine(exercise, **{name: returning(ODD[kind], name)})
        assert report.score < report.max, repr(report)
        assert report.first_failure.got
        assert report._repr_html_()
