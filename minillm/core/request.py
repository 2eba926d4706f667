"""A request from arrival to its last token, and what the engine hands out about it."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from minillm.core.block_pool import Block
from minillm.core.sampling_params import SamplingParams


class RequestStatus(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"  # back in the waiting queue; its KV will be recomputed
    FINISHED = "finished"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


class Request:
    """One sequence: its tokens, and how many of them have their KV computed.

    `num_computed_tokens` catches up with `num_tokens`. That one idea covers prefill, chunked
    prefill, decode, prefix hits and recompute after preemption (vLLM V1).
    Scheduler and engine alone change it; a student's scheduler reads it.
    """

    __slots__ = (  # noqa: RUF023 (in the order of __init__)
        "request_id", "index", "prompt_token_ids", "token_ids",
        "num_prompt_tokens", "num_tokens", "num_computed_tokens", "num_cached_tokens",
        "num_preemptions", "params", "stop_ids", "max_tokens", "status", "finish_reason", "error",
        "arrival_time", "deadline", "priority", "cache_salt", "nickname",
        "blocks", "block_ids", "num_slots", "num_cached_blocks", "block_hashes",
        "block_contents",
    )  # fmt: skip

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: list[int] | tuple[int, ...],
        params: SamplingParams,
        *,
        index: int = 0,
        arrival_time: float = 0.0,
        max_tokens: int | None = None,
        stop_ids: frozenset[int] = frozenset(),
        deadline: float | None = None,
        priority: int = 0,
        cache_salt: str | None = None,
        nickname: str | None = None,
    ) -> None:
        self.request_id = request_id
        self.index = index  # small int, the order of arrival: the row in traces and pictures
        self.prompt_token_ids = tuple(prompt_token_ids)
        self.token_ids: list[int] = list(prompt_token_ids)  # prompt and output, one list
        self.num_prompt_tokens = len(self.prompt_token_ids)
        self.num_tokens = self.num_prompt_tokens
        self.num_computed_tokens = 0
        self.num_cached_tokens = 0  # prompt tokens whose KV the prefix cache held at admission
        self.num_preemptions = 0
        self.params = params
        self.stop_ids = stop_ids  # EOS ids and stop_token_ids, united
        self.max_tokens = params.max_tokens if max_tokens is None else max_tokens
        self.status = RequestStatus.WAITING
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self.arrival_time = arrival_time
        self.deadline = deadline
        self.priority = priority
        self.cache_salt = cache_salt
        self.nickname = nickname
        # Its block table; the KV-cache manager alone changes it.
        self.blocks: list[Block] = []
        self.block_ids: tuple[int, ...] = ()  # the same as ids, made anew when a block joins
        self.num_slots = 0  # tokens that the blocks can hold
        self.num_cached_blocks = 0  # leading blocks already offered to the prefix cache
        self.block_hashes: list[bytes] = []  # of its full blocks, grown when first needed …
        self.block_contents: list[bytes] = []  # … and their packed token ids

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id!r}, {self.status.value}, "
            f"{self.num_computed_tokens}/{self.num_tokens} tokens computed, "
            f"{self.num_output_tokens}/{self.max_tokens} out)"
        )

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def num_remaining(self) -> int:
        """Tokens still to compute before the next one can be sampled: 1 means decode-ready."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_decode(self) -> bool:
        """Caught up but for the last sampled token: one row of one token yields the next."""
        return self.num_tokens - self.num_computed_tokens == 1 and self.num_computed_tokens > 0

    @property
    def is_finished(self) -> bool:
        return self.status is RequestStatus.FINISHED


class RequestOutput(NamedTuple):
    """What one step gave one request: new token ids, and on the last one why it ended."""

    request_id: str
    index: int
    new_token_ids: tuple[int, ...] = ()
    finish_reason: FinishReason | None = None
    error: str | None = None
    logprobs: dict[int, float] | None = None  # token id → natural log probability

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None
