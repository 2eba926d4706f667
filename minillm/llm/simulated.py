"""Text for a simulated LLM: a prompt keeps its length and its sameness, and has no meaning."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from minillm.core import CacheConfig, Runner
from minillm.llm.text import Message

if TYPE_CHECKING:
    from minillm.sim import SimulatedRunner


class PseudoTokenizer:
    """Stands in where no model is: about 4 characters a token, the same ids for the same text.

    Its ids mean nothing, and neither does the text of made-up output ids: "‹17›".
    """

    characters_per_token = 4  # what English takes with common tokenizers, roughly
    chat_template = None

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, text: str) -> list[int]:
        size = self.characters_per_token
        pieces = (text[i : i + size] for i in range(0, len(text), size))
        return [3 + zlib.crc32(piece.encode()) % (self.vocab_size - 3) for piece in pieces]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(f"‹{token_id}›" for token_id in ids)

    def apply_chat_template(self, messages: Sequence[Message]) -> list[int]:
        return self.encode("\n".join(f"{m['role']}: {m['content']}" for m in messages))


class PseudoDetokenizer:
    """The incremental form of PseudoTokenizer.decode."""

    def __init__(self, tokenizer: PseudoTokenizer) -> None:
        self._tokenizer = tokenizer

    def push(self, token_id: int) -> str:
        return self._tokenizer.decode([token_id])

    def finish(self) -> str:
        return ""


def on_another_gpu(runner: Runner, gpu: str, cache: CacheConfig) -> SimulatedRunner:
    """A simulated model on another GPU, which has to hold the weights and that cache.

    Raises ValueError, in one sentence, where it does not, and for a runner that is a real device.
    """
    from minillm.sim import SimulatedRunner

    if not isinstance(runner, SimulatedRunner):
        raise ValueError(
            f"The model runs on {runner.info.device}: only a simulated GPU can become another one."
        )
    other = runner.on_gpu(gpu)
    room = other.cache_config(block_size=cache.block_size).num_blocks
    if room < cache.num_blocks:
        raise ValueError(
            f"{other.info.device} has room for {room:,} KV blocks beside {other.info.model}, "
            f"but {cache.num_blocks:,} are in use here."
        )
    return other
