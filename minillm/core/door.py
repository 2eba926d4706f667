"""What is refused before it costs anything: prompts that can never be served."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from minillm.core.block_pool import pack
from minillm.core.config import EngineConfig

MAX_IDS = 2**64  # ids are hashed as 8 bytes each


def check_prompt(token_ids: Sequence[int], vocab_size: int | None) -> None:
    """Raise ValueError for an empty prompt or an id outside the vocabulary (None: any ≥ 0)."""
    if not token_ids:
        raise ValueError("The prompt is empty: it needs at least 1 token.")
    limit = MAX_IDS if vocab_size is None else vocab_size
    try:
        pack(token_ids)  # the quickest test of them all
        if limit == MAX_IDS or max(token_ids) < limit:
            return
    except struct.error:
        pass
    for token_id in token_ids:
        if not (isinstance(token_id, int) and 0 <= token_id < limit):
            known = f"0 to {vocab_size - 1}" if vocab_size else "integers ≥ 0"
            raise ValueError(f"Token id {token_id!r} is not in the vocabulary ({known}).")


def too_long(num_prompt_tokens: int, config: EngineConfig) -> str:
    """Why a prompt of that many tokens can never be served: all the numbers in one sentence."""
    cache = config.cache
    return (
        f"The prompt has {num_prompt_tokens} tokens and needs room for 1 more, but a request can "
        f"have {config.max_len} tokens in all (max_model_len {config.scheduler.max_model_len}, KV "
        f"cache {cache.num_blocks} blocks × {cache.block_size} = {cache.num_tokens})."
    )
