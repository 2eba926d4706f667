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
POLL_S = 0.02  # how often a waiting cell looks whether the jobs have ended


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


class _Work:
    """A job that was started: its naps, and whether it has ended.

    Whoever asks for the next turn computes it: its thread, its task, or in `Background.join` a
    cell that waits for a task.
    """

    def __init__(self, job: Job, errors: list[BaseException]) -> None:
        self._job, self._errors = job, errors
        self._naps: Iterator[float] | None = None
        self.wake = threading.Event()
        self.worker: threading.Thread | asyncio.Task | None = None
        self.done = self.on = False

    def turn(self) -> float | None:
        """One turn: the nap that it asks for, None once it has ended."""
        if self.done:
            return None
        self.on = True
        try:
            if self._naps is None:
                self._naps = iter(self._job())
            return next(self._naps)
        except StopIteration:
            pass
        except BaseException as error:  # handed to whoever waits for the run
            self._errors.append(error)
        finally:
            self.on = False
        self._end()
        return None

    def _end(self) -> None:
        self.done, self._naps = True, None  # an unfinished generator is closed by this

    def as_thread(self) -> None:
        while (nap := self.turn()) is not None:
            if nap > 0:
                self.wake.wait(nap)
                self.wake.clear()

    async def as_task(self) -> None:
        began = time.perf_counter()
        try:
            while (nap := self.turn()) is not None:
                if nap > 0:
                    await _nap(nap, self.wake)
                elif time.perf_counter() - began < TURN_S:
                    continue
                else:
                    await asyncio.sleep(0)
                began = time.perf_counter()
        finally:
            self._end()  # also when the task was cancelled


class Background:
    """Runs jobs side by side until each has ended. May be started again once they have.

    threads: None chooses by capability. `errors`: what jobs raised in the last run, in order.
    """

    def __init__(self, *, threads: bool | None = None, name: str = "minillm") -> None:
        self.threads = threads_work() if threads is None else threads
        self.name = name
        self.errors: list[BaseException] = []
        self._work: list[_Work] = []

    @property
    def running(self) -> bool:
        """Whether any job of the last start has not ended yet."""
        if self.threads:
            return any(work.worker.is_alive() for work in self._work)
        return any(not work.done for work in self._work)

    def worker(self, number: int) -> threading.Thread | asyncio.Task | None:
        """What runs the job of that number."""
        return self._work[number].worker if number < len(self._work) else None

    def start(self, *jobs: Job) -> None:
        """Start the jobs and return at once. RuntimeError while the last ones still run."""
        if self.running:
            raise RuntimeError("The last run has not ended yet: stop it first.")
        self.errors = []
        loop = None if self.threads else asyncio.get_running_loop()
        self._work = [_Work(job, self.errors) for job in jobs]
        for number, work in enumerate(self._work):
            if loop is not None:
                work.worker = loop.create_task(work.as_task())
            else:
                name = f"{self.name}-{number}"
                work.worker = threading.Thread(target=work.as_thread, name=name, daemon=True)
        for work in self._work if self.threads else ():
            work.worker.start()

    def wake(self) -> None:
        """End the nap that each job is in."""
        for work in self._work:
            work.wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the jobs to end, at most that long; whether they have.

        Tasks get no turn while a cell computes, so here they get theirs from the cell. One that
        is itself the caller is not waited for.
        """
        deadline = time.monotonic() + timeout_s
        if self.threads:
            for work in self._work:
                if work.worker is not threading.current_thread():
                    work.worker.join(max(deadline - time.monotonic(), 0.0))
            return not self.running
        while time.monotonic() < deadline:
            waiting = [work for work in self._work if not work.done and not work.on]
            if not waiting:
                break
            nap = min(work.turn() or 0.0 for work in waiting)
            if nap > 0:
                time.sleep(min(nap, POLL_S))
        return not self.running

    async def wait(self) -> None:
        """Wait for the jobs to end without holding up the event loop."""
        while self.running:
            await asyncio.sleep(POLL_S)


async def _nap(seconds: float, wake: threading.Event) -> None:
    end = time.perf_counter() + seconds
    while not wake.is_set() and (left := end - time.perf_counter()) > 0:
        await asyncio.sleep(min(left, POLL_S))
    wake.clear()
