"""When an open-loop load sends: an absolute schedule, drawn before the run by one seeded generator.

Gaps are independent and equally distributed: gamma with shape `burstiness` (1 is Poisson, below 1
comes in bursts, inf is one every 1/rate seconds). A schedule is absolute: a late send never moves
the next one, so a slow server can't slow its own load down (coordinated omission). A ramp draws at
unit rate and maps through the inverse of the integrated rate (time change of a Poisson process,
Çinlar 1975), so the gaps stay independent. Times in seconds, rates in requests a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minillm.sim.workload import arrival_times, check_rate

RAMP_SYNTAX = "START:END:SECONDS, such as 1:20:60 for 1 to 20 requests a second in a minute"


@dataclass(frozen=True, slots=True)
class Ramp:
    """The rate goes in a straight line from `start` to `end` within `seconds`, then stays."""

    start: float
    end: float
    seconds: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and self.start >= 0):
            raise ValueError(f"A ramp starts at a rate ≥ 0, got {self.start!r}.")
        check_rate(self.end)
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"A ramp lasts more than 0 seconds, got {self.seconds!r}.")

    def when(self, count: float) -> float:
        """The time by which `count` requests are due: the inverse of the integrated rate."""
        slope = (self.end - self.start) / self.seconds
        reached = (self.start + self.end) / 2 * self.seconds
        if count >= reached:
            return self.seconds + (count - reached) / self.end
        # The root of start·t + slope·t²/2 = count, in the form that also stands for slope 0.
        root = math.sqrt(max(self.start**2 + 2 * slope * count, 0.0))
        return 2 * count / (self.start + root) if count > 0 else 0.0


def parse_ramp(text: str) -> Ramp:
    """`START:END:SECONDS`. Raises ValueError with the syntax or the number that is wrong."""
    try:
        start, end, seconds = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(f"Cannot read the ramp {text!r}: write {RAMP_SYNTAX}.") from None
    return Ramp(start, end, seconds)


def send_times(
    count: int,
    rate: float | Ramp | None,
    *,
    burstiness: float = 1.0,
    seed: int = 0,
) -> list[float]:
    """`count` times in ascending order, the first one gap after 0; rate None: all at 0.

    burstiness: the gamma distribution's shape; its coefficient of variation is 1/√burstiness
    (as in vLLM's serving benchmark). Raises ValueError for what can't be.
    """
    if math.isnan(burstiness) or burstiness <= 0:
        raise ValueError(f"The burstiness must be > 0 (1 is Poisson), got {burstiness!r}.")
    if rate is None:
        return [0.0] * count
    unit = 1.0 if isinstance(rate, Ramp) else rate
    if math.isinf(burstiness):
        times = arrival_times(count, unit, seed, "constant")
    elif burstiness == 1:
        times = arrival_times(count, unit, seed, "poisson")
    else:
        times = arrival_times(count, unit, seed, "gamma", burstiness**-0.5)
    return [rate.when(when) for when in times] if isinstance(rate, Ramp) else times
