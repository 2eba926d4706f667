"""What a request turns into: a stream of text, and in the end a Completion.

Text leaves out special tokens and is cut where a stop string begins; token ids are complete, and
usage is counted from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from minillm.core import FinishReason, LLMEngine, Request, RequestOutput

Message = Mapping[str, str]
Prompt = str | Sequence[int] | Sequence[Message]  # text, token ids, or a chat


def is_one_prompt(prompts: Any) -> bool:
    """Whether this is a text, a list of ids or a chat, and not a list of those."""
    return isinstance(prompts, str) or (
        bool(prompts) and all(isinstance(part, (int, Mapping)) for part in prompts)
    )


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished request. finish_reason: stop, length, abort or error (then `error` says why).

    logprobs: for each output token its {token id: natural log probability}; None if not asked.
    """

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_token_ids: tuple[int, ...]
    logprobs: tuple[dict[int, float], ...] | None = None
    error: str | None = None


class Detokenizer(Protocol):
    """Ids in, text out as soon as it is certain; `finish` gives what is still held."""

    def push(self, token_id: int) -> str: ...

    def finish(self) -> str: ...


class TextStream:
    """The text of one request while it is computed: an iterator of deltas.

    Asking for the next delta runs the engine; other requests of the same engine run along.
    `close()` (and dropping the stream) aborts the request and frees its blocks.
    """

    def __init__(
        self,
        engine: LLMEngine,
        request: Request,
        detokenizer: Detokenizer,
        advance: Callable[[], None],
    ) -> None:
        self.request = request
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self._engine = engine
        self._detokenizer = detokenizer
        self._advance = advance
        self._stop = _stop_checker(request.params.stop)
        self._logprobs: list[dict[int, float]] = []
        self._error: str | None = None
        self._text: list[str] = []
        self._given = 0  # pieces of _text that the iterator has handed out

    @property
    def finished(self) -> bool:
        return self.finish_reason is not None

    @property
    def completion(self) -> Completion:
        """What there is; RuntimeError before the request has finished."""
        if self.finish_reason is None:
            raise RuntimeError(f"{self.request.request_id} is not finished yet.")
        return Completion(
            self.request.request_id, "".join(self._text), tuple(self.token_ids),
            self.finish_reason, self.request.prompt_token_ids,
            None if self.request.params.logprobs is None else tuple(self._logprobs), self._error,
        )  # fmt: skip

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        while not self.finished and self._given == len(self._text):
            self._advance()
        if self._given == len(self._text):
            raise StopIteration
        return self.drain()

    def drain(self) -> str:
        """The text that came since the last call or delta, without running the engine."""
        delta = "".join(self._text[self._given :])
        self._given = len(self._text)
        return delta

    def close(self) -> None:
        """Abort the request unless it is finished. Twice is fine."""
        if not self.finished:
            self.finish_reason = FinishReason.ABORT
            self._engine.abort(self.request.request_id)

    def __enter__(self) -> TextStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def take(self, output: RequestOutput) -> None:
        """Take in what one step gave the request."""
        if self.finished:
            return
        if output.logprobs is not None:
            self._logprobs.append(output.logprobs)
        for token_id in output.new_token_ids:
            self.token_ids.append(token_id)
            if self._put(self._detokenizer.push(token_id)):
                # The engine knows tokens only: it's told when the text has ended.
                self._engine.finish(self.request.request_id, FinishReason.STOP)
                self.finish_reason = FinishReason.STOP
                return
        if output.finish_reason is None:
            return
        stopped = self._put(self._detokenizer.finish())
        if self._stop is not None and not stopped:
            self._append(self._stop.flush())
        self.finish_reason = FinishReason.STOP if stopped else output.finish_reason
        self._error = output.error

    def _put(self, delta: str) -> bool:
        """Let text out; True when a stop string ended it. Before min_tokens none is looked for."""
        if self._stop is None or len(self.token_ids) <= self.request.params.min_tokens:
            self._append(delta)
            return False
        text, stopped = self._stop.push(delta)
        self._append(text)
        return stopped

    def _append(self, text: str) -> None:
        if text:
            self._text.append(text)


def _stop_checker(stop: Sequence[str]):
    """None without stop strings, so that a simulated LLM needs no tokenizer library."""
    if not stop:
        return None
    from minillm.model.tokenizer import StopChecker

    return StopChecker(stop)
