"""What the live page says of the engine: its sentences and what they are computed from."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

from minillm.core.trace import Record, RequestEvent, StepRecord
from widgets.frames import letter
from widgets.headline import number3, plural, seconds

WINDOW_S = 2.0
REMEMBERED = 4096  # requests whose figures are kept


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


class OwnRequests:
    """What became of one's own requests, by the ids that the trace has for them."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._times: dict[int, dict[str, float]] = {}
        self._tokens: dict[int, int] = {}

    def take(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, StepRecord):
                self._step(record)
            else:
                self._event(record)

    def _event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            self._index[event.id] = event.req
            self._times[event.req] = {"arrive": event.t}
            if len(self._index) > REMEMBERED:
                gone = self._index.pop(next(iter(self._index)))
                self._times.pop(gone, None)
                self._tokens.pop(gone, None)
        elif event.req in self._times:
            self._times[event.req].setdefault(event.event, event.t)

    def _step(self, step: StepRecord) -> None:
        for row in step.raw_rows:
            if row[5] is not None and row[0] in self._times:
                self._times[row[0]].setdefault("token", step.t_end)
                self._tokens[row[0]] = self._tokens.get(row[0], 0) + 1

    def find(self, request_id: str) -> int | None:
        """The request's index in the trace; None while the trace has not told of it."""
        return self._index.get(request_id)

    def figures(self, request_id: str) -> str:
        """TTFT, the wait for a slot, tokens so far: what is known by now."""
        req = self.find(request_id)
        if req is None:
            return ""
        times, parts = self._times[req], []
        for name, event in (("TTFT", "token"), ("waited", "admit")):
            if event in times:
                parts.append(f"{name} {seconds(times[event] - times['arrive'])}")
        if req in self._tokens:
            parts.append(plural(self._tokens[req], "token"))
        return " · ".join(parts) or "queued"


MADE_UP = "This engine is simulated: its tokens are numbers and mean nothing."


def answers(exchanges: Iterable[Any], own: OwnRequests, simulated: bool = False) -> str:
    """One's own prompts with their letters, texts and figures, the newest first."""
    parts = [f'<p class="mld-quiet">{MADE_UP}</p>'] if simulated and exchanges else []
    for each in exchanges:
        req = own.find(each.request_id)
        mark = "" if req is None else f'<span class="mld-letter">{letter(req)}</span>'
        asked = each.question if len(each.question) <= 160 else f"{each.question[:150]} …"
        cursor = "" if each.over else " ▍"
        error = f'<p class="mld-bad">{escape(each.error)}</p>' if each.error else ""
        parts.append(
            f'<div class="mld-answer"><p>{mark}<b>{escape(asked)}</b></p>'
            f'<p class="mld-said" tabindex="0">{escape(each.text)}{cursor}</p>{error}'
            f'<p class="mld-quiet">{escape(own.figures(each.request_id))}</p></div>'
        )
    shown = "".join(parts) or '<p class="mld-quiet">What you send appears here, as it comes.</p>'
    return f'<div class="mld-words"><h2>Your prompts</h2>{shown}</div>'


def origin(state: Mapping[str, Any]) -> dict[str, str]:
    """Where the figures come from, from what the server says of itself."""
    if not state:
        return {}
    return {
        "provenance": state["provenance"],
        "where": f"{state['device']}, {state['model']}",
    }
