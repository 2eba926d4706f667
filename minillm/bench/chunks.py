"""What one event of an OpenAI-compatible stream says: output or not, usage, the end, an error.

Completions and chat alike. Reasoning text and tool calls are output too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

TEXT_KEYS = ("content", "reasoning_content", "reasoning")


class StreamError(Exception):
    """The stream can't be used: `kind` is what it's counted as."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Chunk:
    """has_output: at least one token came. is_empty: it shows no text."""

    has_output: bool = False
    is_empty: bool = False
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None


def read_chunk(data: str) -> Chunk:
    """One event's data, but not `[DONE]`. Raises StreamError for an error event or nonsense."""
    try:
        event = json.loads(data)
    except ValueError:
        raise StreamError("malformed stream", f"no JSON in an event: {data[:80]!r}") from None
    if not isinstance(event, dict):
        raise StreamError("malformed stream", f"an event is no object: {data[:80]!r}")
    if event.get("error"):
        raise StreamError("error event", error_message(event))
    choices = event.get("choices") or []
    if not (isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices)):
        raise StreamError("malformed stream", f"choices are no list of objects: {data[:80]!r}")
    usage = event.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    texts = [text for choice in choices for text in _texts(choice)]
    reasons = [c["finish_reason"] for c in choices if isinstance(c.get("finish_reason"), str)]
    return Chunk(
        bool(texts), not any(texts), reasons[-1] if reasons else None,
        _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")),
    )  # fmt: skip


def _texts(choice: dict[str, Any]) -> list[str]:
    """The pieces of output in a choice; "" is one unless it comes with the role."""
    if isinstance(choice.get("text"), str):
        return [choice["text"]]
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return []
    texts = [delta[key] for key in TEXT_KEYS if isinstance(delta.get(key), str)]
    if delta.get("tool_calls"):
        texts.append(str(delta["tool_calls"]))
    return [text for text in texts if text or "role" not in delta]


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def error_message(body: Any) -> str:
    """The message of an error object in any of the usual forms, in one line of at most 300."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return " ".join(str(error).split())[:300]
