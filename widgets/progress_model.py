"""What a student has done, as facts that can be merged in any order.

A fact is one thing done in a lesson, under the key (lesson, item): `predict 05-speed`, `check`,
`quiz 2`, or `end` (its last cell was run). `merge` is commutative, associative and idempotent, so
that two notebooks, or two copies of the file, lose nothing of each other. The standard library is
all it needs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from widgets.course import LESSONS, Lesson

SCHEMA = 1
Key = tuple[str, str]  # (lesson, item)
ITEM = re.compile(r"(end|check|quiz [1-9]\d*|predict \d\d-[\w-]+)", re.ASCII)
FIELDS = {
    "end": {"at"}, "check": {"at", "points", "of"}, "quiz": {"at", "right"},
    "predict": {"at", "answer"},
}  # fmt: skip


class NewerFileError(ValueError):
    """The text was written by a later version, whose facts this one does not know."""


@dataclass(frozen=True, slots=True)
class Fact:
    """at: local time with its offset, ISO 8601. answer: a prediction's (text, number or [x, y]).

    points of `of`: a check's best. right: whether a quiz question was ever answered right.
    """

    at: str
    answer: object = None
    points: float | None = None
    of: float | None = None
    right: bool | None = None


Facts = Mapping[Key, Fact]


def merge(*parts: Facts) -> dict[Key, Fact]:
    """All facts of the parts; of two under one key the better one, or else the earlier one."""
    merged: dict[Key, Fact] = {}
    for part in parts:
        for key, fact in part.items():
            merged[key] = max(merged.get(key, fact), fact, key=_rank)
    return merged


def _rank(fact: Fact) -> tuple:
    share = fact.points / fact.of if fact.of else float(bool(fact.right))
    return share, -datetime.fromisoformat(fact.at).timestamp(), json.dumps(asdict(fact))


# ── as text ─────────────────────────────────────────────────────────────────────────────────


def encode(facts: Facts) -> str:
    """The file's text: JSON that a person can read, a line a fact."""
    lessons = []
    for lesson, items in _data(facts)["lessons"].items():
        lines = ",\n".join(f"   {_json(item)}: {_json(fields)}" for item, fields in items.items())
        lessons.append(f"  {_json(lesson)}: {{\n{lines}\n  }}")
    body = ",\n".join(lessons)
    inside = f"{{\n{body}\n }}" if body else "{}"
    return f'{{\n "schema": {SCHEMA},\n "lessons": {inside}\n}}\n'


def decode(text: str) -> tuple[dict[Key, Fact], bool]:
    """The facts of a text, and whether they are all that it holds. An empty text holds none.

    Raises NewerFileError for a text of a later version.
    """
    if not text.strip():
        return {}, True
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}, False
    if not isinstance(data, dict):
        return {}, False
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerFileError(f"It has schema {schema}; this version knows {SCHEMA}.")
    facts = {}
    for lesson, items in _items(data.get("lessons")):
        for item, fields in _items(items):
            if is_fact((lesson, item), fields):
                facts[lesson, item] = Fact(**fields)
    return facts, data == _data(facts)


def is_fact(key: Key, fields: object) -> bool:
    """Whether key and fields (a fact's, without those that are None) make a fact."""
    lesson, item = key
    known = any(lesson == each.number for each in LESSONS)
    if not known or not ITEM.fullmatch(item) or not isinstance(fields, dict):
        return False
    if fields.keys() != FIELDS[item.split(" ")[0]] or not _is_time(fields["at"]):
        return False
    if "points" in fields:
        points, of = fields["points"], fields["of"]
        return _is_number(points) and _is_number(of) and 0 <= points <= of and of > 0
    if "answer" in fields:
        answer = fields["answer"]
        is_point = isinstance(answer, list) and len(answer) == 2 and all(map(_is_number, answer))
        return _is_text(answer) or _is_number(answer) or is_point
    return isinstance(fields.get("right", True), bool)


def fields_of(fact: Fact) -> dict:
    """The fact's fields that are there."""
    return {name: value for name, value in asdict(fact).items() if value is not None}


def _data(facts: Facts) -> dict:
    lessons: dict[str, dict] = {}
    for (lesson, item), fact in sorted(facts.items(), key=lambda pair: pair[0]):
        lessons.setdefault(lesson, {})[item] = fields_of(fact)
    return {"schema": SCHEMA, "lessons": lessons}


def _items(value: object) -> list[tuple]:
    return list(value.items()) if isinstance(value, dict) else []


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_number(value: object) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and -1e12 < value < 1e12  # NaN is not, either


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _is_time(value: object) -> bool:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return time.tzinfo is not None and 2000 <= time.year < 9000


# ── how the lessons stand ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Standing:
    """How one lesson stands. first, last: when its earliest and its latest fact happened."""

    lesson: Lesson
    predicted: int
    check: Fact | None
    answered: int
    right: int
    is_ended: bool
    first: datetime | None
    last: datetime | None

    @property
    def has_check(self) -> bool:
        """Whether there is something to check and to answer: lesson 0 has nothing."""
        return self.lesson.questions > 0

    @property
    def is_checked(self) -> bool:
        return self.check is not None and self.check.points == self.check.of

    @property
    def is_answered(self) -> bool:
        return self.right == self.lesson.questions

    @property
    def is_done(self) -> bool:
        """The check has all points and the quiz is right; lesson 0: its last cell was run.

        Predictions are counted beside it: one that was missed cannot be made up for.
        """
        return self.is_checked and self.is_answered if self.has_check else self.is_ended

    @property
    def shares(self) -> tuple[float, ...]:
        """Done of predictions, check and quiz, 0 to 1 each."""
        if not self.has_check:
            return (float(self.is_ended),)
        points = self.check.points / self.check.of if self.check else 0.0
        return (
            self.predicted / len(self.lesson.predictions), points,
            self.right / self.lesson.questions,
        )  # fmt: skip


def standing(lesson: Lesson, facts: Facts) -> Standing:
    """How this lesson stands."""
    mine = {item: fact for (number, item), fact in facts.items() if number == lesson.number}
    answers = [mine.get(f"quiz {i + 1}") for i in range(lesson.questions)]
    times = sorted(datetime.fromisoformat(fact.at) for fact in mine.values())
    return Standing(
        lesson,
        sum(f"predict {key}" in mine for key in lesson.predictions),
        mine.get("check"),
        sum(answer is not None for answer in answers),
        sum(answer is not None and bool(answer.right) for answer in answers),
        "end" in mine,
        times[0] if times else None,
        times[-1] if times else None,
    )


def standings(facts: Facts) -> list[Standing]:
    """How every lesson stands, in order."""
    return [standing(lesson, facts) for lesson in LESSONS]


def go_on_with(facts: Facts) -> Lesson | None:
    """The lesson last worked on, or the next one not done when that is through; None: all done."""
    every = standings(facts)
    begun = [each for each in every if each.last is not None]
    if not begun:
        return LESSONS[0]
    latest = max(begun, key=lambda each: each.last)
    if not latest.is_done and not latest.is_ended:
        return latest.lesson
    place = every.index(latest) + 1
    return next((each.lesson for each in every[place:] + every[:place] if not each.is_done), None)

