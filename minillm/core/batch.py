"""What passes between scheduler and runner, once a step. Immutable; units are tokens.

NamedTuples, not frozen dataclasses: a step makes many, and those take four times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minillm.core.request import Request


class ScheduledRow(NamedTuple):
    """One sequence's part of a step.

    start: equals request.num_computed_tokens, the context that already has KV.
    num_tokens: tokens [start, start + num_tokens) of the request to compute; 0 in a dead row.
    num_padding: padding tokens besides, computed and thrown away; their KV is not written.
    samples: whether the row yields a token: exactly when it catches up with num_tokens.
    block_ids: the request's whole block table, block i holding tokens [i·size, (i+1)·size).
    is_dead: a finished request that a static or dynamic batch still carries: one padding token.
    """

    request: Request
    start: int
    num_tokens: int
    num_padding: int
    samples: bool
    block_ids: tuple[int, ...]
    is_dead: bool = False


class SchedulerOutput(NamedTuple):
    """One step's plan: the rows to compute, who was preempted, who has finished since."""

    step_id: int
    rows: list[ScheduledRow]
    preempted_ids: tuple[str, ...] = ()
    finished_ids: tuple[str, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Real tokens in the step (what the token budget counts)."""
        return sum([row.num_tokens for row in self.rows])

    @property
    def num_padding(self) -> int:
        return sum(row.num_padding for row in self.rows)


class StepResult(NamedTuple):
    """What a runner gives back: one token for each row that samples.

    duration_s None: the engine measures with its clock. terms: the step's time opened into parts.
    logprobs: request id → {token id: natural log probability}, where asked for.
    """

    token_ids: dict[str, int]
    duration_s: float | None = None
    terms: dict[str, float] | None = None
    logprobs: Mapping[str, dict[int, float]] | None = None
    graph_pad_rows: int = 0
