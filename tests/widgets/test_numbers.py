"""Figures as text: three digits, units, and one rounding in Python and JavaScript."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.golden_numbers import FILE, numbers_golden
from widgets.numbers import fixed, number3, percent, plain, plural, seconds, step_digits


def test_what_the_golden_file_says():
    """tests/js/numbers.test.mjs holds the browser to the same file."""
    golden = json.loads(FILE.read_text(encoding="utf-8"))
    assert json.loads(json.dumps(numbers_golden())) == golden


def test_three_digits():
    shown = [number3(v) for v in (None, 0, 0.0372, 1.374, 9.996, 15.1, 151.4, 12_345.0, math.nan)]
    assert shown == ["n/a", "0", "0.0372", "1.37", "10.0", "15.1", "151", "12,300", "n/a"]


def test_shares_and_times():
    assert [percent(v) for v in (None, 0.0, 0.624, 0.999, 1.0)] == [
        "n/a", "0\u2009%", "62\u2009%", "99\u2009%", "100\u2009%",
    ]  # fmt: skip
    assert [seconds(v) for v in (None, 0.0148, 0.8241, 0.9998, 1.374, 62.04)] == [
        "n/a", "14.8\u2009ms", "824\u2009ms", "1.00\u2009s", "1.37\u2009s", "62.0\u2009s",
    ]  # fmt: skip


def test_settings_and_counts():
    assert [plain(v) for v in (1024, 2.5, 0.05, 33.333333, 8.0)] == [
        "1,024", "2.5", "0.05", "33.33", "8",
    ]  # fmt: skip
    assert [step_digits(step) for step in (5, 0.25, 0.1)] == [0, 2, 1]
    assert [plural(n, "step") for n in (0, 1, 1200)] == ["0 steps", "1 step", "1,200 steps"]


@given(st.floats(1e-9, 1e15))
def test_a_figure_is_within_half_of_its_last_digit(value):
    for text in (number3(value), plain(value)):
        assert abs(float(text.replace(",", "")) - value) <= 0.00501 * value


@given(st.floats(-1e6, 1e6), st.integers(0, 4))
def test_decimals_are_as_many_as_asked(value, decimals):
    whole, _, part = fixed(value, decimals).partition(".")
    assert len(part) == decimals
    assert abs(float(f"{whole}.{part or 0}".replace(",", "")) - value) <= 0.5 * 10**-decimals + 1e-9
