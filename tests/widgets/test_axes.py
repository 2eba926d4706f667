"""Scales, ticks and labels of static charts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.axes import Scale, label, log_range, log_ticks, minor_ticks, nice_limit
from widgets.labels import Labels
from widgets.still import html_table, to_csv, wrapped


def test_a_log_axis_has_its_decades_evenly_spaced():
    scale = Scale(1, 1000, 0, 300, log=True)
    assert [scale.at(v) for v in (1, 10, 100, 1000)] == pytest.approx([0, 100, 200, 300])
    assert scale.at(0) < 0
    assert [name for _, name in scale.ticks()] == ["1", "10", "100", "1,000"]


def test_a_linear_axis_has_round_ticks():
    assert [t for _, t in Scale(0, 2000, 0, 400).ticks()] == ["0", "500", "1,000", "1,500", "2,000"]
    assert [t for _, t in Scale(0, 1, 400, 0).ticks(100)] == ["0", "0.25", "0.50", "0.75", "1.00"]


def test_short_log_axes_are_labelled_1_2_5():
    assert log_ticks(4.5, 100) == [5, 10, 20, 50, 100]
    assert minor_ticks(4.5, 31) == pytest.approx([6, 7, 8, 9, 30])
    assert label(0.01) == "0.01"


@pytest.mark.parametrize(("low", "high", "log"), [(1, 1, False), (0, 5, True), (3, 2, True)])
def test_an_axis_that_cannot_be_is_refused(low, high, log):
    with pytest.raises(ValueError, match="cannot be drawn"):
        Scale(low, high, 0, 100, log)


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=20))
def test_a_log_range_holds_its_values(values):
    low, high = log_range(values)
    assert 0 < low < min(values)
    assert max(values) < high
    assert high / low >= 2 * (1 - 1e-9)
    assert all(low <= tick <= high * (1 + 1e-8) for tick in log_ticks(low, high))


def test_a_log_range_of_nothing():
    assert log_range([0, math.inf, math.nan]) == (1, 10)


@given(st.floats(1e-6, 1e12))
def test_a_nice_limit_is_above_and_near(value):
    assert value * (1 - 1e-8) <= nice_limit(value) <= value * 2 * (1 + 1e-8)


def test_labels_keep_out_of_each_others_way():
    labels = Labels((0, 0, 200, 60))
    placed = [labels.beside("a label", 60, 30) for _ in range(12)]
    shown = [text for texts in placed for text in texts]
    assert 2 <= len(shown) < 12
    boxes = labels._taken
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or a[0] >= b[2] or a[3] <= b[1] or a[1] >= b[3]
    assert labels.beside("a label", 60, 30, force=True)


def test_tables_escape_and_say_na():
    html = html_table(("a", "b"), [["<x>", None], ["y", 1234.5]])
    assert "&lt;x&gt;" in html
    assert "<td>n/a</td>" in html
    assert "<td>1,234.5</td>" in html
    assert to_csv(("a", "b"), [["x,y", None]]) == 'a,b\n"x,y",\n'


def test_wrapping_keeps_every_word():
    words = "one two three four five six seven eight nine ten"
    lines = wrapped(words, 120, 12)
    assert len(lines) > 2
    assert " ".join(lines) == words
