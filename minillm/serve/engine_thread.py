"""EngineThread: the thread that steps the engine, and how work gets to it.

Jobs and commands come through two queues and are taken up between two steps. Each step's chunks go
to the event loop in one call. AsyncEngine is the event loop's side of it.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from minillm.core import (
    FinishReason,
    LLMEngine,
    QueueFullError,
    RequestOutput,
    RunnerLostError,
)
from minillm.core.trace import Record
from minillm.llm import LLM, TextStream
from minillm.serve.job import Chunk, Job
from minillm.serve.paced_clock import PacedClock


class EngineThread(ABC):
    """See the module's docstring. What is named `_on_loop` there runs on the event loop.

    on_records: called by this thread with what the trace got since the last call; says whether
    on_step shall be called, on the event loop.
    """

    def __init__(
        self,
        llm: LLM,
        engine: LLMEngine,
        on_records: Callable[[list[Record]], bool],
        on_step: Callable[[], None],
    ) -> None:
        self.llm, self.engine = llm, engine
        self.error: BaseException | None = None  # what ended the thread, if it was not stop()
        self._on_records, self._on_step = on_records, on_step
        self._streams: dict[str, tuple[Job, int, TextStream]] = {}
        self._wake = threading.Condition()  # guards the two queues
        self._new_jobs: deque[Job] = deque()
        self._commands: deque[Callable[[], None]] = deque()
        self._stopping = self._held = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="minillm-engine", daemon=True)

    @abstractmethod
    def _dispatch(self, chunks: list[tuple[Job, Chunk]]) -> None:
        """On the event loop: hand each chunk to its job."""

    @abstractmethod
    def _fail_all(self, error: BaseException) -> None:
        """On the event loop: the thread has ended with this error."""

    def now(self) -> float:
        """Seconds on the engine's clock as the wall has it."""
        clock = self.engine.clock
        return clock.wall() if isinstance(clock, PacedClock) else clock.now()

    def _tell(self, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(command)
            self._wake.notify()

    def _run(self) -> None:
        engine, clock = self.engine, self.engine.clock
        paced = isinstance(clock, PacedClock)
        try:
            while not self._stopping:
                self._take_up()
                nap = None
                if engine.has_unfinished and not self._held:
                    if paced:
                        clock.catch_up()
                    self._deliver(engine.step())
                    if isinstance(engine.last_error, RunnerLostError):
                        raise engine.last_error  # /health has to tell: no step can run any more
                    if not engine.idle:
                        continue
                    wakeup = engine.next_wakeup()
                    nap = None if wakeup is None else max(wakeup - self.now(), 0.0)
                with self._wake:
                    if not (self._new_jobs or self._commands or self._stopping):
                        self._wake.wait(nap)
        except BaseException as error:  # a fault of ours: nobody may wait for ever
            self.error = error
            self._on_loop(self._fail_all, error)
        finally:
            for request_id in list(engine.requests):
                engine.abort(request_id)
            self._streams.clear()

    def _take_up(self) -> None:
        """New jobs into the engine, commands done. The lock keeps the count of waiting exact."""
        refused: list[tuple[Job, Chunk]] = []
        while self._new_jobs or self._commands:
            with self._wake:
                job = self._new_jobs.popleft() if self._new_jobs else None
                if job is not None:
                    refused += self._add(job)
            while self._commands:
                self._commands.popleft()()
        self._deliver([], refused)

    def _add(self, job: Job) -> list[tuple[Job, Chunk]]:
        refused = []
        clock = self.engine.clock
        if isinstance(clock, PacedClock):
            clock.catch_up(job.arrival)
        for index, prompt in enumerate(job.prompts):
            try:
                request = self.engine.add_request(
                    job.request_id(index), prompt.token_ids, prompt.params,
                    arrival_time=job.arrival, priority=job.priority, cache_salt=job.cache_salt,
                    nickname=job.nickname, prompt_preview=prompt.preview,
                )  # fmt: skip
            except (ValueError, QueueFullError) as error:
                refused.append(
                    (job, Chunk(index, finish_reason=FinishReason.ERROR, error=str(error)))
                )
                continue
            job.requests[index] = request
            detokenizer = self.llm.detokenizer(prompt.token_ids)
            stream = TextStream(self.engine, request, detokenizer, advance=_not_here)
            self._streams[request.request_id] = (job, index, stream)
        return refused

    def _finish(self, job: Job, reason: FinishReason) -> None:
        for index in range(len(job.prompts)):
            request_id = job.request_id(index)
            _, _, stream = self._streams.pop(request_id, (None, None, None))
            if stream is not None and not stream.finished:
                stream.finish_reason = reason
                self.engine.finish(request_id, reason)

    def _deliver(
        self, outputs: list[RequestOutput], chunks: list[tuple[Job, Chunk]] | None = None
    ) -> None:
        chunks = chunks or []
        for output in reversed(outputs):  # the youngest first: somebody waits for a sign of life
            entry = self._streams.get(output.request_id)
            if entry is None:
                continue
            job, index, stream = entry
            stream.take(output)
            logprobs = None if output.logprobs is None else (output.logprobs,)
            chunks.append((job, Chunk(
                index, stream.drain(), output.new_token_ids, logprobs, stream.finish_reason,
                output.error,
            )))  # fmt: skip
            if stream.finished:
                del self._streams[output.request_id]
        if any(chunk.finish_reason for _, chunk in chunks):
            self._record()  # who gets an answer finds it counted in /metrics
        if chunks:  # otherwise first of all: somebody waits for them
            self._on_loop(self._dispatch, chunks)
        self._record()

    def _record(self) -> None:
        """Hand on what the trace got since the last call."""
        records = self.engine.trace.take()
        if records and self._on_records(records):
            self._on_loop(self._on_step)

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(function, *arguments)


def _not_here() -> None:
    raise RuntimeError("A served stream is advanced by the engine thread alone.")
