"""What the live page says: its headline, its figures of one's own requests."""

from __future__ import annotations

import pytest

from minillm.core.trace import RequestEvent, StepRecord
from widgets.classroom import Exchange
from widgets.dashboard.words import (
    MADE_UP,
    LivePulse,
    OwnRequests,
    answers,
    engine_status,
    live_headline,
    origin,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def step(number: int, t: float, *tokens: int | None) -> StepRecord:
    rows = [(req, 1, 1, 0, 5, token) for req, token in enumerate(tokens)]
    return StepRecord(number, t - 0.01, t, 0, len(rows), 256, rows, 2, 0)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((368.0, 12, 3, False), "368 tokens/s for 12 requests; 3 requests wait for a slot."),
        ((1302.0, 1, 1, False), "1,300 tokens/s for 1 request; 1 request waits for a slot."),
        ((50.04, 2, 0, False), "50.0 tokens/s for 2 requests; nobody waits."),
        ((0.0, 0, 0, False), "Nothing runs. Send a prompt, or raise the arrivals."),
        ((9.0, 2, 3, True), "Paused: 5 requests in it, nothing is computed."),
    ],
)
def test_the_headline_is_the_finding(state, text):
    assert live_headline(*state) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((None, 0, False), "engine idle, no step yet"),
        ((0.027, 3, False), "engine running, last step 27.0\u202fms ago"),
        ((8.71, 0, False), "engine idle for 8.71\u202fs"),
        ((8.71, 2, False), "engine running, last step 8.71\u202fs ago"),
        ((0.1, 2, True), "engine paused"),
    ],
)
def test_the_status_says_how_old_the_news_are(state, text):
    assert engine_status(*state).replace("\u2009", "\u202f") == text


def test_tokens_a_second_are_of_the_last_two_seconds():
    clock = Clock()
    pulse = LivePulse(clock)
    assert pulse.tok_s == 0
    assert pulse.age_s is None
    for second in range(4):
        clock.now = 101.0 + second
        pulse.take([step(second, second + 0.5, *([7] * 30), None)])
    assert pulse.tok_s == pytest.approx(45, abs=1)  # three of the four, within 2 s
    clock.now += 5
    assert pulse.tok_s == 0
    assert pulse.age_s == 5


def test_ones_own_request_is_followed_from_arrival_to_its_tokens():
    own, exchange = OwnRequests(), Exchange("Why is the sky blue?")
    assert own.figures(exchange.request_id) == ""
    own.take([RequestEvent(1.0, 0, exchange.request_id, "arrive", {})])
    assert own.figures(exchange.request_id) == "queued"
    own.take([RequestEvent(1.2, 0, exchange.request_id, "admit", {}), step(0, 1.3, 5)])
    own.take([step(1, 1.4, 6)])
    figures = own.figures(exchange.request_id).replace("\u2009", " ").replace("\u202f", " ")
    assert figures == "TTFT 300 ms · waited 200 ms · 2 tokens"
    assert own.find(exchange.request_id) == 0


def test_old_requests_are_forgotten():
    own = OwnRequests()
    own.take(RequestEvent(float(i), i, f"r{i}", "arrive", {}) for i in range(5000))
    assert own.find("r0") is None
    assert own.find("r4999") == 4999
    own.take([step(0, 5000.0, 1)])  # request 0 is known no more
    assert own.figures("r4999") == "queued"


def test_answers_are_escaped_and_name_what_is_made_up():
    own = OwnRequests()
    exchange = Exchange("<b>hi</b>", text="<script>x</script>", error="a & b", state="refused")
    html = answers([exchange], own, simulated=True)
    assert "<script>" not in html
    assert "&lt;b&gt;hi" in html
    assert "a &amp; b" in html
    assert MADE_UP in html
    assert MADE_UP not in answers([exchange], own)
    assert "appears here" in answers([], own, simulated=True)


def test_the_origin_is_what_the_server_says():
    state = {"provenance": "simulated", "device": "A100", "model": "llama"}
    assert origin(state) == {"provenance": "simulated", "where": "A100, llama"}
    assert origin({}) == {}
