"""The benchmark of dynamic batching over HTTP: the rule's batches, and one case measured."""

from __future__ import annotations

import pytest

from benchmarks.dynamic_http import (
    CASES,
    Case,
    Result,
    brief,
    burst,
    expected,
    measure,
    row,
    server_process,
)


def test_what_is_expected_is_what_the_rule_says():
    """The figures are those that tests/core/test_dynamic.py proves."""
    found = {case.name: [(round(ms, 6), size) for ms, size in expected(case)] for case in CASES}
    assert found["at 0, 15, 35, 51, 70 ms"] == [(50, 3), (101, 2)]
    assert found["20 at once, preferred 8/16/32"] == [(0, 16), (50, 4)]
    assert found["40 at once, at most 32"] == [(0, 32), (50, 8)]
    assert [size for _, size in found[CASES[-1].name]] == [8] * 10
    for case in CASES:
        assert sum(size for _, size in found[case.name]) == case.count
        if case.triton:
            assert [size for _, size in found[case.name]] == [size for _, size in case.triton]


def test_one_case_is_measured_over_http():
    case = Case("20 at once", burst(20), service_ms=20.0, max_size=8, delay_ms=0.0)
    with server_process() as line:
        result = measure(line, case, repeat=1)
    assert [(round(ms), size) for ms, size in result.expected] == [(0, 8), (20, 8), (40, 4)]
    assert len(result.agreeing) == 1  # one call of twenty: no time decides
    assert -3 < result.off_ms < 500
    line = row(result)
    assert line.startswith("| 20 at once | 8 at 0, 8 at 20, 4 at 40 | 8 at ")
    assert line.endswith(" | 1 of 1 | – |")


def test_sizes_and_times_decide_together():
    two = Case("two", burst(2))
    apart = [(1.0, 1), (2.0, 1)]
    kept = Result(two, [(0.0, 2)], [[(14.0, 2)], [(16.0, 2)], apart])
    assert (kept.off_ms, kept.kept, len(kept.agreeing)) == (pytest.approx(15.0), True, 2)
    late = Result(two, [(0.0, 2)], [[(14.0, 2)], [(16.0, 2)], [(40.0, 2)]])
    assert (late.off_ms, late.kept) == (pytest.approx(16.0), False)
    other = Result(two, [(0.0, 2)], [[(1.0, 2)], apart])
    assert not other.kept
    none = Result(two, [(0.0, 2)], [apart])
    assert (none.off_ms, none.kept) == (None, False)
    assert "| 1 at 1, 1 at 2 | – | 0 of 1 |" in row(none)


def test_many_batches_are_told_briefly():
    assert brief([(21.0 + 100 * i, 8) for i in range(10)]).endswith("8 at 321, … (10 batches)")
