"""How one request wants its tokens chosen. Every value is checked here, before anything runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_LOGPROBS = 20
GREEDY_BELOW = 1e-5  # a smaller temperature would overflow the logits: it means greedy


def _number(name: str, value: object, low: float, high: float, low_open: bool = False) -> None:
    """Refuse what is not a finite number in [low, high] (or (low, high] with low_open)."""
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < low or value > high or (low_open and value == low):
        bracket = "(" if low_open else "["
        raise ValueError(f"{name} must be a number in {bracket}{low:g}, {high:g}], got {value!r}.")


def _integer(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse what is not an int in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be an integer ≥ {low}, got {value!r}.")
    if high is not None and value > high:
        raise ValueError(f"{name} must be at most {high}, got {value}.")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling settings of one request (names and ranges as in vLLM).

    max_tokens: output tokens at most. temperature: 0 is greedy. top_k: 0 or −1 is off.
    seed: with a seed, the token at a position depends on (seed, position) alone.
    stop: strings that end the text where they begin. stop_token_ids: ids that end the output.
    ignore_eos: run to max_tokens. min_tokens: no stop before that many. logprobs: top-k or None.
    Raises ValueError, in one sentence, for any value out of range.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    min_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        _integer("max_tokens", self.max_tokens, 1)
        _number("temperature", self.temperature, 0.0, 2.0)
        _integer("top_k", self.top_k, -1)
        _number("top_p", self.top_p, 0.0, 1.0, low_open=True)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 10.0, low_open=True)
        _integer("min_tokens", self.min_tokens, 0)
        if self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})."
            )
        if self.seed is not None:
            _integer("seed", self.seed, 0, 2**63 - 1)
        if self.logprobs is not None:
            _integer("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        if not all(isinstance(s, str) and s for s in stop):
            raise ValueError(f"stop must hold non-empty strings, got {self.stop!r}.")
        object.__setattr__(self, "stop", stop)
        for token_id in self.stop_token_ids:
            _integer("each of stop_token_ids", token_id, 0)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        if self.temperature < GREEDY_BELOW:
            object.__setattr__(self, "temperature", 0.0)

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0.0
