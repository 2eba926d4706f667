"""Static batching: who waits for whom, and padding that is really in the rows."""

import pytest

from minillm.core import SamplingParams, summarize
from minillm.core.metrics import count_padding
from minillm.core.trace import DEAD, DECODE, PREFILL
from tests.core.helpers import assert_idle, make_engine, run_all, solo


def params(n):
    return SamplingParams(max_tokens=n, ignore_eos=True)


def test_outputs_of_100_50_150_30_waste_270_of_600_slots():  # CLAIMS 4
    engine = make_engine("static", num_blocks=200, max_num_seqs=4)
    for name, length in zip("ABCD", (100, 50, 150, 30), strict=True):
        engine.add_request(name, [1], params(length))
    run_all(engine)
    padding = count_padding(engine.trace)
    assert (padding.dead_rows, padding.rows) == (270, 600)
    assert summarize(engine.trace).row_padding_fraction == 0.45


def test_a_row_that_has_ended_returns_its_own_tokens_only():  # C04
    engine = make_engine("static", max_num_seqs=2)
    engine.add_request("A", [1], params(2))
    engine.add_request("B", [2], params(10))
    tokens = run_all(engine)
    assert tokens == {"A": solo([1], params(2)), "B": solo([2], params(10))}
    dead = [row for step in engine.trace.steps for row in step.rows if row.kind == DEAD]
    assert len(dead) == 8  # of 20 slots
    assert {(row.n_tokens, row.n_padding, row.start) for row in dead} == {(0, 1, 2)}
    ends = {e.id: e.t for e in engine.trace.events if e.event == "finish"}
    assert ends == {"A": 2.0, "B": 10.0}


def test_prompts_are_padded_to_the_longest():
    engine = make_engine("static", max_num_seqs=3)
    for i, length in enumerate((3, 9, 5)):
        engine.add_request(str(i), [1] * length, params(2))
    run_all(engine)
    first = engine.trace.steps[0].rows
    assert [(r.kind, r.n_tokens, r.n_padding) for r in first] == [
        (PREFILL, 3, 6), (PREFILL, 9, 0), (PREFILL, 5, 4)
    ]  # fmt: skip
    assert [(r.kind, r.n_tokens, r.n_padding) for r in engine.trace.steps[1].rows] == [
        (DECODE, 1, 0)
    ] * 3
    summary = summarize(engine.trace)
    assert summary.prompt_padding_fraction == 10 / (17 + 10 + 3)
    assert summary.padding_fraction == summary.prompt_padding_fraction
    assert summary.row_padding_fraction == 0


def test_nobody_joins_and_the_blocks_stay_held_until_the_batch_ends():
    engine = make_engine("static", num_blocks=8, max_num_seqs=2)
    for name, length in (("a", 1), ("b", 4), ("c", 1)):
        engine.add_request(name, [1], params(length))
    engine.close_input()
    used = []
    while engine.has_unfinished:
        engine.step()
        used.append(engine.trace.steps[-1].kv_used)
    assert used == [3, 3, 3, 0, 0]  # a: 1 block, b: 2 for its longest output
    assert [len(step.rows) for step in engine.trace.steps] == [2, 2, 2, 2, 1]
    assert_idle(engine)


def test_it_waits_for_a_full_batch_until_the_input_is_closed():
    engine = make_engine("static", max_num_seqs=3)
    engine.add_request("a", [1], params(1))
    assert engine.step() == []
    assert engine.idle
    assert engine.next_wakeup() is None
    assert not engine.trace.steps
    engine.close_input()
    assert len(engine.step()) == 1


def test_when_serving_it_waits_at_most_max_wait_s():
    engine = make_engine("static", max_num_seqs=3, max_wait_s=1.0)
    engine.add_request("a", [1], params(1), arrival_time=0.1)
    engine.step()
    assert engine.next_wakeup() == 1.1
    engine.clock.advance_to(1.1)
    assert len(engine.step()) == 1


def test_a_small_pool_makes_smaller_batches():
    engine = make_engine("static", num_blocks=4, max_num_seqs=4)
    for i in range(4):
        engine.add_request(str(i), [1, 2, 3], params(5))  # 2 blocks each
    run_all(engine)
    assert [len(step.rows) for step in engine.trace.steps] == [2] * 10


@pytest.mark.parametrize("victim", ["a", "b"])
def test_an_aborted_row_leaves_the_batch(victim):
    engine = make_engine("static", max_num_seqs=2)
    engine.add_request("a", [1], params(3))
    engine.add_request("b", [2], params(6))
    engine.close_input()
    engine.step()
    engine.abort(victim)
    assert all(len(step.rows) == 1 for step in engine.trace.steps[1:])
    run_all(engine)
    assert_idle(engine)
