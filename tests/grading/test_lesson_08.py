"""The check of exercise 8: its reference is what the engine does, its messages show mistakes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from grading import check, replay
from grading.checks.lesson_08 import plan_step
from grading.mutants.lesson_08 import lesson_stub, prompts_whole, samples_every_chunk
from grading.served import serve

REQUESTS = st.lists(st.tuples(st.integers(2, 30), st.integers(1, 6)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(6, 40))
def test_the_reference_plans_the_engine_s_very_steps(requests, budget):
    run = serve(plan_step, [(0, *request) for request in requests], budget)
    engine = replay("continuous", [(0, *request) for request in requests], len(requests), budget)
    assert run.fault == ""
    assert run.given == [output for _, output in requests]
    planned = [sorted((row[0], row[1], row[2]) for row in rows) for rows in run.steps]
    computed = [
        sorted((row.req_idx, row.n_tokens, row.token_id is not None) for row in step.rows)
        for step in engine.trace.steps
    ]
    assert planned == computed


def test_a_plan_is_drawn_a_column_a_step():
    run = serve(plan_step, [(0, 2, 4), (1, 9, 2)], budget=5)
    assert repr(run) == "A pddd\nB  pppd"
    assert repr(serve(lesson_stub, [(0, 2, 2), (0, 2, 1)], budget=5)) == "A pd\nB ··p"


def test_a_broken_rule_ends_the_service_and_names_the_step():
    run = serve(samples_every_chunk, [(0, 9, 1)], budget=4)
    assert run.fault == "in step 0, plan_step([9], 4) says True for 4 of the 9 that are left."
    assert "in step 0" in serve(lambda left, budget: "no", [(0, 1, 1)], budget=4).fault


def test_a_prompt_that_is_never_cut_up_is_shown_with_the_smallest_input():
    report = check("lesson_08", plan_step=prompts_whole)
    served = next(group for group in report.groups if group.name.startswith("served"))
    assert not served.passed
    assert served.failing_call == "serve(prompts_whole, [(0, 9, 2)], budget=4)"
    (_, right), (_, own) = served.pictures
    assert "A pppd" in right
    assert "not all are served" in own
    assert served.hint.endswith("?")


def test_nonsense_is_told_and_not_raised():
    for value in (None, 3, [1], [[0, 1]], [(0, "1", True)], [(7, 1, True)], [(0, 1, 1)], "no"):
        report = check("lesson_08", plan_step=lambda left, budget, value=value: value)
        assert report.score == 0
        assert report.first_failure.got
