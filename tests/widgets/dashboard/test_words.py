"""What the live page says: its headline, its figures of one's own requests."""

from __future__ import annotations

import pytest

from minillm.core.trace import RequestEvent, StepRecord
from widgets.classroom import Exchange
from widgets.dashboard.requests import Requests
from widgets.dashboard.words import (
    MADE_UP,
    NOBODY,
    LivePulse,
    Saying,
    answers,
    engine_status,
    figures_of,
    live_headline,
    origin,
    request_card,
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


@pytest.fixture
def requests() -> Requests:
    """A, done with two tokens after 300 ms, and B, which waits."""
    known = Requests()
    known.take([
        RequestEvent(1.0, 0, "chatcmpl-a-0", "arrive", {
            "prompt_len": 6, "max_tokens": 9, "prompt_preview": "Why <b>?",
        }),
        RequestEvent(1.2, 0, "chatcmpl-a-0", "admit", {}), step(0, 1.3, 5), step(1, 1.4, 6),
        RequestEvent(1.4, 0, "chatcmpl-a-0", "finish", {"reason": "length"}),
        RequestEvent(1.5, 1, "b", "arrive", {"prompt_len": 64, "max_tokens": 9}),
    ])  # fmt: skip
    return known


def test_the_figures_of_a_request_are_those_that_are_known(requests):
    plain = figures_of(requests.get(0)).replace("\u2009", " ").replace("\u202f", " ")
    assert plain == "TTFT 300 ms · waited 200 ms · 2 tokens"
    assert figures_of(requests.get(1)) == "queued"
    assert figures_of(None) == ""


def test_the_card_shows_prompt_text_and_newest_token_of_any_request(requests):
    html = request_card(requests.get(0), Saying("It <i>", "is"), simulated=False)
    assert "Why &lt;b&gt;?" in html
    assert 'It &lt;i&gt;<span class="mld-token">is</span>' in html
    assert "2 tokens of at most 9, length" in html
    assert MADE_UP not in html
    assert MADE_UP in request_card(requests.get(0), Saying(), simulated=True)
    assert "A prompt of 64 tokens, not shown." in request_card(requests.get(1), Saying(), False)
    assert NOBODY in request_card(None, Saying(), False)
    mine = request_card(requests.get(1), Saying(), False, "All of <it>", "Too & long")
    assert "All of &lt;it&gt;" in mine
    assert "Too &amp; long" in mine


def test_answers_are_escaped_and_leave_out_the_one_that_has_a_card(requests):
    refused = Exchange("<b>hi</b>", text="<script>x</script>", error="a & b", state="refused")
    other = Exchange("Why?", sent_as="a")
    html = answers([other, refused], requests, pointed=0)
    assert "<script>" not in html
    assert "&lt;b&gt;hi" in html
    assert "a &amp; b" in html
    assert "Why?" not in html
    assert "Your other prompts" in html
    assert "Your prompts" in answers([other], requests, None)
    assert answers([], requests, None) == ""


def test_the_origin_is_what_the_server_says():
    state = {"provenance": "simulated", "device": "A100", "model": "llama"}
    assert origin(state) == {"provenance": "simulated", "where": "A100, llama"}
    assert origin({}) == {}
