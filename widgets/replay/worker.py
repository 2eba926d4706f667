"""Does what it is told beside the cells, one thing after the other, and ends when nothing is left.

    worker = Worker()
    worker.do("open", lambda: read(path))    # returns at once
    worker.do("follow", catch_up)            # of two that wait under one name the newer is done

Nothing runs while there is nothing to do: no thread is left over in an idle notebook.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from widgets.background import Background

PAUSE_S = 0.12  # between two jobs: what follows a cursor needs no more

Job = Callable[[], object]


class Worker:
    """threads: None chooses by capability. failed(error): told of what a job raised."""

    def __init__(
        self,
        *,
        threads: bool | None = None,
        failed: Callable[[Exception], object] = lambda error: None,
    ) -> None:
        self._threads, self._failed = threads, failed
        self._waiting: dict[str, Job] = {}
        self._guard = threading.Lock()
        self._busy = self._closed = False
        self._background: Background | None = None

    def do(self, name: str, job: Job) -> None:
        """Have it done soon; from any thread."""
        with self._guard:
            if self._closed:
                return
            self._waiting[name] = job
            if self._busy:
                return
            self._busy = True
            background = Background(threads=self._threads, name="minillm-replay-work")
            self._background = background
        try:
            background.start(self._job)
        except BaseException:
            with self._guard:
                self._busy = False
            raise

    async def idle(self) -> None:
        """Wait until nothing is left to do."""
        while self._background is not None and self._busy:
            await self._background.wait()

    def close(self, timeout_s: float = 5.0) -> None:
        """Drop what waits and wait for the job in hand."""
        with self._guard:
            self._closed = True
            self._waiting.clear()
        if self._background is not None:
            self._background.wake()
            self._background.join(timeout_s)

    def _job(self) -> Iterator[float]:
        while True:
            with self._guard:
                if not self._waiting:
                    self._busy = False
                    return
                job = self._waiting.pop(next(iter(self._waiting)))
            try:
                job()
            except Exception as error:
                self._failed(error)
            yield PAUSE_S
