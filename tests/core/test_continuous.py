"""Continuous batching, step by step on the virtual clock."""

import pytest

from minillm.core import RequestStatus, SamplingParams
from tests.core.helpers import assert_idle, collect, make_engine, run_all, solo


def params(n, **kwargs):
    return SamplingParams(max_tokens=n, ignore_eos=True, **kwargs)


def rows(engine, step=-1):
    """[(request index, tokens, start, whether it sampled)] of a step of the trace."""
    found = engine.trace.steps[step].rows
    return [(r.req_idx, r.n_tokens, r.start, r.token_id is not None) for r in found]


def test_the_classic_walk_three_slots_five_requests():
    """Who is in at each iteration: requests A to E of 2, 5, 3, 3, 2 tokens."""
    engine = make_engine(max_num_seqs=3)
    for name, length in zip("ABCDE", (2, 5, 3, 3, 2), strict=True):
        engine.add_request(name, [1], params(length))
    run_all(engine)
    walk = ["".join("ABCDE"[r.req_idx] for r in step.rows) for step in engine.trace.steps]
    assert walk == ["ABC", "ABC", "BCD", "BDE", "BDE"]
    assert [step.waiting for step in engine.trace.steps] == [2, 2, 1, 0, 0]


def test_decodes_come_first_and_the_prompt_takes_what_is_left():  # C08
    engine = make_engine(max_num_batched_tokens=8)
    engine.add_request("a", [1], params(20))
    engine.step()
    engine.add_request("b", list(range(30)), params(3))
    for _ in range(5):
        engine.step()
    chunks = [rows(engine, i) for i in range(1, 6)]
    assert [c[1][1] for c in chunks] == [7, 7, 7, 7, 2]  # 30 tokens beside one decode
    assert [c[1][3] for c in chunks] == [False] * 4 + [True]
    assert all(c[0][:2] == (0, 1) for c in chunks)


def test_partial_chunks_emit_nothing_and_ttft_counts_every_chunk():  # C07
    engine = make_engine(max_num_batched_tokens=8)
    engine.add_request("a", list(range(20)), params(2))
    outputs = [engine.step() for _ in range(3)]
    assert outputs[0] == outputs[1] == []
    assert len(outputs[2]) == 1
    assert len(outputs[2][0].new_token_ids) == 1
    first = next(e for e in engine.trace.events if e.event == "first_token")
    assert first.t == 3.0


@pytest.mark.parametrize("chunk", [1, 2, 3, 8, 23])
def test_any_chunk_size_gives_the_solo_tokens(chunk):  # C05, on the mock model
    engine = make_engine(max_num_batched_tokens=chunk, max_num_seqs=1)
    prompt = list(range(23))
    engine.add_request("a", prompt, params(5))
    assert run_all(engine)["a"] == solo(prompt, params(5))
    assert len(engine.trace.steps) == -(-23 // chunk) + 4


def test_with_chunking_off_a_prompt_goes_in_whole_or_waits():
    engine = make_engine(
        max_num_batched_tokens=32, max_model_len=32, enable_chunked_prefill=False, max_num_seqs=4
    )
    engine.add_request("a", list(range(20)), params(3))
    engine.add_request("b", list(range(100, 120)), params(3))
    engine.step()
    assert rows(engine) == [(0, 20, 0, True)]
    engine.step()
    assert rows(engine) == [(0, 1, 20, True), (1, 20, 0, True)]


def test_prefill_first_stalls_who_decodes():
    engine = make_engine(prefill_first=True, max_num_batched_tokens=8)
    engine.add_request("a", [1], params(10))
    engine.step()
    engine.add_request("b", list(range(20)), params(2))
    for _ in range(3):
        engine.step()
        assert [row[0] for row in rows(engine)] == [1]
    engine.step()
    assert [row[0] for row in rows(engine)] == [0, 1]


def test_preemption_recomputes_and_changes_no_token():  # C15
    names = ("a", "b", "c")
    prompts = {name: [i + 1] * 5 for i, name in enumerate(names)}
    engine = make_engine(num_blocks=7, prefix_caching=False)
    for name in names:
        engine.add_request(name, prompts[name], params(14))
    got: dict[str, list[int]] = {}
    engine.close_input()
    preempted = set()
    while engine.has_unfinished:
        collect(engine.step(), got)
        preempted |= {r.request_id for r in engine.scheduler.waiting if r.num_preemptions}
    assert got == {name: solo(prompts[name], params(14)) for name in names}
    assert preempted
    lost = [e.data for e in engine.trace.events if e.event == "preempt"]
    assert all(data["tokens_lost"] > 0 for data in lost)
    assert_idle(engine)


def test_a_preempted_request_waits_at_the_front():
    engine = make_engine(num_blocks=4, max_num_seqs=2, prefix_caching=False)
    engine.add_request("a", [1] * 7, params(9))
    engine.add_request("b", [2] * 7, params(9))
    engine.add_request("c", [3], params(1))
    while not any(r.status is RequestStatus.PREEMPTED for r in engine.requests.values()):
        engine.step()
    assert [r.request_id for r in engine.scheduler.waiting] == ["b", "c"]
    assert len(run_all(engine)["c"]) == 1


def test_fcfs_a_large_head_is_not_overtaken():  # C19
    engine = make_engine(num_blocks=10)
    engine.add_request("first", [1] * 8, params(4))
    engine.step()
    engine.add_request("large", [2] * 35, params(2))
    for i in range(5):
        engine.add_request(f"small{i}", [3], params(1))
    run_all(engine)
    admitted = [e.id for e in engine.trace.events if e.event == "admit"]
    assert admitted[:2] == ["first", "large"]
    admit = {e.id: e.t for e in engine.trace.events if e.event == "admit"}
    end = {e.id: e.t for e in engine.trace.events if e.event == "finish"}
    assert admit["large"] <= end["first"]  # it waits for the running ones alone


def test_priority_is_strict_and_equals_never_preempt_each_other():
    engine = make_engine(scheduling_policy="priority", max_num_seqs=1)
    engine.add_request("low", [1], params(6), priority=5)
    engine.step()
    engine.add_request("low2", [1, 2], params(2), priority=5)
    engine.add_request("high", [2], params(2), priority=0)
    engine.step()
    assert [r.request_id for r in engine.scheduler.running] == ["high"]
    assert [r.request_id for r in engine.scheduler.waiting] == ["low", "low2"]
    tokens = run_all(engine)
    ended = [e.id for e in engine.trace.events if e.event == "finish"]
    assert ended == ["high", "low", "low2"]
    assert engine.trace.events[-1].event == "finish"
    assert len(tokens["low2"]) == 2
    assert sum(e.event == "preempt" for e in engine.trace.events) == 1


def test_a_victim_gives_back_its_tokens_of_the_step():
    engine = make_engine(
        scheduling_policy="priority", max_num_batched_tokens=8, num_blocks=10, prefix_caching=False
    )
    engine.add_request("low", [1], params(9), priority=5)
    engine.step()
    engine.add_request("grows", [2] * 3, params(9), priority=1)
    engine.step()
    engine.add_request("long", [3] * 30, params(9), priority=0)
    engine.step()
    assert rows(engine) == [(0, 1, 2, True), (1, 1, 3, True), (2, 6, 0, False)]
    engine.step()  # "grows" needs a second block, and "low", which had its row already, has one
    assert rows(engine) == [(1, 1, 4, True), (2, 7, 6, False)]


def test_a_victim_s_row_does_not_count_for_who_takes_its_place():
    engine = make_engine(scheduling_policy="priority", max_num_batched_tokens=8, max_num_seqs=2)
    engine.add_request("low", [1], params(9), priority=5)
    engine.add_request("mid", [2], params(9), priority=1)
    engine.step()
    engine.add_request("high", [3] * 30, params(9), priority=0)
    engine.step()
    assert rows(engine) == [(1, 1, 1, True), (2, 7, 0, False)]


def test_nobody_is_admitted_in_a_step_that_preempts():
    engine = make_engine(
        scheduling_policy="priority", max_num_batched_tokens=8, num_blocks=3, prefix_caching=False
    )
    engine.add_request("low", [1] * 5, params(9), priority=5)
    engine.add_request("grows", [2] * 3, params(9), priority=1)
    engine.step()
    engine.step()
    engine.add_request("small", [3], params(9), priority=4)
    engine.step()  # "low" gives back two blocks and "grows" takes one: "small" would fit
    assert [row[0] for row in rows(engine)] == [1]
    engine.step()
    assert [row[0] for row in rows(engine)] == [1, 2]


@pytest.mark.parametrize("when", ["waiting", "prefilling", "decoding", "preempted", "finished"])
def test_abort_in_any_state_frees_all(when):  # C33, in the engine
    engine = make_engine(num_blocks=6, max_num_seqs=2, max_num_batched_tokens=4)
    engine.add_request("a", [1] * 9, params(12))
    engine.add_request("b", [2] * 9, params(12))
    steps = {"waiting": 0, "prefilling": 1, "decoding": 3, "preempted": 0, "finished": 0}[when]
    victim = "a"
    for _ in range(steps):
        engine.step()
    if when == "preempted":
        while not engine.requests["b"].num_preemptions:
            engine.step()
        victim = "b"
    if when == "finished":
        run_all(engine)
        assert engine.abort("a") is None
    else:
        assert engine.abort(victim).finish_reason == "abort"
    assert engine.abort(victim) is None  # twice
    assert engine.abort("nobody") is None
    later = run_all(engine)
    assert victim not in later
    assert_idle(engine)
