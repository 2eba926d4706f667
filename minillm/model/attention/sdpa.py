"""The reference backend: gather the pages, then torch's scaled_dot_product_attention.

Runs on any device and in any dtype. Rows of like length form a *length group* that is gathered
and computed at once: padding all rows to the longest would be most of a ragged step's cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from minillm.core.batch import ScheduledRow
from minillm.model.attention.base import AttentionBackend, AttentionMetadata, RowLayout

# What another group costs, in gathered tokens: splitting has to save more than that.
# An estimate: a group's few calls take about as long as 500 tokens' gather and product.
GROUP_COST_TOKENS = 500


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Rows of one query length, computed as one batch of keys padded to the longest.

    tokens: their slice of the packed tokens. slots: int64 [rows · keys] to gather.
    mask: additive [rows, 1, queries, keys], or None where every query sees every key.
    """

    tokens: slice
    rows: int
    queries: int
    keys: int
    slots: torch.Tensor
    mask: torch.Tensor | None
    causal: bool

    def attend(self, q: torch.Tensor, kv_cache: torch.Tensor) -> torch.Tensor:
        """q [rows · queries, heads, head_dim] → the same shape."""
        _, _, kv_heads, head_dim = kv_cache.shape
        heads = q.shape[1]
        gathered = kv_cache.index_select(0, self.slots)
        gathered = gathered.view(self.rows, self.keys, 2, kv_heads, head_dim)
        k, v = gathered[:, :, 0].transpose(1, 2), gathered[:, :, 1].transpose(1, 2)
        if self.queries == 1:
            # The query heads that share a KV head are folded into the query length: K and V are
            # read once for all of them.
            folded = q.reshape(self.rows, kv_heads, heads // kv_heads, head_dim)
            out = F.scaled_dot_product_attention(folded, k, v, attn_mask=self.mask)
            return out.reshape(self.rows, heads, head_dim)
        q = q.unflatten(0, (self.rows, self.queries)).transpose(1, 2)
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=self.mask, is_causal=self.causal, enable_gqa=heads != kv_heads
        )
        return out.transpose(1, 2).reshape(-1, heads, head_dim)


class SDPABackend(AttentionBackend):
    """See the module's text. group_cost: what a further group costs, in gathered tokens."""

    name = "sdpa"

    def __init__(self, group_cost: int = GROUP_COST_TOKENS) -> None:
        self.group_cost = group_cost

    def plan(
        self, metadata: AttentionMetadata, rows: list[ScheduledRow], pool: torch.Tensor
    ) -> list[LengthGroup]:
        return self.length_groups(metadata, 0, pool.dtype)

    def length_groups(
        self, metadata: AttentionMetadata, first: int, dtype: torch.dtype
    ) -> list[LengthGroup]:
        """Groups of neighbours from row `first` on; the rows before it have one token each."""
        groups = []
        token = row = first
        for size in split_by_length(metadata.rows[first:], self.group_cost):
            groups.append(_make_group(metadata, slice(row, row + size), token, dtype))
            row += size
            token = groups[-1].tokens.stop
        return groups

    def attend(
        self, layer: int, q: torch.Tensor, kv_cache: torch.Tensor, plan: list[LengthGroup]
    ) -> torch.Tensor:
        parts = [group.attend(q[group.tokens], kv_cache) for group in plan]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def split_by_length(rows: list[RowLayout], group_cost: int) -> list[int]:
    """Sizes of the groups in which to compute rows, which are in order of (query, key) length.

    Rows of a group have one query length. The split is the cheapest, where a group costs
    rows · longest keys + group_cost: dynamic programming over the end of the last group.
    Where n rows hold more padding than group_cost · (1 + ½ + … + 1/n), some split pays, so no
    group reaches further back than that.
    """
    best = [0.0]  # best[i]: cheapest cost of the first i rows
    last = [0]  # last[i]: size of the last group in it
    for end in range(1, len(rows) + 1):
        longest, queries = rows[end - 1].seq_len, rows[end - 1].query_len
        cheapest, size, padding, limit = float("inf"), 1, 0, 0.0
        for begin in range(end - 1, -1, -1):
            if rows[begin].query_len != queries:
                break
            padding += longest - rows[begin].seq_len
            limit += group_cost / (end - begin)
            if padding > limit:
                break
            cost = best[begin] + (end - begin) * longest + group_cost
            if cost < cheapest:
                cheapest, size = cost, end - begin
        best.append(cheapest)
        last.append(size)
    sizes = []
    end = len(rows)
    while end:
        sizes.append(last[end])
        end -= last[end]
    return sizes[::-1]


def gather_slots(metadata: AttentionMetadata, members: slice, keys: int) -> torch.Tensor:
    """int64 [rows · keys]: the slots of each row's first `keys` tokens.

    Exactly what the row has written: past its end its own first token is read again, to be
    masked. An unwritten slot may hold anything (in tests NaN), and 0 · NaN would leak.
    """
    size, lens = metadata.block_size, metadata.seq_lens[members].unsqueeze(1)
    position = torch.arange(keys, dtype=torch.int32, device=lens.device)
    inside = torch.where(position < lens, position, 0)
    block = torch.div(inside, size, rounding_mode="floor")
    table = metadata.block_tables[members].to(torch.int64)
    return table.gather(1, block.to(torch.int64)).mul_(size).add_(inside - block * size).view(-1)


def _make_group(
    metadata: AttentionMetadata, members: slice, first_token: int, dtype: torch.dtype
) -> LengthGroup:
    rows = metadata.rows[members]
    device = metadata.slot_mapping.device
    queries = rows[0].query_len
    keys = max(row.seq_len for row in rows)
    lens = metadata.seq_lens[members].unsqueeze(1)
    ragged = any(row.seq_len != keys for row in rows)

    slots = gather_slots(metadata, members, keys)
    causal = len(rows) == 1 and rows[0].start == 0 and queries == keys > 1
    mask = None
    if not causal and (ragged or queries > 1):
        start = torch.tensor([[row.start] for row in rows], dtype=torch.int32, device=device)
        query = torch.arange(1, queries + 1, dtype=torch.int32, device=device)
        position = torch.arange(keys, dtype=torch.int32, device=device)
        visible = torch.minimum(start + query, lens).unsqueeze(2)  # keys that query i sees
        mask = torch.zeros(len(rows), 1, queries, keys, dtype=dtype, device=device)
        mask.masked_fill_((position >= visible).unsqueeze(1), float("-inf"))
    tokens = slice(first_token, first_token + len(rows) * queries)
    return LengthGroup(tokens, len(rows), queries, keys, slots, mask, causal)
