"""Facts of progress merge in any order, survive the file, and tell how a lesson stands."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.progress_facts import FACTS, at, finished
from widgets.course import LESSONS, lesson_of
from widgets.progress_model import (
    Fact,
    NewerFileError,
    decode,
    encode,
    go_on_with,
    is_fact,
    merge,
    standing,
    standings,
)

# ── merging ─────────────────────────────────────────────────────────────────────────────────


@given(FACTS, FACTS, FACTS)
def test_the_order_of_merging_does_not_matter(a, b, c):
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c)) == merge(a, b, c)
    assert merge(a, a) == a
    assert merge(merge(a, b), a) == merge(a, b)


@given(FACTS, FACTS)
def test_merging_loses_no_key_and_invents_nothing(a, b):
    merged = merge(a, b)
    assert merged.keys() == a.keys() | b.keys()
    assert all(fact in (a.get(key), b.get(key)) for key, fact in merged.items())


@given(FACTS, FACTS)
def test_nobody_loses_a_point_by_merging(a, b):
    merged = merge(a, b)
    for part in (a, b):
        for key, fact in part.items():
            if fact.of:
                assert merged[key].points / merged[key].of >= fact.points / fact.of
            if fact.right:
                assert merged[key].right


def test_the_best_check_and_the_first_prediction_stay():
    early, late = Fact(at(1), points=7, of=10), Fact(at(2), points=10, of=10)
    key = ("05", "check")
    assert merge({key: late}, {key: early}) == {key: late}
    worse = Fact(at(3), points=2, of=10)
    assert merge({key: late}, {key: worse}) == {key: late}
    predicted = ("05", "predict 05-speed")
    first, second = Fact(at(1), answer=3.0), Fact(at(2), answer=2.1)
    assert merge({predicted: second}, {predicted: first}) == {predicted: first}


# ── the file's text ─────────────────────────────────────────────────────────────────────────


@given(FACTS)
def test_facts_survive_the_file(facts):
    assert decode(encode(facts)) == (facts, True)


def test_the_text_is_for_people_a_line_a_fact():
    facts = {("05", "check"): Fact(at(1), points=7, of=10), ("02", "end"): Fact(at(2))}
    assert encode(facts).splitlines() == [
        "{",
        ' "schema": 1,',
        ' "lessons": {',
        '  "02": {',
        '   "end": {"at": "2026-12-02T12:00:00+01:00"}',
        "  },",
        '  "05": {',
        '   "check": {"at": "2026-12-01T12:00:00+01:00", "points": 7, "of": 10}',
        "  }",
        " }",
        "}",
    ]


@given(FACTS, st.text(max_size=200), st.integers(0, 400))
def test_any_damage_is_noticed_or_harmless(facts, junk, place):
    """Whatever stands in a file: no error, and what is read as whole is really all of it."""
    text = encode(facts)
    damaged = text[:place] + junk + text[place + len(junk) :]
    try:
        found, is_whole = decode(damaged)
    except NewerFileError:
        return
    if is_whole and damaged.strip():
        assert decode(encode(found)) == (found, True)
        assert json.loads(damaged) == json.loads(encode(found))


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "3", '{"schema": 1}', '{"schema": "1", "lessons": {}}', "[" * 100_000,
        '{"schema": 1, "lessons": {"05": {"check": {"at": "x", "points": 1, "of": 2}}}}',
        '{"schema": 1, "lessons": {"99": {"end": {"at": "2026-12-01T12:00:00+01:00"}}}}',
        '{"schema": 1, "lessons": {}, "mine": 1}', '{"schema": 1, "lessons": [1]}',
    ],
)  # fmt: skip
def test_a_text_that_is_not_ours_is_not_whole(text):
    assert decode(text) == ({}, False)


def test_what_can_be_read_of_a_damaged_text_is_read():
    good = '"end": {"at": "2026-12-01T12:00:00+01:00"}'
    text = f'{{"schema": 1, "lessons": {{"05": {{{good}, "check": {{"points": "ten"}}}}}}}}'
    assert decode(text) == ({("05", "end"): Fact(at(1))}, False)


def test_an_empty_file_holds_nothing_and_a_later_one_is_left_alone():
    assert decode(" \n") == ({}, True)
    with pytest.raises(NewerFileError, match="schema 2; this version knows 1"):
        decode('{"schema": 2, "lessons": {}}')


@pytest.mark.parametrize(
    ("item", "fields"),
    [
        ("check", {"points": 11, "of": 10}), ("check", {"points": True, "of": 1}),
        ("check", {"points": 0, "of": 0}), ("check", {"points": float("nan"), "of": 1}),
        ("check", {"points": 10**400, "of": 10**401}), ("check", {"points": 1}),
        ("quiz 0", {"right": True}), ("quiz 1", {"right": 1}), ("quiz", {"right": True}),
        ("predict 05-speed", {"answer": None}), ("predict 05-speed", {"answer": {"x": 1}}),
        ("predict 05-speed", {"answer": [1]}), ("predict 05-speed", {"answer": "\ud800"}),
        ("predict speed", {"answer": 1}), ("end", {"more": 1}), ("other", {}),
    ],
)  # fmt: skip
def test_what_is_no_fact_is_refused(item, fields):
    assert not is_fact(("05", item), {"at": at(1), **fields})


@pytest.mark.parametrize("time", ["", "2026-12-01", "2026-12-01T12:00:00", None, 3, "0001-01-01"])
def test_a_time_needs_its_offset(time):
    assert not is_fact(("05", "end"), {"at": time})


# ── how lessons stand ───────────────────────────────────────────────────────────────────────


@given(FACTS)
def test_standings_add_up(facts):
    every = standings(facts)
    assert [each.lesson for each in every] == list(LESSONS)
    for each in every:
        assert 0 <= each.right <= each.answered <= each.lesson.questions
        assert 0 <= each.predicted <= len(each.lesson.predictions)
        assert all(0 <= share <= 1 for share in each.shares)
        assert (each.first is None) == (each.last is None)
    goal = go_on_with(facts)
    assert (goal is None) == all(each.is_done for each in every)


def test_a_lesson_is_done_with_a_full_check_and_a_right_quiz():
    lesson = lesson_of("05")
    facts = finished("05")
    assert standing(lesson, facts).is_done
    assert standing(lesson, facts).shares == (1, 1, 1)
    for item, worse in [
        ("check", Fact(at(1), points=9, of=10)), ("quiz 2", Fact(at(1), right=False)),
    ]:  # fmt: skip
        assert not standing(lesson, facts | {("05", item): worse}).is_done
    del facts["05", "predict 05-speed"]  # one that was missed cannot be made up for
    each = standing(lesson, facts)
    assert (each.is_done, each.predicted, each.shares[0]) == (True, 1, 0.5)


def test_lesson_0_is_done_at_its_end():
    assert not standing(lesson_of("00"), {}).is_done
    assert standing(lesson_of("00"), finished("00")).is_done


def test_where_to_go_on():
    assert go_on_with({}).number == "00"
    begun = {("05", "predict 05-speed"): Fact(at(9), answer=3.0)}
    assert go_on_with(finished("01") | begun).number == "05"
    assert go_on_with(finished("05", 9) | finished("06", 2)).number == "07"
    ended = {("05", "end"): Fact(at(9))}  # read to its end, the exercise left out
    assert go_on_with(ended).number == "06"
    every = merge(*(finished(lesson.number) for lesson in LESSONS))
    assert go_on_with(every) is None
