"""A simulated device in front of real clients: its clock moves like a virtual one, but is held
to the wall clock by whoever drives the engine (async_engine.py)."""

from __future__ import annotations

import time

from minillm.core import VirtualClock

MAX_LAG_S = 0.002  # behind the wall clock by less, a step catches up: no drift from late wake-ups


class PacedClock(VirtualClock):
    """Seconds since it was made, on both clocks. `t0_unix` is that moment as Unix time."""

    def __init__(self) -> None:
        super().__init__()
        self.t0_unix: float | None = time.time()
        self._t0 = time.perf_counter()

    def wall(self) -> float:
        """What the wall clock says."""
        return time.perf_counter() - self._t0

    def catch_up(self, at_least: float = 0.0) -> None:
        """Before a step: move up to the wall clock if it is ahead, and to `at_least` anyway."""
        wall = self.wall()
        if wall - self.now() > MAX_LAG_S:
            self.advance_to(wall)
        self.advance_to(at_least)

    def wait(self) -> None:
        """After a step: sleep until the wall clock has reached the step's end."""
        ahead = self.now() - self.wall()
        if ahead > 0:
            time.sleep(ahead)
