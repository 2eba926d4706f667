"""Scales and ticks of static charts: values ↔ pixels, linear or logarithmic.

static/shared/axis.js and scale.js have the same for live ones (tests/golden/numbers.json).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from widgets.numbers import fixed
from widgets.shapes import tick_step


@dataclass(frozen=True, slots=True)
class Scale:
    """low…high onto the pixels start…end (end may be the smaller one). log: both above 0."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"An axis from {self.low:g} to {self.high:g} cannot be drawn.")

    def at(self, value: float) -> float:
        """The pixel of a value; a log axis takes what is ≤ 0 for its low end."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            value = math.log(max(value, self.low * 1e-6))
        else:
            low, high = self.low, self.high
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, apart: float = 84) -> list[tuple[float, str]]:
        """(value, label) of the labelled ticks, about `apart` pixels from each other."""
        if self.log:
            return [(value, label(value)) for value in log_ticks(self.low, self.high)]
        step, decimals = tick_step(self.high - self.low, abs(self.end - self.start) / apart)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [
            (i * step, f"{i * step:,.{decimals}f}" if i else "0") for i in range(first, last + 1)
        ]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of 10; 1, 2 and 5 of each where the axis spans less than 2.2 decades; round steps
    where that gives fewer than three."""
    decades = math.log10(high / low)
    few = list(_of_decades(low, high, (1, 2, 5) if decades < 2.2 else (1,)))
    if len(few) > 2:
        return few
    step, _ = tick_step(high - low, 4)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def minor_ticks(low: float, high: float) -> list[float]:
    """1 to 9 of each decade, without those that have a label."""
    labelled = set(log_ticks(low, high))
    return [value for value in _of_decades(low, high, range(1, 10)) if value not in labelled]


def _of_decades(low: float, high: float, factors: Iterable[int]) -> Iterator[float]:
    factors = tuple(factors)
    for power in range(math.floor(math.log10(low) - 1e-9), math.ceil(math.log10(high)) + 1):
        for factor in factors:
            value = factor * 10.0**power
            if low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
                yield value


def log_range(values: Iterable[float], margin: float = 1.15) -> tuple[float, float]:
    """A log axis' ends around the values above 0, a factor `margin` wider, at least 1/3 decade."""
    known = [value for value in values if value > 0 and math.isfinite(value)]
    if not known:
        return 1.0, 10.0
    low, high = min(known) / margin, max(known) * margin
    if high / low < 2:
        middle = math.sqrt(low * high)
        low, high = middle / math.sqrt(2), middle * math.sqrt(2)
    return low, high


def nice_limit(value: float) -> float:
    """The lowest of 1, 1.5, 2, 3, 4, 5, 6, 8 or 10 × 10ⁿ that is at least `value`: an axis' end."""
    if not value > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value) + 1e-9)
    factors = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
    return next((f * power for f in factors if f * power >= value * (1 - 1e-9)), 10 * power)


def label(value: float) -> str:
    """A tick's text: 0.01, 5, 1,000."""
    return fixed(value) if value >= 100 else f"{Decimal(f'{value:.6g}'):f}"
