"""Time as the engine sees it: seconds since the clock was made, wall or virtual."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """`now()` in seconds; `advance(seconds)` moves a virtual clock and leaves a wall clock be."""

    virtual: bool

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...


class WallClock:
    """Monotonic seconds since it was made. `t0_unix` is that moment as Unix time."""

    virtual = False

    def __init__(self) -> None:
        self.t0_unix: float | None = time.time()
        self._t0 = time.perf_counter()

    def now(self) -> float:
        return time.perf_counter() - self._t0

    def advance(self, seconds: float) -> None:
        """Real time passes by itself."""


class VirtualClock:
    """Moves only when told: by the engine (a step's duration) or by a driver (the next event)."""

    virtual = True
    t0_unix: float | None = None

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if not seconds >= 0:
            raise ValueError(f"A clock cannot go back: advance({seconds!r}).")
        self._now += seconds

    def advance_to(self, when: float) -> None:
        """Jump to the absolute time `when`; a time already past changes nothing."""
        if when > self._now:
            self._now = when
