"""Comparison: the same requests under two policies, into two lanes; its panel; run reports."""

from __future__ import annotations

import asyncio
import time

import pytest

from minillm import LLM
from minillm.core import Arrival, SamplingParams, Scheduler
from widgets.compare import Comparison
from widgets.legs import name_of
from widgets.report import COLUMNS
from widgets.timeline import Timeline


class OneAtATime(Scheduler):
    def schedule(self, now):
        if self.running:
            return self.output([self.continue_(r, r.num_remaining) for r in self.running])
        return self.output([self.admit(self.waiting[0], 512)])


@pytest.fixture
def llm() -> LLM:
    return LLM.simulated()


def arrivals(count: int = 12) -> list[Arrival]:
    lengths = [4, 40, 9, 12, 80, 6, 20, 8, 30, 5, 11, 60]
    return [
        Arrival(
            chr(ord("A") + i),
            (3, 4, 5 + i),
            SamplingParams(lengths[i % 12], ignore_eos=True),
            0.01 * i,
        )
        for i in range(count)
    ]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "tasks"])
def test_both_policies_get_the_same_requests_and_a_lane_each(llm, threads):
    async def scenario():
        ab = Comparison(llm, arrivals(), threads=threads, max_num_seqs=4)
        result = await ab.start().finished()
        ab.close()
        static, continuous = result.summaries
        assert static.completed == continuous.completed == 12
        assert static.output_tokens == continuous.output_tokens
        assert [trace.header.policy for trace in result.traces.values()] == ["static", "continuous"]
        assert static.row_padding_fraction > 0
        assert continuous.row_padding_fraction == 0
        assert result.speedup == pytest.approx(continuous.output_tok_s / static.output_tok_s)
        assert result.speedup > 1.2
        assert ab.timeline.traces() == [result.traces[0], result.traces[1]]
        assert ab.timeline.titles == ["Static", "Continuous"]
        assert "tokens per second" in ab.timeline.headline

    run(scenario())


def test_who_waits_how_long_is_read_from_the_trace(llm):
    async def scenario():
        ab = Comparison(llm, arrivals(), max_num_seqs=4)
        result = await ab.start().finished()
        ab.close()
        # E is the fifth: static batching serves it after A to D, whose longest output is 40.
        assert result.waited_steps("E", lane=0) >= 40
        assert 1 <= result.waited_steps("E", lane=1) < 10
        assert result.ttft("E", lane=1) < result.ttft("E", lane=0)

    run(scenario())


def test_another_pair_of_policies_starts_the_lanes_anew(llm):
    async def scenario():
        ab = Comparison(llm, arrivals())
        await ab.start().finished()
        result = await ab.start("dynamic", OneAtATime).finished()
        ab.close()
        policies = [trace.header.policy for trace in result.traces.values()]
        assert policies == ["dynamic", "OneAtATime"]
        assert ab.timeline.titles == ["Dynamic", "OneAtATime"]
        assert result.speedup < 1

    run(scenario())


def test_start_while_running_begins_again(llm):
    async def scenario():
        ab = Comparison(llm, arrivals(), pace=0.1)
        ab.start()
        await asyncio.sleep(0.1)
        ab.pace = None
        result = await ab.start().finished()
        ab.close()
        assert [summary.completed for summary in result.summaries] == [12, 12]
        assert not result.stopped

    run(scenario())


def test_stopped_in_the_first_lane_the_report_says_so(llm):
    async def scenario():
        ab = Comparison(llm, arrivals(), pace=0.1)
        ab.start()
        await asyncio.sleep(0.2)
        ab.stop()
        before = time.perf_counter()
        result = await ab.finished()
        assert time.perf_counter() - before < 1.0
        ab.close()
        assert result.stopped
        assert list(result.traces) == [0]
        assert "Stopped before the end" in repr(result)
        assert result.speedup is None
        assert result.waited_steps("A", lane=1) is None
        assert result.ttft("L", lane=0) is None
        assert "Stopped before the end" in result._repr_html_()

    run(scenario())


def test_bad_settings_are_refused_before_anything_runs(llm):
    with pytest.raises(ValueError, match="Unknown policy 'fast'"):
        Comparison(llm, arrivals(), "fast", "continuous")
    with pytest.raises(ValueError, match="max_num_batched_tokens"):
        Comparison(llm, arrivals(), max_num_seqs=8, max_num_batched_tokens=4)


def test_the_report_reads_as_text_and_as_html(llm):
    async def scenario():
        ab = Comparison(llm, arrivals())
        result = await ab.start().finished()
        ab.close()
        text, html = repr(result), result._repr_html_()
        for column in COLUMNS:
            assert column in text
        assert "◐ simulated: " in text
        assert "◐ simulated: " in html
        assert "<svg" in html
        assert "<script" not in html
        assert "http" not in html.replace("http://www.w3.org/2000/svg", "")

    run(scenario())


# ── the panel ───────────────────────────────────────────────────────────────────────────────


def test_the_panel_has_choosers_buttons_and_the_timeline(llm):
    ab = Comparison(llm, arrivals(), b=OneAtATime)
    controls, timeline = ab.panel.children
    assert isinstance(timeline, Timeline)
    first, second, start, stop, pace = controls.children
    assert (first.description, second.description) == ("A", "B")
    assert [label for label, _ in first.options] == [
        "static", "dynamic", "continuous", "OneAtATime",
    ]  # fmt: skip
    assert second.value is OneAtATime
    assert (start.description, stop.description) == ("Run", "Stop")
    assert (start.icon, stop.icon) == ("", "")  # icons come from a CDN
    assert (start.disabled, stop.disabled) == (False, True)
    assert pace.description == "Pace ×"
    ab.close()


def test_buttons_start_and_stop_and_follow_the_run(llm):
    async def scenario():
        ab = Comparison(llm, arrivals(), pace=0.1)
        first, _, start, stop, pace = ab.panel.children[0].children
        first.value = "dynamic"
        start.click()
        assert ab.running
        assert (start.disabled, stop.disabled, first.disabled) == (True, False, True)
        pace.value = 10.0
        stop.click()
        result = await ab.finished()
        assert result.stopped
        assert result.traces[0].header.policy == "dynamic"
        assert (start.disabled, stop.disabled, first.disabled) == (False, True, False)
        ab.close()

    run(scenario())


def test_names_of_policies():
    assert name_of("static") == "static"
    assert name_of(OneAtATime) == "OneAtATime"
