"""Steps in tables, over prompt lengths, and as a bar of bytes."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ElementTree

import pytest

from minillm import LLM
from minillm.bench.step_times import run_steps
from minillm.sim import SimulatedRunner
from widgets.kv_bar import KvBar, ReadsPanel, sizes_table
from widgets.lesson import requests_with, simulate
from widgets.session import EngineSession
from widgets.step_cards import idle_card, published_bandwidth, steps_card, users_card
from widgets.step_chart import StepChart


@pytest.fixture(scope="module")
def a100():
    runner = SimulatedRunner.for_gpu("A100-80GB-SXM", "llama-3.1-8b")
    return LLM.simulated(runner=runner, num_blocks=28_000, max_num_seqs=128)


def test_users_of_one_step(a100):
    runs = {users: run_steps(a100, users, 508) for users in (1, 32)}
    shown = repr(users_card(a100, runs, "context 512"))
    assert "32× the users: a step takes 1.21× the time." in shown
    assert "◐ simulated: A100-80GB-SXM, llama-3.1-8b bf16, context 512" in shown


def test_idle_has_three_answers(a100):
    shown = repr(idle_card(a100, run_steps(a100, 1, 508).decode))
    assert "the arithmetic is 99.6\u2009% idle" in shown
    assert "93\u2009%  duty cycle" in shown
    with pytest.raises(ValueError, match="need a simulated GPU"):
        idle_card(LLM.simulated(), run_steps(LLM.simulated(), 1, 8).decode)


def test_published_speeds_keep_their_source():
    shown = repr(published_bandwidth("A100-80GB.* tp1$", "Llama-3.1-8B", 15e9, 2039e9))
    assert "93.8\u202ftok/s" in shown
    assert "69\u2009%" in shown
    assert "gpt-fast README" in shown


def test_one_requests_steps(a100):
    trace = simulate(a100, requests_with(a100, [3], prompts=[20]), "continuous")
    lines = repr(steps_card(trace)).splitlines()
    assert lines[2].split()[:5] == ["1", "prefill", "20", "0", "number"]
    assert lines[3].split()[:5] == ["2", "decode", "1", "20", "number"]
    assert len(lines) == 2 + 3 + 1


def test_the_chart_fills_prompt_by_prompt(a100):
    chart = StepChart()
    seen = []

    async def run():
        chart.widget.observe(lambda change: seen.append(change["new"].count("<circle")), "value")
        await chart.measure(a100, (8, 512, 64), "A100", tries=2)

    asyncio.run(run())
    assert seen == [2, 3, 4]  # the decode step comes with the first prompt
    curve = chart.curves["A100"]
    assert sorted(curve.points) == [1, 8, 64, 512]
    assert curve.ratio(8) < 1.1 < 3 < curve.ratio(512)
    assert "A100: a prompt of 8 tokens takes as long as 1.04 decode steps" in chart.headline()
    assert "one of 512 as" in chart.headline()
    ElementTree.fromstring(chart.svg())
    shown = repr(chart.table((512,)))
    assert "decode" in shown
    assert "◐ simulated: A100, A100-80GB-SXM, llama-3.1-8b bf16" in shown
    assert not any(line.split()[1:2] == ["64"] for line in shown.splitlines())


def test_the_bar_follows_a_run_and_counts_what_its_steps_read(tiny):
    bar = KvBar(tiny)
    with pytest.raises(ValueError, match="No decode step has run yet"):
        bar.fullest()
    session = EngineSession(tiny.new_engine("continuous", max_num_seqs=4)).watch(bar)
    session.start(requests_with(tiny, [5, 5], prompts=[8, 4]))
    asyncio.run(session.finished())
    c = tiny.runner.model_config
    per_token = 2 * c.num_layers * c.num_kv_heads * c.head_dim * 4  # float32
    assert [reads.context for reads in bar.steps] == [14, 16, 18, 20]
    assert {reads.per_token for reads in bar.steps} == {per_token}
    assert bar.fullest().kv == 20 * per_token
    assert "At its fullest: 2 users, 20 tokens of context" in bar.widget.value
    assert "● measured" in repr(bar.table())
    bar.feed(0, session.report().trace)  # nothing new
    assert len(bar.steps) == 4


def test_the_panel_says_what_a_step_reads_and_whether_it_fits():
    panel = ReadsPanel()
    assert panel.reads(1, 512).weights == pytest.approx(15.0e9, rel=0.01)
    assert panel.reads(32, 4096).share > 0.5 > panel.reads(32, 2048).share
    panel.users.value, panel.context.value = 256, 32768
    assert "It does not fit: room for 452,037 tokens of KV" in panel.shown.value
    panel.users.value, panel.context.value = 1, 128
    assert "It does not fit" not in panel.shown.value
    assert "0.1\u2009%" in panel.shown.value


def test_the_sizes_of_one_token():
    shown = repr(sizes_table(("llama-3.1-8b", "llama-2-7b")))
    assert "131\u2009kB" in shown
    assert "524\u2009kB" in shown
    assert "114,500 tokens" in shown
