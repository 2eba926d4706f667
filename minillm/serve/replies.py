"""What a client gets: OpenAI's objects, whole or as the frames of a stream.

Each token gets a frame of its own, be its text empty (inside a character, or held back as the
possible head of a stop string): a client that counts frames counts tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from minillm.serve.errors import dump
from minillm.serve.job import Answer, Chunk, Job

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
TokenText = Callable[[int], str]


def frame(data: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + dump(data) + b"\n\n"


def usage(job: Job, completion_tokens: int) -> dict[str, Any]:
    """Counted from ids, never from text."""
    prompt_tokens = sum(len(prompt.token_ids) for prompt in job.prompts)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": job.cached_tokens},
    }


class Replies:
    """The objects of one API call. chunk_object: the `object` of a stream's frames."""

    object = chunk_object = "text_completion"
    prefix = "cmpl-"

    def __init__(self, job: Job, model: str, token_text: TokenText, top_logprobs: int | None):
        self.job, self.model = job, model
        self.token_text, self.top_logprobs = token_text, top_logprobs
        self.created = int(time.time())
        # Characters of the tokens told so far, by choice: where the next token begins. As in vLLM
        # the completion's text is counted, by the tokens' own texts.
        self._told: dict[int, int] = {}

    def whole(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """The answer of a call without stream."""
        choices = [self._choice(index, answer) for index, answer in enumerate(answers)]
        count = sum(len(answer.token_ids) for answer in answers)
        return {**self._head(self.object), "choices": choices, "usage": usage(self.job, count)}

    def opening(self) -> list[dict[str, Any]]:
        """The choices of the frames before the first token."""
        return []

    def delta(self, chunk: Chunk) -> dict[str, Any]:
        """One choice of a frame."""
        return {
            "index": chunk.index,
            "text": chunk.text,
            "logprobs": self._logprobs(chunk.index, chunk.token_ids, chunk.logprobs),
            "finish_reason": _reason(chunk),
        }

    def streamed(self, choices: list[dict[str, Any]], extra: dict[str, Any]) -> bytes:
        """A frame with these choices."""
        return frame({**self._head(self.chunk_object), "choices": choices, **extra})

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.job.job_id, "object": kind, "created": self.created, "model": self.model,
        }  # fmt: skip

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        return {
            "index": index,
            "text": "".join(answer.text),
            "logprobs": self._logprobs(index, answer.token_ids, answer.logprobs),
            "finish_reason": str(answer.finish_reason),
        }

    def _logprobs(self, index: int, ids: Sequence[int], logprobs: Sequence[dict] | None) -> Any:
        if self.top_logprobs is None or not logprobs:
            return None
        texts = [self.token_text(token) for token in ids]
        offsets = list(accumulate(map(len, texts), initial=self._told.get(index, 0)))
        self._told[index] = offsets.pop()
        return {
            "tokens": texts,
            "token_logprobs": [values[t] for t, values in zip(ids, logprobs, strict=True)],
            "top_logprobs": [
                {self.token_text(t): value for t, value in self._top(values)} for values in logprobs
            ],
            "text_offset": offsets,
        }

    def _top(self, values: dict[int, float]) -> list[tuple[int, float]]:
        ordered = sorted(values.items(), key=lambda item: -item[1])
        return ordered[: self.top_logprobs]


class ChatReplies(Replies):
    """The same for a chat: messages and deltas; the first delta carries the role alone."""

    object, chunk_object = "chat.completion", "chat.completion.chunk"
    prefix = "chatcmpl-"

    def opening(self) -> list[dict[str, Any]]:
        delta = {"role": "assistant", "content": ""}
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]

    def delta(self, chunk: Chunk) -> dict[str, Any]:
        return {
            "index": chunk.index,
            "delta": {"content": chunk.text},
            "logprobs": self._logprobs(chunk.index, chunk.token_ids, chunk.logprobs),
            "finish_reason": _reason(chunk),
        }

    def _choice(self, index: int, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(answer.text)}
        return {
            "index": index,
            "message": message,
            "logprobs": self._logprobs(index, answer.token_ids, answer.logprobs),
            "finish_reason": str(answer.finish_reason),
        }

    def _logprobs(self, index: int, ids: Sequence[int], logprobs: Sequence[dict] | None) -> Any:
        if self.top_logprobs is None or not logprobs:
            return None
        content = [
            {
                **self._token(token, values[token]),
                "top_logprobs": [self._token(*item) for item in self._top(values)],
            }
            for token, values in zip(ids, logprobs, strict=True)
        ]
        return {"content": content}

    def _token(self, token: int, logprob: float) -> dict[str, Any]:
        text = self.token_text(token)
        return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _reason(chunk: Chunk) -> str | None:
    return None if chunk.finish_reason is None else str(chunk.finish_reason)
