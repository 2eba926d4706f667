"""The bytes of a strip chart's frame (docs/contracts.md, "Strips"): little-endian, no padding.

A header, then n_samples times f64 t and n_series f32 values, NaN for what was not read.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

MAGIC, VERSION = b"MLS1", 1
HEADER = struct.Struct("<4sBBHIIII")  # magic, version, kind, n_series, stream, first, n, group
KINDS = ("snapshot", "delta", "heartbeat")
FRAME_SAMPLES = 4000  # a longer snapshot comes in parts


class StripFrame(NamedTuple):
    """A decoded frame; samples are (t, [value or None])."""

    kind: int
    group: int
    stream: int
    first: int
    samples: list[tuple[float, list[float | None]]]


def decode_strips(data: bytes) -> StripFrame:
    """Read a frame. Raises ValueError when it is not one, or is cut short."""
    if len(data) < HEADER.size:
        raise ValueError(f"A frame has at least {HEADER.size} bytes, got {len(data)}.")
    magic, version, kind, series, stream, first, count, group = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"Not a strip frame of version {VERSION}: it starts with {data[:5]!r}.")
    sample = struct.Struct(f"<d{series}f")
    expected = HEADER.size + count * sample.size
    if len(data) != expected:
        raise ValueError(f"A frame of {count} samples has {expected} bytes, got {len(data)}.")
    samples = [
        (t, [None if math.isnan(value) else value for value in values])
        for t, *values in sample.iter_unpack(data[HEADER.size :])
    ]
    return StripFrame(kind, group, stream, first, samples)


class StripRing:
    """The newest `keep` samples of one group of series that are sampled together."""

    def __init__(self, group: int, num_series: int, keep: int) -> None:
        self.group, self.num_series = group, num_series
        self._sample = struct.Struct(f"<d{num_series}f")
        self._rows: deque[bytes] = deque(maxlen=keep)
        self.reset(0)

    def reset(self, stream: int) -> None:
        """Forget all; the next run is `stream`."""
        self._rows.clear()
        self.stream, self.next, self.last_t = stream, 0, -math.inf

    @property
    def first(self) -> int:
        return self.next - len(self._rows)

    def add(self, t: float, values: Sequence[float | None]) -> bool:
        """The next sample; False, and not kept, where it is not later than the last one."""
        if not t > self.last_t:
            return False
        filled = [math.nan if value is None else value for value in values]
        self._rows.append(self._sample.pack(t, *filled))
        self.next += 1
        self.last_t = t
        return True

    def samples(self) -> list[tuple[float, ...]]:
        """All samples kept, as (t, values …), NaN for what is missing."""
        return [self._sample.unpack(row) for row in self._rows]

    def frame(self, first: int, kind: int) -> tuple[bytes, int]:
        """(the frame of the samples from number `first` on, the number after its last one)."""
        rows = list(islice(self._rows, first - self.first, first - self.first + FRAME_SAMPLES))
        head = HEADER.pack(
            MAGIC, VERSION, kind, self.num_series, self.stream, first, len(rows), self.group
        )
        return head + b"".join(rows), first + len(rows)
