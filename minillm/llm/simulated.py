"""Text for a simulated LLM: a prompt keeps its length and its sameness, and has no meaning."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from minillm.llm.text import Message


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
