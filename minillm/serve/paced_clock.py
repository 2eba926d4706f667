"""A simulated device in front of real clients: its steps take their time on the wall clock too.

The clock moves like a virtual one; the runner sleeps until the wall clock has reached the step's
end, so that the engine takes in its tokens when a real device would have given them.
"""

from __future__ import annotations

import time

from minillm.core import Runner, SchedulerOutput, StepResult, VirtualClock

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


class PacedRunner(Runner):
    """A simulated runner whose steps last as long as they say, from the clock's now."""

    def __init__(self, runner: Runner, clock: PacedClock) -> None:
        self.clock = clock
        self.become(runner)

    def become(self, runner: Runner) -> None:
        """Take another simulated device from the next step on."""
        self.runner, self.info = runner, runner.info

    def execute(self, output: SchedulerOutput) -> StepResult:
        result = self.runner.execute(output)
        ahead = self.clock.now() + (result.duration_s or 0.0) - self.clock.wall()
        if ahead > 0:
            time.sleep(ahead)
        return result

    def close(self) -> None:
        self.runner.close()
