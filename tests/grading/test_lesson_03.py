"""The check of exercise 3: its reference is what the engine does, its pictures show mistakes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grading import check, replay
from grading.checks.lesson_03 import static_schedule
from grading.mutants.lesson_03 import full_batches_only, own_end
from minillm.core.trace import DEAD


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 5))
def test_the_reference_is_the_engine_s_static_batching(outputs, batch_size):
    run = replay("static", [(0, 1, output) for output in outputs], max_num_seqs=batch_size)
    finish, waste = static_schedule(outputs, batch_size)
    last, dead = {}, 0
    for number, step in enumerate(run.trace.steps, 1):
        for row in step.rows:
            last[row.req_idx] = number
            dead += row.kind == DEAD
    assert [last[i] for i in range(len(outputs))] == finish
    assert dead == waste


def test_the_ragged_batch_is_shown_as_a_picture_and_asked_about():
    report = check("lesson_03", static_schedule=full_batches_only)
    failure = report.first_failure
    assert failure.name == "every request finishes, also in a ragged last batch"
    assert failure.failing_call == "static_schedule([1, 1, 1], 2)"
    (_, right), (_, own) = failure.pictures
    assert "C ·p" in right
    assert "never scheduled" in own
    assert failure.hint.endswith("?")


def test_the_picture_of_another_mistake_shows_the_rows_as_they_would_be():
    report = check("lesson_03", static_schedule=own_end)
    failure = report.first_failure
    assert failure.failing_call == "static_schedule([1, 2], 2)"
    (_, right), (_, own) = failure.pictures
    assert "A px; B pd" in right
    assert "A p; B pd" in own


def test_nonsense_is_told_and_not_raised():
    for value in (None, 3, [], [[1], 2, 3], "no", [None, None], [["a"], "b"], [[True], 0]):
        report = check("lesson_03", static_schedule=lambda outputs, size, value=value: value)
        assert report.score < report.max
        assert report.first_failure.got
