"""What an LLM's settings mean before any model is there."""

from __future__ import annotations

from typing import Any

from minillm.core import Scheduler, SchedulerConfig, config

Policy = str | type[Scheduler]

CPU_BUDGET, GPU_BUDGET = 512, 2048  # tokens in one step, unless told


def check_policy(policy: Policy) -> None:
    """Raise ValueError unless this is a policy's name or a Scheduler of one's own."""
    if not (isinstance(policy, type) and issubclass(policy, Scheduler)):
        config.check_policy(policy)


def scheduler_config(default_budget: int, **settings: Any) -> SchedulerConfig:
    """The limits; a budget that is not given holds a whole prompt where chunking is off."""
    if settings["max_num_batched_tokens"] is None:
        whole = 0 if settings["enable_chunked_prefill"] else settings["max_model_len"]
        settings["max_num_batched_tokens"] = max(default_budget, whole)
    return SchedulerConfig(**settings)
