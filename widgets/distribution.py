"""Many latencies in little memory: exact while they are few, in fine logarithmic bins after that.

A bin is 1.2 % wide (200 a decade). Percentiles are the core's (linear interpolation), exact up to
EXACT values and right to a bin's width above. Seconds.
"""

from __future__ import annotations

import math

from minillm.core.metrics import percentile

PER_DECADE = 200
EXACT = 10_000
SMALLEST = 1e-7  # what is shorter is counted as this


def bin_of(seconds: float) -> int:
    """The bin of a value: floor(200 · log10(seconds))."""
    return math.floor(math.log10(max(seconds, SMALLEST)) * PER_DECADE + 1e-9)


def bin_edge(index: int) -> float:
    """The low end of a bin, in seconds."""
    return 10.0 ** (index / PER_DECADE)


class Distribution:
    """Values ≥ 0 are added one by one; anything else raises ValueError."""

    def __init__(self) -> None:
        self.n = 0
        self.most: float | None = None
        self._bins: dict[int, int] = {}
        self._values: list[float] | None = []

    def add(self, seconds: float, count: int = 1) -> None:
        """The same value `count` times."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"A latency is a number of seconds ≥ 0, got {seconds!r}.")
        self.n += count
        self.most = seconds if self.most is None else max(self.most, seconds)
        index = bin_of(seconds)
        self._bins[index] = self._bins.get(index, 0) + count
        if self._values is not None:
            self._values.extend([seconds] * count)
            if self.n > EXACT:
                self._values = None

    @property
    def exact(self) -> bool:
        """Whether percentiles are exact."""
        return self._values is not None

    def percentiles(self, *qs: float) -> list[float | None]:
        """Each q-th percentile (0 to 100); None without values."""
        if self._values is not None:
            ordered = sorted(self._values)
            return [percentile(ordered, q) for q in qs]
        return [self._from_bins((self.n - 1) * q / 100) for q in qs]

    def _from_bins(self, rank: float) -> float:
        before = 0
        for index in sorted(self._bins):
            count = self._bins[index]
            if before + count > rank:
                share = (rank - before + 0.5) / count
                return min(bin_edge(index) * 10 ** (share / PER_DECADE), self.most)
            before += count
        return self.most

    def share_within(self, limit: float) -> float | None:
        """The share of values ≤ limit; None without values."""
        if not self.n:
            return None
        if self._values is not None:
            return sum(value <= limit for value in self._values) / self.n
        at = bin_of(limit)
        below = sum(count for index, count in self._bins.items() if index < at)
        inside = math.log10(max(limit, SMALLEST)) * PER_DECADE - at
        return (below + self._bins.get(at, 0) * inside) / self.n

    def bins(self) -> list[list[int]]:
        """[[bin, count]] in order."""
        return [[index, self._bins[index]] for index in sorted(self._bins)]


def bars(bins: list[list[int]], edges: list[float]) -> list[float]:
    """Counts between neighbouring edges (seconds, ascending); a bin is spread over its width.

    static/histogram/bars.js does the same; both read tests/golden/histogram.json.
    """
    counts = [0.0] * (len(edges) - 1)
    if not bins:
        return counts
    bar = 0
    for index, count in bins:
        low, high = bin_edge(index), bin_edge(index + 1)
        while bar < len(counts) - 1 and edges[bar + 1] <= low:
            bar += 1
        k = bar
        while k < len(counts) and edges[k] < high:
            inside = min(high, edges[k + 1]) - max(low, edges[k])
            if inside > 0:
                counts[k] += count * inside / (high - low)
            k += 1
    return counts
