"""The bytes of a frame (docs/contracts.md, "Frames"): little-endian, no padding.

A header, then n_steps steps, then n_rows rows in the order of their steps.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC, VERSION = b"MLF1", 1
SNAPSHOT, DELTA, HEARTBEAT = 0, 1, 2
KINDS = ("snapshot", "delta", "heartbeat")
SAMPLED, RECOMPUTE = 1, 2  # flags of a row: it yielded a token; it repeats work lost to preemption

HEADER = struct.Struct("<4sBBHIIII")  # 24 bytes
STEP = struct.Struct("<ddHHI")  # 24 bytes
ROW = struct.Struct("<IIHHBBH")  # 16 bytes
U16 = 0xFFFF


class Frame(NamedTuple):
    """A decoded frame: its header and its steps as (t_start, t_end, waiting, running, kv_used)
    and rows as (step, req_idx, n_tokens, n_padding, kind, flags)."""

    kind: int
    stream_id: int
    first_step: int
    steps: list[tuple]
    rows: list[tuple]


def decode(data: bytes) -> Frame:
    """Read a frame. Raises ValueError when it is not one, or is cut short."""
    if len(data) < HEADER.size:
        raise ValueError(f"A frame has at least {HEADER.size} bytes, got {len(data)}.")
    magic, version, kind, _, stream_id, first_step, n_steps, n_rows = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"Not a frame of version {VERSION}: it starts with {data[:5]!r}.")
    rows_at = HEADER.size + n_steps * STEP.size
    expected = rows_at + n_rows * ROW.size
    if len(data) != expected:
        raise ValueError(
            f"A frame of {n_steps} steps and {n_rows} rows has {expected} bytes, got {len(data)}."
        )
    steps = list(STEP.iter_unpack(data[HEADER.size : rows_at]))
    rows = [row[:6] for row in ROW.iter_unpack(data[rows_at:])]
    return Frame(kind, stream_id, first_step, steps, rows)
