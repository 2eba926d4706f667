"""The block map's widget, sentences and static figure, without a browser."""

from __future__ import annotations

import re

import pytest

from minillm.core.trace import Trace, TraceHeader
from tests.widgets.runs import run, shared_run
from widgets.block_map import SOURCES, BlockMap
from widgets.block_story import block_figure, block_story
from widgets.cursor import Cursor
from widgets.wire import decode


class Sent(BlockMap):
    """A BlockMap that keeps what it sends."""

    def send(self, content, buffers=None):
        self.sent = [*getattr(self, "sent", []), (content, buffers)]


def test_it_sends_blocks_with_every_step_and_a_snapshot_says_how_they_stood():
    trace = shared_run()
    growing = Trace(trace.header)
    shown = Sent(max_steps=30)
    for record in trace.records:
        growing.add(record)
        shown.feed(0, growing)
        shown.publish()
    frames = [decode(buffers[0]) for _, buffers in shown.sent]
    assert sum(len(frame.ops) for frame in frames) == sum(len(s.raw_blocks) for s in trace.steps)
    shown.sent = []
    shown._handle_custom_msg({"hello": -1, "lane": 0}, [])
    ((message, buffers),) = shown.sent
    assert message["kind"] == "snapshot"
    assert decode(buffers[0]).first_step == len(trace.steps) - 30
    assert message["blocks"]["num_blocks"] == 46
    assert message["blocks"]["tables"]


def test_the_first_preemption_is_told_with_its_figures():
    trace = shared_run()
    shown = Sent(cursor=Cursor())
    shown.feed(0, trace)
    story = shown.conclude()
    step = next(step for step in trace.steps if step.step == story.step)
    event = next(event for event in trace.events if event.event == "preempt")
    given = sum(op == "f" and req == event.req for op, _, req in step.raw_blocks)
    lost, cached = event.data["tokens_lost"], event.data["tokens_cached"]
    assert step.t_start == event.t
    assert shown.headline == f"The pool is full: K needs 1 block, so M gives {given} back."
    assert f"{lost - cached} tokens of its {lost}" in shown.lead
    assert shown.notes == story.notes
    assert step.t_start <= story.notes[0]["t"] <= step.t_end


def test_without_a_preemption_the_shared_prefix_or_the_fullest_step_is_told():
    text = block_story(shared_run(1024)).text
    assert text == "C, F, H, J and L share 3 blocks: 12 blocks spared at that step."
    trace = run("static")
    most = max(step.kv_used for step in trace.steps)
    assert block_story(trace).text == f"At most {most} of 1,024 blocks are in use."
    header = TraceHeader("simulated", "none", "none", "none", "continuous", 4, 16)
    with pytest.raises(ValueError, match="no step yet"):
        block_story(Trace(header))


def test_the_static_figure_has_its_words_a_table_and_every_block():
    figure = block_figure(shared_run())
    assert "The pool is full: K needs 1 block" in figure.alt
    assert "simulated" in figure.alt
    assert figure.svg.count("<rect") > 46
    assert "Who holds the pool after step" in figure.table
    assert figure.table.count("<tr>") == 6
    large = block_figure(shared_run(2000))
    assert large.svg.count("<rect") < 10  # the use over time alone


def test_freeze_and_reset():
    shown = Sent()
    with pytest.raises(ValueError, match="feed it a trace first"):
        shown.freeze()
    shown.feed(0, shared_run())
    figure = shown.freeze()
    assert shown.frozen == figure.to_html(inline=True)
    shown.reset()
    assert (shown.frozen, shown.lead, shown.notes) == ("", "", [])


def test_the_module_is_one_file_and_offline():
    esm, css = BlockMap._esm, BlockMap._css
    assert not re.search(r"^\s*import\s", esm, re.MULTILINE)
    assert len(re.findall(r"^export default ", esm, re.MULTILINE)) == 1
    names = re.findall(r"^(?:export )?(?:function|class|const) (\w+)", esm, re.MULTILINE)
    assert sorted({name for name in names if names.count(name) > 1}) == []
    for text in (esm, css):
        assert "http" not in text
        assert "url(" not in text
    assert len(SOURCES) == len(set(SOURCES))
