"""Attention over the pages where they lie: a Triton kernel for decode rows and prefill chunks.

A program computes one *tile*: some queries of one row, for all query heads that share a KV head,
so that keys and values are read once for the whole group. It walks the row's block table with the
running softmax of FlashAttention (Dao et al. 2022). A decode step of few rows would leave most of
a GPU idle; there a row's keys are cut into parts, a program each, and a second kernel joins them
(Flash-Decoding, Dao et al. 2023). Slots that the row hasn't written are never read.

Needs the package triton, which CUDA builds of torch bring along: import this module only where it
is wanted (select.py). TRITON_INTERPRET=1, set before that import, runs the kernels on a CPU.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from itertools import chain

import torch

from minillm.core.batch import ScheduledRow
from minillm.model.attention.base import AttentionBackend, AttentionMetadata
from minillm.model.attention.triton_kernels import attend, join_parts
from minillm.model.devices import to_device

MAX_PARTS = 32  # of one row's keys in a decode step
SMALLEST_DOT = 16  # no dimension of a product in Triton may be less


@dataclass(frozen=True, slots=True)
class TileShape:
    """How much a program holds: query·head pairs, keys at a time, and a head's padded size."""

    block_m: int
    block_n: int
    block_d: int

    @classmethod
    def of(cls, decode: bool, group: int, head_dim: int, dtype: torch.dtype) -> TileShape:
        """Sizes that fit the shared memory of GPUs from SM80 on; float32 takes twice the room."""
        block_d = power_of_two(max(head_dim, SMALLEST_DOT))
        wide = dtype.itemsize * block_d > 256  # bytes of one key
        least = power_of_two(max(group, SMALLEST_DOT))
        block_m = least if decode else max(least, 32 if wide else 128)
        return cls(block_m, 32 if wide else 64, block_d)


@dataclass(frozen=True, slots=True)
class PagedPlan:
    """A step's int32 tensors. The first `decodes` rows have one query each and no tile.

    block_tables [rows, width], seq_lens [rows]. parts: into how many each decode row's keys are
    cut, at most. For the other rows: starts [rows], cu_seqlens_q [rows + 1], tiles [n, 2] of
    (row, first query).
    """

    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    block_size: int
    decodes: int
    parts: int
    starts: torch.Tensor | None = None
    cu_seqlens_q: torch.Tensor | None = None
    tiles: torch.Tensor | None = None


class TritonBackend(AttentionBackend):
    """See the module's text. heads: query heads. processors: of the GPU, None looks it up."""

    name = "triton"
    capturable = True

    def __init__(self, heads: int, processors: int | None = None) -> None:
        self.heads = heads
        self.processors = processors

    def plan(
        self, metadata: AttentionMetadata, rows: list[ScheduledRow], pool: torch.Tensor
    ) -> PagedPlan:
        layout = metadata.rows
        decodes = sum(row.query_len == 1 for row in layout)  # they come first
        if decodes == len(layout):
            return self.decode_plan(metadata, metadata.seq_lens, metadata.block_tables, pool)
        group = self.heads // pool.shape[3]
        shape = TileShape.of(False, group, pool.shape[4], pool.dtype)
        step = shape.block_m // group
        tiles = [
            (row, first)
            for row in range(decodes, len(layout))
            for first in range(0, layout[row].query_len, step)
        ]
        starts = [row.start for row in layout]
        packed = to_device([*starts, *chain.from_iterable(tiles)], torch.int32, pool.device)
        return PagedPlan(
            metadata.block_tables, metadata.seq_lens, metadata.block_size, decodes,
            self._parts(decodes, pool), packed[: len(starts)], metadata.cu_seqlens_q,
            packed[len(starts) :].view(-1, 2),
        )  # fmt: skip

    def decode_plan(
        self,
        metadata: AttentionMetadata,
        seq_lens: torch.Tensor,
        block_tables: torch.Tensor,
        pool: torch.Tensor,
    ) -> PagedPlan:
        rows = len(seq_lens)
        return PagedPlan(block_tables, seq_lens, metadata.block_size, rows, self._parts(rows, pool))

    def attend(
        self, layer: int, q: torch.Tensor, kv_cache: torch.Tensor, plan: PagedPlan
    ) -> torch.Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        with current(q.device):
            if plan.decodes:
                _attend_decodes(out, q, kv_cache, plan)
            if plan.tiles is not None:
                _launch(out, None, q, kv_cache, plan, decode=False)
        return out

    def _parts(self, rows: int, pool: torch.Tensor) -> int:
        """Enough parts to give every processor two programs; a power of two."""
        if self.processors is None:
            self.processors = torch.cuda.get_device_properties(pool.device).multi_processor_count
        programs = rows * pool.shape[3]
        if not 0 < programs < self.processors:
            return 1
        return min(MAX_PARTS, power_of_two(2 * self.processors // programs))


def power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << (least - 1).bit_length()


def current(device: torch.device) -> contextlib.AbstractContextManager:
    """Triton launches on the current CUDA device, which is a thread's own."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _attend_decodes(
    out: torch.Tensor, q: torch.Tensor, kv_cache: torch.Tensor, plan: PagedPlan
) -> None:
    """Rows of one query each, whose tokens come first: in one go, or in parts that are joined."""
    if plan.parts == 1:
        _launch(out, None, q, kv_cache, plan, decode=True)
        return
    tokens, (_, heads, head_dim) = plan.decodes, q.shape
    parts = torch.empty((tokens, heads, plan.parts, head_dim), dtype=torch.float32, device=q.device)
    stats = parts.new_empty((2, tokens, heads, plan.parts))
    shape = _launch(parts, stats, q, kv_cache, plan, decode=True)
    join_parts[(tokens, heads)](
        out, parts, stats[0], stats[1], plan.seq_lens, HEADS=heads, PARTS=plan.parts,
        HEAD_DIM=head_dim, BLOCK_D=shape.block_d, BLOCK_N=shape.block_n, num_warps=4,
    )  # fmt: skip


def _launch(
    out: torch.Tensor,
    stats: torch.Tensor | None,
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    plan: PagedPlan,
    *,
    decode: bool,
) -> TileShape:
    """Start `attend` for the decode rows or for the tiles. What a variant lacks is passed as out,
    for a pointer it has to be."""
    _, heads, head_dim = q.shape
    kv_heads = kv_cache.shape[2]
    group = heads // kv_heads
    parts = plan.parts if decode else 1
    shape = TileShape.of(decode, group, head_dim, q.dtype)
    maxima, sums = (out, out) if stats is None else stats
    others = (out, out, out) if decode else (plan.starts, plan.cu_seqlens_q, plan.tiles)
    attend[(plan.decodes if decode else len(plan.tiles), kv_heads, parts)](
        out, maxima, sums, q, kv_cache, plan.block_tables, plan.seq_lens, *others,
        head_dim**-0.5 * math.log2(math.e), q.stride(0), q.stride(1), kv_cache.stride(0),
        plan.block_tables.stride(0),
        DECODE=decode, PARTS=parts, KV_HEADS=kv_heads, GROUP=group, HEAD_DIM=head_dim,
        BLOCK_D=shape.block_d, BLOCK_SIZE=plan.block_size, BLOCK_M=shape.block_m,
        BLOCK_N=shape.block_n, num_warps=4 if decode else 8, num_stages=3,
    )  # fmt: skip
    return shape
