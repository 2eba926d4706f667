"""AsyncEngine: the event loop's side of an engine that a thread of its own steps.

Whether there is room for a job is decided at once, though a step be running.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from minillm.core import (
    FinishReason,
    LLMEngine,
)
from minillm.core.trace import Record
from minillm.llm import LLM
from minillm.serve import admission
from minillm.serve.engine_thread import EngineThread
from minillm.serve.errors import ApiError, busy, internal
from minillm.serve.job import Chunk, Job
from minillm.serve.paced_clock import PacedClock

MAX_COMMANDS = 1000  # between two steps; of a flood of refusals the trace need not tell each
STOP_LIMIT_S = 10.0  # close() waits this long for the step in hand


class AsyncEngine(EngineThread):
    """See the module's docstring. max_queue_size: requests that may wait; None: any number.

    on_records, on_step: EngineThread's.
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
        super().__init__(llm, engine, on_records, on_step)
        self.max_queue_size = max_queue_size
        self.jobs: dict[str, Job] = {}  # live ones; the event loop's
        self.draining = self.paused = False

    # ── on the event loop ───────────────────────────────────────────────────────────────────

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.error is None

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

    def _dispatch(self, chunks: list[tuple[Job, Chunk]]) -> None:
        for job, chunk in chunks:
            job.put(chunk)

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
