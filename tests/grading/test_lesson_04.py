"""The check of exercise 4: its reference is what the engine's dynamic scheduler does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grading import check
from grading.checks.lesson_04 import form_batches
from grading.mutants.lesson_04 import last_moment_missed, one_at_a_time, sliding
from minillm.core import Arrival, SamplingParams, drive
from tests.core.helpers import make_engine


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=12).map(sorted),
    st.integers(1, 5),
    st.integers(0, 12),
)
def test_the_reference_is_the_engine_s_dynamic_batching(arrivals, max_batch, window):
    engine = make_engine(
        "dynamic", num_blocks=200, step_s=0.0, max_num_seqs=max_batch, max_queue_delay_s=window
    )  # whole seconds in place of milliseconds: no rounding
    one = SamplingParams(max_tokens=1)
    requests = [Arrival(f"{i}", (1,), one, float(t)) for i, t in enumerate(arrivals)]
    for _ in drive(engine, requests):
        pass
    got = [(step.t_start, [row.req_idx for row in step.rows]) for step in engine.trace.steps]
    assert got == form_batches(arrivals, max_batch, window)


def test_the_smallest_failing_input_comes_with_two_pictures():
    failure = check("lesson_04", form_batches=last_moment_missed).first_failure
    assert failure.name == "a full batch leaves at once, and none is larger"
    assert failure.failing_call == "form_batches([0, 5], 2, 5)"
    (_, right), (_, own) = failure.pictures
    assert "A 0 → 5; B 5 → 5" in right
    assert "A 0 → 5; B 5 → 10" in own


def test_a_timer_that_starts_anew_keeps_somebody_too_long():
    failure = check("lesson_04", form_batches=sliding).first_failure
    assert failure.name == "nobody leaves before they came, or waits longer than the window"
    assert failure.failing_call == "form_batches([0, 2], 4, 5)"
    assert failure.got == "at 7"


def test_no_points_without_company():
    report = check("lesson_04", form_batches=one_at_a_time)
    assert report.score == 0
    assert "Points count once at least two requests leave together" in repr(report)


def test_nonsense_is_told_and_not_raised():
    for value in (None, 3, [1], [(1, 2)], [("a", [0])], [(0, [99])], [(0, [])], [(0, [True])]):
        report = check("lesson_04", form_batches=lambda a, m, w, value=value: value)
        assert report.score == 0
        assert report.first_failure.got
