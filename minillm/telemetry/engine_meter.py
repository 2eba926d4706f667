"""What the engine knows of itself: how much of the time it computes, and at what bandwidth.

The figures of a machine without counters, from the steps alone: no driver, no permission needed.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from minillm.telemetry.fields import Field, Reading

ENGINE_FIELDS = {
    "duty": Field("Engine duty cycle", "%", "share of wall time in which a step ran"),
    "bandwidth": Field(
        "Achieved memory bandwidth", "B/s",
        "weights and KV that the steps must read, a second; other traffic is not counted",
    ),
    "output_rate": Field("Output tokens", "tok/s", "of all requests together"),
}  # fmt: skip


class _Step(NamedTuple):
    t_start: float
    t_end: float
    num_bytes: float
    tokens: int


class EngineMeter:
    """Figures over the last `window_s` seconds of steps that are added in order.

    weight_bytes: read once a step. kv_token_bytes: KV of one token of context, read for each row.
    None, where they are not known, leaves the bandwidth out.
    """

    def __init__(
        self,
        window_s: float = 0.5,
        weight_bytes: float | None = None,
        kv_token_bytes: float | None = None,
    ) -> None:
        if not window_s > 0:
            raise ValueError(f"window_s must be above 0, got {window_s!r}.")
        self.window_s = window_s
        self.weight_bytes, self.kv_token_bytes = weight_bytes, kv_token_bytes
        self._steps: deque[_Step] = deque()
        self._first: float | None = None
        self._busy = self._bytes = 0.0
        self._tokens = 0

    def add(self, t_start: float, t_end: float, context: int, tokens: int) -> None:
        """One step. context: tokens of KV that it read, all rows; tokens: those it gave."""
        if self._first is None:
            self._first = t_start
        num_bytes = (self.weight_bytes or 0.0) + (self.kv_token_bytes or 0.0) * context
        self._steps.append(_Step(t_start, t_end, num_bytes, tokens))
        self._busy += t_end - t_start
        self._bytes += num_bytes
        self._tokens += tokens

    def read(self, now: float) -> Reading:
        """ENGINE_FIELDS over the window that ends at `now`, seconds on the steps' clock."""
        start = now - self.window_s
        while self._steps and self._steps[0].t_end <= start:
            old = self._steps.popleft()
            self._busy -= old.t_end - old.t_start
            self._bytes -= old.num_bytes
            self._tokens -= old.tokens
        if self._first is None or now <= self._first:
            return Reading(missing=dict.fromkeys(ENGINE_FIELDS, "no step has run yet"))
        span = min(self.window_s, now - self._first)
        busy, num_bytes, tokens = self._busy, self._bytes, float(self._tokens)
        if self._steps and (cut := start - self._steps[0].t_start) > 0:  # only its end is inside
            first = self._steps[0]
            share = cut / (first.t_end - first.t_start)
            busy, num_bytes = busy - cut, num_bytes - share * first.num_bytes
            # Its tokens came at its end, so they all count.
        reading = Reading()
        reading.put("duty", min(max(100 * busy / span, 0.0), 100.0))
        reading.put("output_rate", max(tokens, 0.0) / span)
        if self.weight_bytes is None:
            reading.missing["bandwidth"] = "the model's size in bytes is not known"
        else:
            reading.put("bandwidth", max(num_bytes, 0.0) / span)
        return reading
