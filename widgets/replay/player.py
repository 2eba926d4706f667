"""Moves a cursor over a run's time at a pace, on a thread or as a task of the event loop.

    player = Player(cursor)
    player.load(end=9.8)     # seconds
    player.play()            # returns at once; from the cursor on, from the start once it is over
    player.pace = 4.0
    player.pause()

Whoever points elsewhere meanwhile, in a view or a cell, takes over: the playback ends there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator

from widgets.background import Background
from widgets.cursor import Cursor

HZ = 25
ALL_S = 3.0  # the whole run in so many seconds: the pace None
SHORTEST_S = 4.0  # a run shorter than this is played in slow motion, unless told otherwise
SLOW = 0.1
MIN_PACE, MAX_PACE = 0.01, 1000.0
JOIN_S = 2.0


class Player:
    """pace: run's seconds a second; None plays the whole run in 3 s. changed(): after play, pause.

    threads: None chooses by capability.
    """

    def __init__(
        self,
        cursor: Cursor,
        *,
        threads: bool | None = None,
        changed: Callable[[], object] = lambda: None,
    ) -> None:
        self.cursor, self.changed = cursor, changed
        self.end = 0.0
        self._threads = threads
        self._pace: float | None = 1.0
        self._background: Background | None = None
        self._number = 0

    @property
    def pace(self) -> float | None:
        return self._pace

    @pace.setter
    def pace(self, pace: float | None) -> None:
        fine = pace is None or (math.isfinite(pace) and MIN_PACE <= pace <= MAX_PACE)
        if not fine:
            raise ValueError(
                f"pace must lie between {MIN_PACE} and {MAX_PACE:,g}, or be None, got {pace!r}."
            )
        self._pace = pace

    def load(self, end: float) -> None:
        """Another run, of so many seconds: a playback ends, the pace is one that suits it."""
        self.pause()
        self.end = end
        self.pace = SLOW if end < SHORTEST_S else 1.0

    @property
    def playing(self) -> bool:
        """Whether a playback moves the cursor now."""
        return bool(self._number) and self.cursor.playing == self._number

    def play(self) -> None:
        """Play on from where the cursor is; from the start where it is nowhere or at the end."""
        if self.playing:
            return
        self._join()
        t = self.cursor.t
        start = 0.0 if t is None or t >= self.end * 0.999 else t
        self._number = number = self.cursor.play()
        self._background = Background(threads=self._threads, name="minillm-replay")
        self._background.start(lambda: self._job(number, start))
        self.changed()

    def pause(self) -> None:
        """Stop where it is. Returns at once; harmless when nothing plays."""
        if self.playing:
            self.cursor.rest(self._number)
            self._background.wake()

    async def finished(self) -> None:
        """Wait until the playback has ended, without holding up the kernel."""
        if self._background is not None:
            await self._background.wait()
            for error in self._background.errors:
                raise error

    def close(self) -> None:
        """Pause and wait for the job's end."""
        self.pause()
        self._join()

    def _join(self) -> None:
        if self._background is not None:
            self._background.join(JOIN_S)

    def _job(self, number: int, start: float) -> Iterator[float]:
        pace, wall, t = self._pace, time.perf_counter(), start
        while self.cursor.advance(number, min(t, self.end)):
            if t >= self.end:
                self.cursor.rest(number)
                break
            yield 1 / HZ
            if pace != self._pace:
                pace, wall, start = self._pace, time.perf_counter(), t
            t = start + (time.perf_counter() - wall) * self._speed(pace)
        self.changed()

    def _speed(self, pace: float | None) -> float:
        return max(self.end / ALL_S, 1e-3) if pace is None else pace
