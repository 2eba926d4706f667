"""Playground: prompts join a run that stays open; the answer streams; the policy changes live."""

from __future__ import annotations

import asyncio

import pytest

from minillm import LLM
from minillm.core import Arrival, SamplingParams
from widgets.playground import Playground

BURST = [Arrival(f"b{i}", (3, 4, 5 + i), SamplingParams(8, ignore_eos=True)) for i in range(5)]
MODES = pytest.mark.parametrize("threads", [True, False], ids=["threads", "tasks"])


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.01)


@MODES
def test_a_prompt_is_answered_and_shown(threads):
    async def scenario():
        llm = LLM.simulated()
        play = Playground(llm, max_tokens=12, threads=threads)
        answer = play.panel.children[2]
        request_id = play.send("Why is <the> sky blue?")
        await until(lambda: play.answer.done and "▍" not in answer.value and answer.value)
        assert "Why is &lt;the&gt; sky blue?" in answer.value
        assert play.answer.text.count("‹") == 12  # the made-up tokens of a simulation
        play.stop()
        report = await play.session.finished()
        [arrival] = [event for event in report.trace.events if event.event == "arrive"]
        assert (arrival.id, arrival.data["prompt_preview"]) == (
            request_id,
            "Why is <the> sky blue?",
        )
        play.close()

    run(scenario())


def test_an_empty_prompt_does_nothing():
    play = Playground(LLM.simulated())
    assert play.send("   ") is None
    assert not play.session.running
    play.close()


@MODES
def test_burst_policy_and_stop_from_the_panel(threads):
    async def scenario():
        play = Playground(LLM.simulated(), BURST, threads=threads)
        policy, burst, stop = play.panel.children[1].children
        assert (burst.description, stop.disabled) == ("Burst of 5", True)
        burst.click()
        assert not stop.disabled
        await until(lambda: len(play.session.report().trace.steps) >= 8)
        policy.value = "static"
        engine = play.session.engine
        await until(lambda: engine.scheduler.name == "static")
        burst.click()
        await until(
            lambda: sum(e.event == "finish" for e in play.session.report().trace.events) >= 5
        )
        stop.click()
        await play.session.finished()
        await until(lambda: stop.disabled)
        assert engine.kv.num_used_blocks == 0
        play.close()

    run(scenario())


@MODES
def test_stopped_with_nothing_sent_and_begun_anew(threads):
    async def scenario():
        play = Playground(LLM.simulated(), BURST, threads=threads)
        play.session.start(keep_open=True)
        await asyncio.sleep(0.05)
        play.stop()
        assert (await play.session.finished()).summary.requests == 0
        play.burst()
        await until(lambda: play.session.report().trace.steps)
        play.stop()
        assert (await play.session.finished()).summary.requests == 5
        play.close()

    run(scenario())
