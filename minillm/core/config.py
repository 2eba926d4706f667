"""What an engine is built from: frozen, validated, with errors in full sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

POLICIES = ("static", "dynamic", "continuous")
QUEUE_ORDERS = ("fcfs", "priority")


def _at_least(name: str, value: object, low: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise ValueError(f"{name} must be an integer ≥ {low}, got {value!r}.")


def _seconds(name: str, value: object) -> None:
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < 0:
        raise ValueError(f"{name} must be a number of seconds ≥ 0, got {value!r}.")


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The paged KV cache: `num_blocks` blocks for requests, of `block_size` tokens each."""

    num_blocks: int
    block_size: int = 16
    enable_prefix_caching: bool = True

    def __post_init__(self) -> None:
        _at_least("num_blocks", self.num_blocks, 1)
        _at_least("block_size", self.block_size, 1)

    @property
    def num_tokens(self) -> int:
        """Tokens that the whole pool holds."""
        return self.num_blocks * self.block_size


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The limits that a scheduler works under (vLLM's names; times in seconds).

    All: max_num_seqs (sequences in one step; the batch size of static and dynamic),
    scheduling_policy (order of the queue: fcfs or priority, lower value first), max_queue_size.
    continuous: max_num_batched_tokens (the token budget of one step), enable_chunked_prefill,
    long_prefill_token_threshold (0: off), prefill_first (the stall, for the lesson).
    static: max_wait_s (None: wait until the batch is full or the input is closed).
    dynamic: preferred_batch_sizes, max_queue_delay_s.
    """

    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    max_model_len: int = 8192
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    scheduling_policy: str = "fcfs"
    prefill_first: bool = False
    max_wait_s: float | None = None
    preferred_batch_sizes: tuple[int, ...] = ()
    max_queue_delay_s: float = 0.05
    max_queue_size: int | None = None

    def __post_init__(self) -> None:
        _at_least("max_num_seqs", self.max_num_seqs, 1)
        _at_least("max_num_batched_tokens", self.max_num_batched_tokens, 1)
        _at_least("max_model_len", self.max_model_len, 2)
        _at_least("long_prefill_token_threshold", self.long_prefill_token_threshold, 0)
        if self.scheduling_policy not in QUEUE_ORDERS:
            got = self.scheduling_policy
            raise ValueError(f"scheduling_policy must be fcfs or priority, got {got!r}.")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least "
                f"max_num_seqs ({self.max_num_seqs}): each running sequence needs one token a step."
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError(
                f"With chunked prefill off, max_num_batched_tokens "
                f"({self.max_num_batched_tokens}) must be at least max_model_len "
                f"({self.max_model_len}): a prompt has to fit into one step whole."
            )
        if self.max_wait_s is not None:
            _seconds("max_wait_s", self.max_wait_s)
        _seconds("max_queue_delay_s", self.max_queue_delay_s)
        if self.max_queue_size is not None:
            _at_least("max_queue_size", self.max_queue_size, 1)
        sizes = tuple(sorted(set(self.preferred_batch_sizes)))
        for size in sizes:
            _at_least("each preferred batch size", size, 1)
            if size > self.max_num_seqs:
                raise ValueError(
                    f"The preferred batch size {size} is larger than max_num_seqs "
                    f"({self.max_num_seqs})."
                )
        object.__setattr__(self, "preferred_batch_sizes", sizes)


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """A scheduler by name, its limits, its cache, and the ids that end an output."""

    cache: CacheConfig
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    policy: str = "continuous"
    eos_token_ids: frozenset[int] = frozenset()
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        check_policy(self.policy)
        object.__setattr__(self, "eos_token_ids", frozenset(self.eos_token_ids))

    @property
    def max_len(self) -> int:
        """L: the most tokens, prompt and output together, that one request can have."""
        return min(self.scheduler.max_model_len, self.cache.num_tokens)


def check_policy(name: object) -> None:
    """Raise ValueError unless `name` is one of the batching policies."""
    if name not in POLICIES:
        raise ValueError(f"Unknown policy {name!r}: choose one of {', '.join(POLICIES)}.")
