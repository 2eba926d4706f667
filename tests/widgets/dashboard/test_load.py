"""The load that a page sends: Poisson at a rate that may change, bursts, an end."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

import pytest

from minillm.llm import LLM
from minillm.serve import ServerSettings, make_app, running, serving_engine
from minillm.sim import CostModel
from widgets.dashboard.load import (
    LONGEST_OUTPUT,
    LONGEST_PROMPT,
    Load,
    LoadSettings,
    PoissonClock,
    draw,
)

LIMIT_S = 30.0
KEY = "k" * 20


@pytest.fixture
def url() -> Iterator[str]:
    llm = LLM.simulated(CostModel(0.01, 0.0, 0.0), num_blocks=512, max_model_len=2048)
    settings = ServerSettings(api_keys=(KEY,))
    with running(make_app(llm, serving_engine(llm), settings)) as address:
        yield address


def until(condition) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"rate": -1.0}, "got -1.0"), ({"rate": 1e9}, "between 0 and 200"), ({"prompt_len": 0}, "0")],
)
def test_settings_that_cannot_be_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        LoadSettings(**wrong)


def test_arrivals_have_the_rate_also_when_it_changes():
    clock = PoissonClock(seed=1)
    slow = sum(clock.advance(5.0, 0.01) for _ in range(20_000))  # 200 s
    fast = sum(clock.advance(50.0, 0.01) for _ in range(20_000))
    assert abs(slow - 1000) < 4 * math.sqrt(1000)
    assert abs(fast - 10_000) < 4 * math.sqrt(10_000)
    assert sum(clock.advance(0.0, 1.0) for _ in range(100)) == 0


def test_requests_have_lengths_around_their_medians_and_their_own_prompts():
    drawn = list(itertools.islice(draw(LoadSettings(1.0, 80, 40), seed=3), 256))
    outputs = sorted(request.output_len for request in drawn)
    inputs = sorted(request.source.input_len for request in drawn)
    assert 30 <= outputs[128] <= 52
    assert 60 <= inputs[128] <= 105
    assert outputs[-1] <= LONGEST_OUTPUT
    assert inputs[-1] <= LONGEST_PROMPT
    assert len({request.prompt for request in drawn}) == 256


def test_it_sends_bursts_and_a_rate_and_leaves_nothing(url: str):
    load = Load(url, KEY)
    load.change(prompt_len=8, output_len=4)
    load.burst(6)
    load.start().start()
    until(lambda: load.done >= 6)
    assert (load.sent, load.failed) == (6, 0)
    load.change(rate=40.0)
    until(lambda: load.done >= 20)
    load.paused = True
    until(lambda: load.in_flight == 0)
    sent = load.sent
    time.sleep(0.3)
    assert load.sent == sent
    load.change(output_len=400)
    load.burst(4)
    until(lambda: load.in_flight == 4)
    load.close()
    assert load.in_flight == 0


def test_a_server_that_is_not_there_is_waited_for():
    load = Load("http://127.0.0.1:9", KEY).start()
    until(lambda: load.error)
    assert "No server answers" in load.error
    load.close()
