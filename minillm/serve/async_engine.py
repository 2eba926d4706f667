"""AsyncEngine: one thread that steps the engine, and the event loop that talks with it.

The loop hands over jobs and commands through one queue, and the thread takes them up between two
steps. Whether there is room is decided at once, though a step be running. Each step's chunks go
to the loop in one call.
"""

from __future__ import annotations

import asyncio
import threading
import time
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
from minillm.serve import admission
from minillm.serve.errors import ApiError, busy, internal
from minillm.serve.job import Chunk, Job
from minillm.serve.paced_clock import PacedClock

MAX_COMMANDS = 1000  # between two steps; of a flood of refusals the trace need not tell each
STOP_LIMIT_S = 10.0  # close() waits this long for the step in hand


class AsyncEngine:
    """See the module's docstring. max_queue_size: requests that may wait; None: any number.

    on_records: called by the engine thread with what the trace got since the last call; says
    whether on_step shall be called, on the event loop.
    """

    def __init__(
        self,
        llm: LLM,
        engine: LLMEngine,
        *,
        max_queue_size: int | None = None,
        on_records: Callable[[list[Record]], bool] = lambda records: False,
        on_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.llm, self.engine = llm, engine
        self.max_queue_size = max_queue_size
        self.jobs: dict[str, Job] = {}  # live ones; the event loop's
        self.draining = self.paused = False
        self.error: BaseException | None = None  # what ended the thread, if it was not stop()
        self._on_records, self._on_step = on_records, on_step
        self._streams: dict[str, tuple[Job, int, TextStream]] = {}  # the thread's
        self._wake = threading.Condition()  # guards the two queues
        self._new_jobs: deque[Job] = deque()
        self._commands: deque[Callable[[], None]] = deque()
        self._stopping = self._held = False  # the thread's
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="minillm-engine", daemon=True)

    # ── on the event loop ───────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.error is None

    def now(self) -> float:
        """Seconds on the engine's clock as the wall has it."""
        clock = self.engine.clock
        return clock.wall() if isinstance(clock, PacedClock) else clock.now()

    @property
    def num_waiting(self) -> int:
        """Requests that have not started, in the engine's queue or on their way to it."""
        with self._wake:
            coming = sum(len(job.prompts) for job in self._new_jobs)
            return coming + max(len(self.engine.requests) - len(self.engine.scheduler.running), 0)

    def submit(self, job: Job) -> None:
        """Take a job in, whole or not at all.

        Raises ApiError at once: 503 when there is no room, 429 when its sender has too much in
        flight. What is turned away shows in the trace.
        """
        try:
            admission.check_share(job, self.jobs.values())
            with self._wake:
                self._check_room(len(job.prompts))
                self._new_jobs.append(job)
                self._wake.notify()
        except ApiError as refusal:
            for index, prompt in enumerate(job.prompts):
                self.note_refusal(
                    job.request_id(index), refusal.message, nickname=job.nickname,
                    prompt_len=len(prompt.token_ids), max_tokens=prompt.params.max_tokens,
                )  # fmt: skip
            raise
        self.jobs[job.job_id] = job
        if job.deadline_s is not None:
            self._loop.call_later(job.deadline_s, self._expire, job)

    def note_refusal(self, request_id: str, reason: str, **arrival: Any) -> None:
        """Show a request that was turned away in the trace. arrival: LLMEngine.note_refusal's."""

        def note() -> None:
            if isinstance(self.engine.clock, PacedClock):
                self.engine.clock.catch_up()
            self.engine.note_refusal(request_id, reason, **arrival)

        if len(self._commands) < MAX_COMMANDS:
            self._tell(note)

    def pause(self, paused: bool = True) -> None:
        """Stop after the step in hand, or go on. Nothing is lost: requests are taken in and wait.

        The queue stays bounded, deadlines go on counting, a drain ends the pause.
        """
        self.paused = paused

        def hold() -> None:
            self._held = paused

        self._tell(hold)

    def release(self, job: Job) -> None:
        """The job is over for its reader: done, failed, or the client has gone. Frees blocks."""
        job.close()
        if self.jobs.pop(job.job_id, None) is not None and job.unfinished:
            self._end(job, FinishReason.ABORT)

    async def call(self, function: Callable[[LLMEngine], Any]) -> Any:
        """Run function(engine) between two steps; its result or its exception."""
        future: asyncio.Future = self._loop.create_future()

        def command() -> None:
            try:
                result, error = function(self.engine), None
            except Exception as caught:
                result, error = None, caught
            self._on_loop(_settle, future, result, error)

        self._tell(command)
        return await future

    async def drain(self, grace_s: float) -> None:
        """Refuse new jobs, let the live ones finish, and fail what is left after grace_s."""
        self.draining = True
        self.pause(False)
        end = time.monotonic() + grace_s
        while self.jobs and time.monotonic() < end:
            await asyncio.sleep(0.02)
        for job in list(self.jobs.values()):
            job.fail(busy("The server is shutting down and ended this request.", "shutting_down"))
            self._end(job, FinishReason.ABORT)

    async def close(self) -> None:
        """Stop the thread after the step in hand; whatever is left is aborted."""
        self.draining = True
        for job in self.jobs.values():
            job.fail(busy("The server has been stopped.", "shutting_down"))
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, STOP_LIMIT_S)

    def _check_room(self, count: int) -> None:
        if self.error is not None:
            raise busy(f"The engine has stopped: {self.error}", "engine_stopped", retry_after_s=5)
        if self.draining or not self.alive:
            raise busy("The server is shutting down.", "shutting_down", retry_after_s=5)
        if self.max_queue_size is not None:
            scheduler = self.engine.scheduler
            admission.check_queue(count, self.num_waiting, self.max_queue_size, scheduler)

    def _expire(self, job: Job) -> None:
        """The job's time to wait is over: answer now, whatever the engine is at."""
        if job.closed or job.started or not job.unfinished:
            return
        waited = job.deadline_s
        job.fail(busy(f"The request waited {waited:g} s, its deadline.", "deadline_exceeded"))
        self._end(job, FinishReason.ERROR)

    def _end(self, job: Job, reason: FinishReason) -> None:
        with self._wake:
            if job in self._new_jobs:  # the engine has not seen it yet
                self._new_jobs.remove(job)
                return
        self._tell(lambda: self._finish(job, reason))

    def _tell(self, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(command)
            self._wake.notify()

    def _dispatch(self, chunks: list[tuple[Job, Chunk]]) -> None:
        for job, chunk in chunks:
            job.put(chunk)

    # ── on the engine thread ────────────────────────────────────────────────────────────────

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

    def _fail_all(self, error: BaseException) -> None:
        for job in self.jobs.values():
            job.fail(internal(f"The engine stopped: {type(error).__name__}: {error}"))


def _settle(future: asyncio.Future, result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _not_here() -> None:
    raise RuntimeError("A served stream is advanced by the engine thread alone.")
