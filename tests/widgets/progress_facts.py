"""Facts of a student's progress, as Hypothesis draws them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from widgets.course import LESSONS
from widgets.progress_model import Fact, fields_of, is_fact

NUMBERS = st.sampled_from([lesson.number for lesson in LESSONS])
ZONES = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
TIMES = st.builds(
    lambda time, zone: time.replace(microsecond=0, tzinfo=zone).isoformat(),
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)), ZONES,
)  # fmt: skip
SIZES = st.floats(-1e9, 1e9, allow_nan=False) | st.integers(-1000, 1000)
ANSWERS = st.text(max_size=20) | SIZES | st.lists(SIZES, min_size=2, max_size=2)
CHECKS = st.tuples(st.integers(0, 20), st.integers(1, 20)).map(sorted).filter(lambda x: x[1] > 0)
ITEMS = st.one_of(
    st.tuples(st.just("end"), st.builds(Fact, TIMES)),
    st.tuples(
        st.just("check"),
        st.builds(lambda at, x: Fact(at, points=x[0], of=x[1]), TIMES, CHECKS),
    ),
    st.tuples(
        st.integers(1, 3).map(lambda number: f"quiz {number}"),
        st.builds(lambda at, right: Fact(at, right=right), TIMES, st.booleans()),
    ),
    st.tuples(
        st.sampled_from(["predict 05-speed", "predict 05-wait", "predict 02-last"]),
        st.builds(lambda at, answer: Fact(at, answer=answer), TIMES, ANSWERS),
    ),
)
FACTS = st.lists(st.tuples(NUMBERS, ITEMS), max_size=8).map(
    lambda drawn: {
        (number, item): fact
        for number, (item, fact) in drawn
        if is_fact((number, item), fields_of(fact))
    }
)


def at(day: int, hour: int = 12) -> str:
    """A time in December 2026."""
    return f"2026-12-{day:02d}T{hour:02d}:00:00+01:00"


def finished(number: str, day: int = 1) -> dict:
    """All facts of a lesson, done on one day."""
    lesson = next(lesson for lesson in LESSONS if lesson.number == number)
    facts = {(number, "end"): Fact(at(day, 14))}
    if lesson.questions:
        facts[number, "check"] = Fact(at(day, 13), points=10, of=10)
    for key in lesson.predictions:
        facts[number, f"predict {key}"] = Fact(at(day, 9), answer=3.0)
    for question in range(lesson.questions):
        facts[number, f"quiz {question + 1}"] = Fact(at(day, 12), right=True)
    return facts
