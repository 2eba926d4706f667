"""What a run's blocks come to in tables, and an allocator of one's own against the engine's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.checks.lesson_07 import BlockAllocator
from grading.mutants.lesson_07 import HeadFirst, LessonStub
from minillm.core import Trace
from minillm.llm import LLM
from minillm.sim import GPUCostModel
from widgets.lesson import requests_with, simulate
from widgets.memory import (
    allocator_calls,
    allocator_card,
    count_memory,
    first_victim,
    fit_table,
    pool_table,
    preempted_card,
    prefix_table,
    same_beginning,
)


def run(outputs: list[int], blocks: int, *, cache: bool = False, **limits) -> Trace:
    llm = LLM.simulated()
    requests = requests_with(llm, outputs)
    return simulate(
        llm, requests, "continuous", num_blocks=blocks, enable_prefix_caching=cache, **limits
    )


def test_a_preempted_request_is_the_last_one_admitted_and_computes_again():
    trace = run([24] * 4, 8)
    assert first_victim(trace) == ("D", True)
    counted = count_memory(trace)
    assert [m.preemptions for m in counted] == [0, 0, 1, 1]
    assert [m.again for m in counted][:2] == [0, 0]
    lost = sum(e.data["tokens_lost"] for e in trace.events if e.event == "preempt")
    assert sum(m.again for m in counted) == lost
    card = preempted_card(trace)
    assert "The pool is full when D itself needs a block, so it gives 2 back." in repr(card)
    assert f"2 preemptions; {lost} tokens computed a second time." in repr(card)
    assert "simulated" in card.html


def test_without_preemption_nothing_is_computed_again():
    trace = run([24] * 4, 64)
    assert first_victim(trace) is None
    assert all(m.again == 0 for m in count_memory(trace))
    assert max(m.most_blocks for m in count_memory(trace)) == 4
    assert "0 preemptions" in repr(preempted_card(trace))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(8, 24))
def test_tokens_computed_add_up_to_what_is_needed_and_what_is_done_again(outputs, blocks):
    trace = run(outputs, blocks)
    computed = sum(row.n_tokens for step in trace.steps for row in step.rows)
    counted = count_memory(trace)
    needed = sum(m.prompt + m.output - 1 for m in counted)
    assert computed == needed + sum(m.again for m in counted)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(8, 24))
def test_the_exercise_s_allocator_gives_the_engine_s_very_blocks(outputs, blocks):
    trace = run(outputs, blocks)
    card = allocator_card(trace, BlockAllocator)
    count = sum(name == "allocate" for name, _, _ in allocator_calls(trace).made)
    assert repr(card).startswith(f"{count} of the engine’s {count} allocation")


def test_another_order_and_a_stub_differ_from_the_engine():
    trace = run([24] * 4, 8)
    assert "the engine has" in repr(allocator_card(trace, HeadFirst))
    assert repr(allocator_card(trace, LessonStub)).startswith("0 of the engine’s")
    with pytest.raises(ValueError, match="enable_prefix_caching=False"):
        allocator_calls(run([24] * 4, 8, cache=True))


def test_a_smaller_pool_is_slower_once_it_preempts():
    tables = {f"{n}": run([60] * 12, n, max_num_seqs=8) for n in (128, 20)}
    shown = repr(pool_table(tables, "Pools"))
    assert "simulated" in shown
    wide, small = (line.split() for line in shown.splitlines()[2:4])
    assert "0" in wide
    assert float(wide[-3].replace(",", "")) > float(small[-3].replace(",", ""))


def test_the_same_beginning_is_computed_once():
    llm = LLM.simulated()
    requests, first = same_beginning(llm, "Be brief. " * 30, ["One?", "Two!", "Three."], 4)
    limits = {"num_blocks": 64, "max_num_batched_tokens": first}
    runs = {
        name: simulate(llm, requests, "continuous", enable_prefix_caching=on, **limits)
        for name, on in (("with", True), ("without", False))
    }
    whole = sum(len(request.prompt_token_ids) for request in requests)
    found = sum(m.cached for m in count_memory(runs["with"]))
    assert found == 2 * (75 // 16 * 16)
    shown = repr(prefix_table(runs, "Shop"))
    assert f"{whole} tokens" in shown
    assert f" {whole - found} " in shown


def test_who_fits_is_the_pool_divided_by_the_tokens_each():
    cost = GPUCostModel("A100-80GB-SXM", "llama-3.1-8b")
    shown = repr(fit_table([cost], [2048, 131_072]))
    assert f"{cost.kv_tokens():,}" in shown
    assert f" {cost.kv_tokens() // 2048} " in shown
    assert "128\u202fKiB" in shown
