"""KV blocks step by step: the fold of a trace, the ring's frames, the golden bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minillm.core.trace import StepRecord
from tests.widgets.golden import FOLDER, blocks_golden, spelt_state
from tests.widgets.runs import run, shared_run
from tests.widgets.test_frames import View
from widgets.blocks import BlockRing, BlockState, block_history
from widgets.wire import decode


def test_the_golden_blocks_are_what_python_writes():
    text, data = blocks_golden()
    assert data == (FOLDER / "blocks.bin").read_bytes()
    assert json.loads(json.dumps(text)) == json.loads((FOLDER / "blocks.json").read_text("utf-8"))
    assert {op for _, op, _, _ in text["ops"]} == {"a", "f", "s", "e", "c"}
    assert any(state["taken"] for state in text["states"])
    assert text["message"]["blocks"]["tables"]  # the snapshot begins in the middle of the run


@settings(max_examples=25, deadline=None)
@given(st.integers(20, 80), st.sampled_from(["continuous", "static"]), st.booleans())
def test_the_fold_agrees_with_the_engines_counts_at_every_step(num_blocks, policy, caching):
    trace = run(policy, num_blocks=num_blocks, prefix_caching=caching, sharing=(2, 5, 7))
    for record, state in block_history(trace.steps, trace.events, trace.header):
        assert state.num_used == record.kv_used
        assert len(state.cached) == record.kv_cached
        held = [block for table in state.tables.values() for block in table]
        assert len(held) >= state.num_used
        assert state.num_free >= 0
        for block in state.owners():
            assert 0 <= state.filled(block) <= state.block_size


def test_a_preempted_requests_blocks_are_marked_once_with_its_letter():
    trace = shared_run()
    marked = [
        (record.step, dict(state.taken))
        for record, state in block_history(trace.steps, trace.events, trace.header)
        if state.taken
    ]
    victims = [event.req for event in trace.events if event.event == "preempt"]
    assert len(marked) == 1
    assert set(marked[0][1].values()) == set(victims) == {12}


def test_a_shared_prefix_is_counted_once():
    trace = shared_run(1024)
    most = max(
        (len(held) for _, state in block_history(trace.steps, trace.events, trace.header)
         for held in state.owners().values()), default=0,
    )  # fmt: skip
    assert most == 5


def test_a_snapshot_from_the_middle_goes_on_as_the_whole_run_does():
    trace = shared_run()
    small = BlockRing(20)
    small.reset(trace.header)
    small.extend(trace.records)
    whole = BlockRing()
    whole.reset(trace.header)
    whole.extend(trace.records)
    assert small.first_step == len(trace.steps) - 20
    for number in range(small.first_step, small.next_step):
        assert spelt_state(small.state(number)) == spelt_state(whole.state(number))
    with pytest.raises(ValueError, match=rf"holds steps {small.first_step} to \d+, not 3\."):
        small.state(3)


def test_frames_carry_every_operation_once_and_views_of_rows_read_them_too():
    trace, model, view = shared_run(), BlockRing(), View()
    model.reset(trace.header)
    ops, sent = [], (-1, 0)
    for start in range(0, len(trace.records), 17):
        model.extend(trace.records[start : start + 17])
        message, data = model.delta(*sent) if start else model.snapshot()
        sent = (model.next_step - 1, model.next_event)
        ops += [op[1:] for op in decode(data).ops]
        assert view.apply(message, data)
    assert ops == [op for step in trace.steps for op in step.raw_blocks]
    assert [row[:2] for row in view.rows] == [
        (step.step, row.req_idx) for step in trace.steps for row in step.rows
    ]


def test_damaged_blocks_are_refused():
    data = blocks_golden()[1]
    for cut in (1, 12, 200):
        with pytest.raises(ValueError, match=r"has \d+ bytes, got"):
            decode(data[:-cut])
    with pytest.raises(ValueError, match=r"has \d+ bytes, got"):
        decode(data + b"\0")


def test_a_stream_that_began_before_us_frees_what_we_did_not_see():
    state = BlockState(4, 16)
    state.take(StepRecord(9, 0.0, 1.0, 0, 1, None, [], 1, 0, [("f", 2, 7), ("c", 2, 7)]))
    assert (state.num_used, state.cached, state.tables) == (0, {2}, {})
