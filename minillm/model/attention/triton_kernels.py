"""The two Triton kernels behind triton_paged.py, whose text says what they're for.

Needs the package triton. Scores are kept in base 2: exp2 is the exponential that a GPU has.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def keys_per_part(keys, PARTS: tl.constexpr, BLOCK_N: tl.constexpr):
    """How many of a row's keys a part takes: whole tiles. The last parts may be left with none."""
    return tl.cdiv(tl.cdiv(keys, PARTS), BLOCK_N) * BLOCK_N


INDICES = ["block_tables", "seq_lens", "starts", "cu_seqlens_q", "tiles"]


# A step's own numbers must not make a variant to compile: how wide its tables are, and where in
# memory they begin.
@triton.jit(do_not_specialize=["table_row"], do_not_specialize_on_alignment=INDICES)
def attend(
    out, maxima, sums, q, kv_cache, block_tables, seq_lens, starts, cu_seqlens_q, tiles, scale,
    q_token, q_head, kv_slot, table_row,
    DECODE: tl.constexpr, PARTS: tl.constexpr, KV_HEADS: tl.constexpr, GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Programs (tile, KV head, part): attention of a tile's queries to a part of their row's keys.

    q [tokens, heads, HEAD_DIM] with strides q_token and q_head; kv_cache [slots, 2, KV_HEADS,
    HEAD_DIM] with stride kv_slot; block_tables [rows, …] with stride table_row; scale: of the
    scores, times log2(e). GROUP: query heads of a KV head.
    DECODE: tile i is token i, the only query of row i. Else tiles [·, 2] names the row and the
    first query of each, starts [rows] and cu_seqlens_q [rows + 1] say where those lie.
    PARTS = 1: out [tokens, heads, HEAD_DIM] is the result. Else it is [tokens, heads, PARTS,
    HEAD_DIM], float32, not yet divided by sums; maxima and sums are [tokens, heads, PARTS].
    """
    HEADS: tl.constexpr = KV_HEADS * GROUP
    tile = tl.program_id(0)
    kv_head = tl.program_id(1)
    part = tl.program_id(2)
    m = tl.arange(0, BLOCK_M)
    n = tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    head = kv_head * GROUP + m % GROUP
    if DECODE:
        row = tile
        token = tile + m * 0
        valid = m < GROUP
        end = tl.load(seq_lens + row)
        visible = end + m * 0
    else:
        row = tl.load(tiles + 2 * tile)
        query = tl.load(tiles + 2 * tile + 1) + m // GROUP
        first_token = tl.load(cu_seqlens_q + row)
        queries = tl.load(cu_seqlens_q + row + 1) - first_token
        token = first_token + query
        valid = (m < BLOCK_M // GROUP * GROUP) & (query < queries)
        visible = tl.minimum(tl.load(starts + row) + query + 1, tl.load(seq_lens + row))
        end = tl.max(tl.where(valid, visible, 0), 0)
    begin = 0
    if PARTS > 1:
        size = keys_per_part(end, PARTS, BLOCK_N)
        begin = part * size
        if begin >= end:  # nothing is left for this part, and nobody looks at it
            return
        end = tl.minimum(begin + size, end)

    inside = valid[:, None] & (d < HEAD_DIM)[None, :]
    where = token.to(tl.int64)[:, None] * q_token + head[:, None] * q_head + d[None, :]
    queries_m = tl.load(q + where, mask=inside, other=0.0)
    largest = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    table = block_tables + row.to(tl.int64) * table_row
    for first in range(begin, end, BLOCK_N):
        position = first + n
        written = position < end
        block = tl.load(table + position // BLOCK_SIZE, mask=written, other=0)
        slot = block.to(tl.int64) * BLOCK_SIZE + position % BLOCK_SIZE
        place = kv_cache + slot * kv_slot + kv_head * HEAD_DIM
        read = written[:, None] & (d < HEAD_DIM)[None, :]
        keys = tl.load(place[:, None] + d[None, :], mask=read, other=0.0)
        scores = tl.dot(queries_m, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(position[None, :] < visible[:, None], scores, float("-inf"))
        # A part's first key is seen by all of a tile's valid queries, so no maximum stays −inf.
        higher = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(largest - higher)
        values = tl.load(place[:, None] + KV_HEADS * HEAD_DIM + d[None, :], mask=read, other=0.0)
        total = total * fade + tl.sum(weights, 1)
        acc = tl.dot(weights.to(values.dtype), values, acc * fade[:, None], input_precision="ieee")
        largest = higher

    at = token.to(tl.int64) * HEADS + head
    if PARTS > 1:
        at = at * PARTS + part
        tl.store(maxima + at, largest, mask=valid)
        tl.store(sums + at, total, mask=valid)
    else:
        acc = acc / total[:, None]
    tl.store(out + at[:, None] * HEAD_DIM + d[None, :], acc, mask=inside)


@triton.jit
def join_parts(
    out, parts_out, maxima, sums, seq_lens,
    HEADS: tl.constexpr, PARTS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Programs (token, head): out [tokens, heads, HEAD_DIM] from the parts that `attend` left."""
    token = tl.program_id(0)
    at = token.to(tl.int64) * HEADS + tl.program_id(1)
    part = tl.arange(0, PARTS)
    d = tl.arange(0, BLOCK_D)
    keys = tl.load(seq_lens + token)
    made = part * keys_per_part(keys, PARTS, BLOCK_N) < keys
    largest = tl.load(maxima + at * PARTS + part, mask=made, other=float("-inf"))
    weight = tl.exp2(largest - tl.max(largest, 0))
    total = tl.sum(weight * tl.load(sums + at * PARTS + part, mask=made, other=0.0), 0)
    read = made[:, None] & (d < HEAD_DIM)[None, :]
    place = parts_out + (at * PARTS + part)[:, None] * HEAD_DIM + d[None, :]
    values = tl.load(place, mask=read, other=0.0)
    joined = tl.sum(values * weight[:, None], 0) / total
    tl.store(out + at * HEAD_DIM + d, joined, mask=d < HEAD_DIM)
