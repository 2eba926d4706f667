"""A job: one API call, its prompts as engine requests, and one bounded way back for their tokens.

The engine thread gives chunks to the event loop, which `put`s them here; the handler iterates.
A reader that falls behind gets later chunks merged into the last one that waits for it, so that
nothing is lost and no queue grows; one that is gone calls `close`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from minillm.core import FinishReason, Request, RequestStatus, SamplingParams

MAX_CHUNKS = 64  # waiting for the reader, for each prompt of the job
SILENCE = -1


@dataclass(slots=True)
class Chunk:
    """What one step gave one prompt of a job. logprobs: per token, {token id: natural log}."""

    index: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[dict[int, float], ...] | None = None
    finish_reason: FinishReason | None = None
    error: str | None = None

    def merge(self, later: Chunk) -> None:
        """Take in the chunk that follows this one."""
        self.text += later.text
        self.token_ids += later.token_ids
        if later.logprobs is not None:
            self.logprobs = (self.logprobs or ()) + later.logprobs
        self.finish_reason, self.error = later.finish_reason, later.error


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one engine request is made of."""

    token_ids: list[int]
    params: SamplingParams
    preview: str = ""


class Job:
    """See the module's docstring. Made and read on the event loop; arrival in engine seconds.

    limit: how many requests of this nickname may be in flight; None: any number.
    requests: filled in by the engine thread when it takes the job in; None until then.
    """

    def __init__(
        self,
        job_id: str,
        prompts: Sequence[Prompt],
        *,
        arrival: float = 0.0,
        priority: int = 0,
        cache_salt: str | None = None,
        nickname: str | None = None,
        deadline_s: float | None = None,
        limit: int | None = None,
    ) -> None:
        self.job_id = job_id
        self.prompts = list(prompts)
        self.priority, self.cache_salt, self.nickname = priority, cache_salt, nickname
        self.deadline_s, self.limit = deadline_s, limit
        self.arrival = arrival
        self.requests: list[Request | None] = [None] * len(self.prompts)
        self.unfinished = set(range(len(self.prompts)))
        self.closed = False
        self._chunks: deque[Chunk] = deque()
        self._silence: asyncio.TimerHandle | None = None
        self._heard = False  # since the last look
        self._failure: Exception | None = None
        self._ready = asyncio.Event()

    def request_id(self, index: int) -> str:
        """The id of a prompt's request in the engine and its trace."""
        return f"{self.job_id}-{index}"

    @property
    def started(self) -> bool:
        """Whether every prompt has left the queue."""
        return all(r is not None and r.status is not RequestStatus.WAITING for r in self.requests)

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the prefix cache spared."""
        return sum(request.num_cached_tokens for request in self.requests if request is not None)

    def put(self, chunk: Chunk) -> None:
        """Pass on a chunk; nothing happens once the job is closed."""
        if self.closed or chunk.index not in self.unfinished:
            return
        if chunk.finish_reason is not None:
            self.unfinished.discard(chunk.index)
        self._heard = True
        last = self._last_of(chunk.index) if len(self._chunks) >= self._limit else None
        if last is not None:
            last.merge(chunk)
        else:
            self._chunks.append(chunk)
        self._ready.set()

    def fail(self, error: Exception) -> None:
        """End the job with this error, after what has come so far."""
        self._failure = self._failure or error
        self.unfinished.clear()
        self._ready.set()

    def close(self) -> None:
        """Nobody reads any more."""
        self.closed = True
        self._chunks.clear()
        if self._silence is not None:
            self._silence.cancel()

    def tell_silence(self, every_s: float) -> None:
        """From now on put an empty chunk of index SILENCE when nothing has come for that long."""
        if not self._heard:
            self._chunks.append(Chunk(SILENCE))
            self._ready.set()
        self._heard = False
        loop = asyncio.get_running_loop()
        self._silence = loop.call_later(every_s, self.tell_silence, every_s)

    async def peek(self) -> Chunk:
        """Wait for the next chunk, and leave it. Raises what `fail` was given."""
        while not self._chunks:
            if self._failure is not None:
                raise self._failure
            if not self.unfinished:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        return self._chunks[0]

    def __aiter__(self) -> Job:
        return self

    async def __anext__(self) -> list[Chunk]:
        """All that is there, as soon as there is something."""
        await self.peek()
        chunks = list(self._chunks)
        self._chunks.clear()
        return chunks

    @property
    def _limit(self) -> int:
        return MAX_CHUNKS * len(self.prompts)

    def _last_of(self, index: int) -> Chunk | None:
        return next((chunk for chunk in reversed(self._chunks) if chunk.index == index), None)


@dataclass(slots=True)
class Answer:
    """All that came for one prompt."""

    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, float]] = field(default_factory=list)
    finish_reason: FinishReason | None = None

    def take(self, chunk: Chunk) -> None:
        self.text.append(chunk.text)
        self.token_ids += chunk.token_ids
        self.logprobs += chunk.logprobs or ()
        self.finish_reason = chunk.finish_reason or self.finish_reason
