"""The stall that a long prompt makes: counted from a run's rows, told, drawn, and run live."""

from __future__ import annotations

import asyncio
import time

import pytest

from minillm.core import Trace
from minillm.llm import LLM
from minillm.sim import GPUCostModel
from minillm.sim.pipeline import Load
from widgets.lesson import requests_with, simulate
from widgets.long_prompt import LongPrompt, LongPromptResult
from widgets.long_prompt_panel import BudgetSlider
from widgets.stalls import measure_stall, stall_table, step_picture, step_table


def crowd(budget: int, **settings) -> Trace:
    llm = LLM.simulated(max_model_len=4096)
    requests = requests_with(llm, [40, 40, 2], prompts=[8, 8, 1000], times=[0, 0, 0.1])
    limits = {"max_num_seqs": 3, "max_num_batched_tokens": budget, **settings}
    return simulate(llm, requests, "continuous", **limits)


def test_a_whole_prompt_is_one_chunk_and_its_step_is_the_longest_gap():
    trace = crowd(2000)
    stall = measure_stall(trace)
    assert (stall.req, stall.prompt, stall.chunks) == (2, 1000, 1)
    longest = max(step.t_end - step.t_start for step in trace.steps)
    assert stall.worst_s == pytest.approx(longest)
    assert stall.ratio == pytest.approx(longest / stall.usual_s)


def test_smaller_budgets_make_more_chunks_shorter_gaps_and_a_later_first_token():
    stalls = [measure_stall(crowd(budget)) for budget in (2000, 302, 102)]
    assert [stall.chunks for stall in stalls] == [1, 4, 10]
    assert stalls[0].worst_s > stalls[1].worst_s > stalls[2].worst_s
    assert stalls[0].ttft_s < stalls[1].ttft_s < stalls[2].ttft_s
    assert stalls[0].usual_s == pytest.approx(stalls[2].usual_s, rel=0.1)


def test_prompts_first_stall_the_others_for_all_chunks():
    shared, first = crowd(302), crowd(302, prefill_first=True)
    assert measure_stall(first).worst_s > 3 * measure_stall(shared).worst_s


def test_a_run_without_gaps_says_n_a():
    llm = LLM.simulated()
    trace = simulate(llm, requests_with(llm, [1]), "continuous")
    stall = measure_stall(trace)
    assert (stall.worst_s, stall.usual_s, stall.ratio) == (None, None, None)
    assert "n/a" in repr(stall_table({"alone": trace}))
    with pytest.raises(ValueError, match="no request"):
        measure_stall(Trace(trace.header))


def test_the_table_and_the_picture_name_their_provenance():
    trace = crowd(302)
    table = stall_table({"302": trace})
    assert "C’s prompt of 1,000 tokens" in repr(table)
    assert "simulated" in table.html
    figure = step_picture(trace, title="302")
    assert "simulated" in figure.alt
    assert "first token of the long prompt" in figure.table


def test_the_step_table_gives_the_reference_values():
    cost = GPUCostModel("A100-80GB-SXM", "llama-3.1-8b")
    shown = repr(step_table(cost, {"8k": Load(chunks=[(0, 8192)], num_sampled=1)}))
    assert "591\u2009ms" in shown
    assert "15.0 GB at the datasheet’s 2,039 GB/s are 7.4" in shown


def test_the_slider_runs_each_budget_once():
    asked = []

    def run(budget: int) -> Trace:
        asked.append(budget)
        return crowd(budget)

    slider = BudgetSlider(run, [102, 302, 2000])
    for budget in (302, 102, 302):
        slider.slider.value = budget
    assert asked == [2000, 302, 102]
    assert "Budget 302: " in slider.picture.value


def long_prompt(**settings) -> LongPrompt:
    llm = LLM.simulated(max_model_len=4096, max_num_batched_tokens=4096)
    return LongPrompt(llm, requests_with(llm, [30] * 3, prompts=[4] * 3), "word " * 400, **settings)


def test_the_long_prompt_comes_when_all_others_have_had_their_tokens():
    async def run():
        long = long_prompt(budget=64, after=5)
        long.start()
        return await long.finished()

    result = asyncio.run(run())
    whole, chunked = result.stalls
    assert result.ratio(1) == chunked.ratio
    assert (whole.chunks, whole.prompt) == (1, 500)
    assert chunked.chunks == 9  # 61 of 64 tokens a step
    for trace in result.runs.values():
        before = [step for step in trace.steps if all(row.req_idx < 3 for row in step.rows)]
        rows = [row for step in before[:5] for row in step.rows]
        given = [row.req_idx for row in rows if row.token_id is not None]
        assert [given.count(req) for req in range(3)] == [5, 5, 5]
    assert "Prompt whole" in repr(result)
    assert "Budget 64: the others wait at most " in result.finding
    assert result.finding.splitlines()[1] in result._repr_html_()


def test_a_prompt_that_is_too_long_is_refused_with_both_numbers():
    async def run():
        long = long_prompt()
        long.start(prompt="word " * 8000)
        return await long.finished()

    result = asyncio.run(run())
    assert result.refused
    assert "4096" in repr(result).replace(",", "")
    assert (result.finding, result.ratio(0)) == ("", None)
    assert [stall.chunks for stall in result.stalls] == [0, 0]
    assert "Refused: " in result._repr_html_()


def test_a_run_stopped_before_the_prompt_came_has_nothing_to_show():
    result = LongPromptResult({}, budgets=(None, 64), others=3)
    assert (result.finding, result.ratio(0), result.runs) == ("", None, {})
    assert "No run got as far as the long prompt." in result._repr_html_()


def test_what_cannot_be_is_told_at_the_door():
    with pytest.raises(ValueError, match="more than 30 output tokens"):
        long_prompt(after=30)
    with pytest.raises(ValueError, match="at least 4 is needed"):
        long_prompt(budgets=(1, 2))


def test_the_panel_runs_what_it_shows():
    long = long_prompt(budget=64)
    prompt, row, _ = long.panel.children
    budget, run, stop = row.children
    assert (budget.value, stop.disabled) == (64, True)
    prompt.value, budget.value = "word " * 40, 32
    run.click()
    assert long.session.join(20)
    end = time.monotonic() + 10
    while run.disabled and time.monotonic() < end:  # the publisher's last word comes after the end
        time.sleep(0.01)
    assert not run.disabled
    assert long.timeline.headline.startswith("Prompt whole: the others wait at most ")
    assert (long.prompt, long.b) == ("word " * 40, 32)
