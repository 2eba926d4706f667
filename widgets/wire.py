"""The bytes of a frame (docs/contracts.md, "Frames"): little-endian, no padding.

A header, then n_steps steps, then n_rows rows in the order of their steps. With the flag
WITH_BLOCKS there follow, for views of the KV cache: per step its cached blocks and its number of
block operations, per row its start, then the operations in the order of their steps.
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
WITH_BLOCKS = 1  # flag of a frame
STEP_BLOCKS = struct.Struct("<II")  # kv_cached, number of operations
ROW_START = struct.Struct("<I")
OP = struct.Struct("<IiB3x")  # block, req_idx (−1: nobody's), operation
OPS = "afsec"  # alloc, free, share, evict, cached: an operation is sent as its place here
U16 = 0xFFFF


class Frame(NamedTuple):
    """A decoded frame: its header and its steps as (t_start, t_end, waiting, running, kv_used)
    and rows as (step, req_idx, n_tokens, n_padding, kind, flags).

    With blocks: `cached` has a number a step, `starts` one a row, `ops` (step, op, block, req_idx).
    """

    kind: int
    stream_id: int
    first_step: int
    steps: list[tuple]
    rows: list[tuple]
    cached: list[int] | None = None
    starts: list[int] | None = None
    ops: list[tuple] | None = None


def decode(data: bytes) -> Frame:
    """Read a frame. Raises ValueError when it is not one, or is cut short."""
    if len(data) < HEADER.size:
        raise ValueError(f"A frame has at least {HEADER.size} bytes, got {len(data)}.")
    magic, version, kind, flags, stream_id, first_step, n_steps, n_rows = HEADER.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise ValueError(f"Not a frame of version {VERSION}: it starts with {data[:5]!r}.")
    rows_at = HEADER.size + n_steps * STEP.size
    blocks_at = expected = rows_at + n_rows * ROW.size
    if flags & WITH_BLOCKS:
        starts_at = blocks_at + n_steps * STEP_BLOCKS.size
        ops_at = expected = starts_at + n_rows * ROW_START.size
        if len(data) >= ops_at:
            heads = list(STEP_BLOCKS.iter_unpack(data[blocks_at:starts_at]))
            expected += sum(n_ops for _, n_ops in heads) * OP.size
    if len(data) != expected:
        raise ValueError(
            f"A frame of {n_steps} steps and {n_rows} rows has {expected} bytes, got {len(data)}."
        )
    steps = list(STEP.iter_unpack(data[HEADER.size : rows_at]))
    rows = [row[:6] for row in ROW.iter_unpack(data[rows_at:blocks_at])]
    frame = Frame(kind, stream_id, first_step, steps, rows)
    if not flags & WITH_BLOCKS:
        return frame
    starts = [start for (start,) in ROW_START.iter_unpack(data[starts_at:ops_at])]
    owners = [first_step + i for i, (_, n_ops) in enumerate(heads) for _ in range(n_ops)]
    ops = [
        (step, OPS[op], block, req)
        for step, (block, req, op) in zip(owners, OP.iter_unpack(data[ops_at:]), strict=True)
    ]
    return frame._replace(cached=[cached for cached, _ in heads], starts=starts, ops=ops)
