"""Work beside a notebook's cells: threads where the platform has them, else asyncio tasks.

A job is a function that returns an iterator of naps: seconds to wait before going on, 0 where it
only lets others have a turn. The same job runs on a thread (the nap is a wait) or as a task on
the running event loop (turns of at most 10 ms, then `asyncio.sleep`). `wake()` ends naps early.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator

Job = Callable[[], Iterator[float]]

TURN_S = 0.010  # a task gives the event loop back after this long
POLL_S = 0.02  # how often a waiting cell looks whether the threads have ended


@functools.cache
def threads_work() -> bool:
    """Whether a thread can be started here: tried, not guessed (in a browser tab it cannot)."""
    try:
        thread = threading.Thread(target=lambda: None)
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


class Background:
    """Runs jobs side by side until each has ended. May be started again once they have.

    threads: None chooses by capability. `errors`: what jobs raised in the last run, in order.
    """

    def __init__(self, *, threads: bool | None = None, name: str = "minillm") -> None:
        self.threads = threads_work() if threads is None else threads
        self.name = name
        self.errors: list[BaseException] = []
        self._workers: list[threading.Thread | asyncio.Task] = []
        self._wakers: list[threading.Event] = []

    @property
    def running(self) -> bool:
        """Whether any job of the last start has not ended yet."""
        if self.threads:
            return any(worker.is_alive() for worker in self._workers)
        return any(not worker.done() for worker in self._workers)

    def worker(self, number: int) -> threading.Thread | asyncio.Task | None:
        """What runs the job of that number."""
        return self._workers[number] if number < len(self._workers) else None

    def start(self, *jobs: Job) -> None:
        """Start the jobs and return at once. RuntimeError while the last ones still run."""
        if self.running:
            raise RuntimeError("The last run has not ended yet: stop it first.")
        self.errors = []
        self._wakers = [threading.Event() for _ in jobs]
        pairs = list(zip(jobs, self._wakers, strict=True))
        if not self.threads:
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._as_task(job, wake)) for job, wake in pairs]
            return
        self._workers = [
            threading.Thread(
                target=self._as_thread, args=pair, name=f"{self.name}-{number}", daemon=True
            )
            for number, pair in enumerate(pairs)
        ]
        for worker in self._workers:
            worker.start()

    def wake(self) -> None:
        """End the nap that each job is in."""
        for event in self._wakers:
            event.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the threads, at most that long; whether all jobs have ended.

        Tasks cannot be waited for without `await`: they are only looked at.
        """
        if self.threads:
            deadline = time.monotonic() + timeout_s
            for worker in self._workers:
                if worker is not threading.current_thread():
                    worker.join(max(deadline - time.monotonic(), 0.0))
        return not self.running

    async def wait(self) -> None:
        """Wait for the jobs to end without holding up the event loop."""
        while self.running:
            await asyncio.sleep(POLL_S)

    def _as_thread(self, job: Job, wake: threading.Event) -> None:
        try:
            for nap in job():
                if nap > 0:
                    wake.wait(nap)
                    wake.clear()
        except BaseException as error:  # handed to whoever waits for the run
            self.errors.append(error)

    async def _as_task(self, job: Job, wake: threading.Event) -> None:
        turn = time.perf_counter()
        try:
            for nap in job():
                if nap > 0:
                    await _nap(nap, wake)
                elif time.perf_counter() - turn < TURN_S:
                    continue
                else:
                    await asyncio.sleep(0)
                turn = time.perf_counter()
        except Exception as error:
            self.errors.append(error)


async def _nap(seconds: float, wake: threading.Event) -> None:
    end = time.perf_counter() + seconds
    while not wake.is_set() and (left := end - time.perf_counter()) > 0:
        await asyncio.sleep(min(left, POLL_S))
    wake.clear()
