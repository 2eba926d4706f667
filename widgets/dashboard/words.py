"""What the live page says of the engine: its sentences and what they are computed from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from minillm.core.trace import Record, StepRecord, letter
from widgets.dashboard.requests import KnownRequest, Requests
from widgets.numbers import number3, plural, seconds

if TYPE_CHECKING:
    from widgets.classroom import Exchange

WINDOW_S = 2.0
PREVIEW = 80  # characters of a prompt that the trace has at most


class LivePulse:
    """Tokens a second over the last WINDOW_S, when the last step came. clock(): seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._tokens: deque[tuple[float, int]] = deque()
        self.last_step: float | None = None

    def take(self, records: Iterable[Record]) -> None:
        now, tokens = self._clock(), 0
        for record in records:
            if isinstance(record, StepRecord):
                tokens += sum(row[5] is not None for row in record.raw_rows)
                self.last_step = now
        if tokens:
            self._tokens.append((now, tokens))

    @property
    def tok_s(self) -> float:
        now = self._clock()
        while self._tokens and now - self._tokens[0][0] > WINDOW_S:
            self._tokens.popleft()
        span = min(max(now - self._since, 0.1), WINDOW_S)
        return sum(count for _, count in self._tokens) / span

    @property
    def age_s(self) -> float | None:
        """Seconds since the last step came; None: none has come."""
        return None if self.last_step is None else self._clock() - self.last_step


def live_headline(tok_s: float, running: int, waiting: int, paused: bool) -> str:
    """The finding: what the engine gives to how many, and who waits."""
    if paused:
        return f"Paused: {plural(running + waiting, 'request')} in it, nothing is computed."
    if not running and not waiting:
        return "Nothing runs. Send a prompt, or raise the arrivals."
    waits = "nobody waits" if not waiting else f"{plural(waiting, 'request')} wait for a slot"
    if waiting == 1:
        waits = "1 request waits for a slot"
    return f"{number3(tok_s)} tokens/s for {plural(running, 'request')}; {waits}."


def engine_status(age_s: float | None, running: int, paused: bool) -> str:
    """How the engine is, beside its name."""
    if paused:
        return "engine paused"
    if age_s is None:
        return "engine idle, no step yet"
    if not running and age_s > 0.5:
        return f"engine idle for {seconds(age_s)}"
    return f"engine running, last step {seconds(age_s)} ago"


def figures_of(known: KnownRequest | None) -> str:
    """TTFT, the wait for a slot, tokens and blocks so far: what is known by now."""
    if known is None:
        return ""
    parts = [
        f"{name} {seconds(since)}"
        for name, event in (("TTFT", "token"), ("waited", "admit"))
        if (since := known.since_arrival(event)) is not None
    ]
    if known.num_tokens:
        parts.append(plural(known.num_tokens, "token"))
    if known.blocks:
        parts.append(plural(known.blocks, "KV block"))
    return " · ".join(parts) or known.ended or "queued"


MADE_UP = "This engine is simulated: its tokens are numbers and mean nothing."
NOBODY = "Click a row of the timeline: what was asked and what comes out stand here."


@dataclass(frozen=True, slots=True)
class Saying:
    """A request's text so far: up to its newest token, and that token."""

    text: str = ""
    token: str = ""


def request_card(
    known: KnownRequest | None, saying: Saying, simulated: bool, question: str = "", error: str = ""
) -> str:
    """The request that is pointed at: its prompt, its text as it comes, its figures.

    question: the prompt where it is one's own, in full; the trace has its beginning alone.
    """
    if known is None:
        return f'<div class="mld-words"><h2>One request</h2><p class="mld-quiet">{NOBODY}</p></div>'
    most = f" of at most {known.max_tokens:,}" if known.max_tokens else ""
    title = f"Request {chip(known.req)}"
    count = plural(known.num_tokens, "token") + most
    begun = f"{known.prompt} …" if len(known.prompt) >= PREVIEW else known.prompt
    asked = shortened(question or begun) or _unread(known)
    gap = "… " if known.before else ""
    token = f'<span class="mld-token">{escape(saying.token)}</span>' if saying.token else ""
    over = f", {known.ended}" if known.ended else ""
    made_up = f'<p class="mld-quiet">{MADE_UP}</p>' if simulated else ""
    bad = f'<p class="mld-bad">{escape(error)}</p>' if error else ""
    return (
        f'<div class="mld-words mld-request"><h2>{title} <span>{count}{over}</span></h2>'
        f'<p class="mld-asked">{escape(asked)}</p>'
        f"{_scrolled(gap + escape(saying.text) + token)}{bad}{made_up}"
        f'<p class="mld-quiet">{escape(figures_of(known))}</p></div>'
    )


def _scrolled(text: str) -> str:
    """Text in a box that shows its end, also when it is set anew."""
    return f'<div class="mld-scroll" tabindex="0"><p class="mld-said">{text}</p></div>'


def _unread(known: KnownRequest) -> str:
    length = "" if known.prompt_len is None else f"A prompt of {plural(known.prompt_len, 'token')}"
    return f"{length or 'A prompt'}, not shown."


def answers(exchanges: Sequence[Exchange], requests: Requests, pointed: int | None) -> str:
    """One's own prompts with their letters, texts and figures, the newest first.

    pointed: the request that has a card of its own above.
    """
    parts = []
    for each in exchanges:
        known = requests.named(each.request_id)
        if known is not None and known.req == pointed:
            continue
        mark = "" if known is None else chip(known.req)
        cursor = "" if each.over else " ▍"
        error = f'<p class="mld-bad">{escape(each.error)}</p>' if each.error else ""
        parts.append(
            f'<div class="mld-answer"><p>{mark}<b>{escape(shortened(each.question))}</b></p>'
            f"{_scrolled(escape(each.text) + cursor)}{error}"
            f'<p class="mld-quiet">{escape(figures_of(known))}</p></div>'
        )
    title = "Your other prompts" if len(parts) < len(exchanges) else "Your prompts"
    return f'<div class="mld-words"><h2>{title}</h2>{"".join(parts)}</div>' if parts else ""


def chip(req: int) -> str:
    """A request's letter as the figures have it."""
    return f'<span class="mld-letter">{letter(req)}</span>'


def shortened(text: str, most: int = 160) -> str:
    return text if len(text) <= most else f"{text[: most - 10]} …"


def origin(state: Mapping[str, Any]) -> dict[str, str]:
    """Where the figures come from, from what the server says of itself."""
    if not state:
        return {}
    return {
        "provenance": state["provenance"],
        "where": f"{state['device']}, {state['model']}",
    }
