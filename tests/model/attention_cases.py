"""Steps as an attention backend sees them, over pages that hold NaN where nothing was written."""

from __future__ import annotations

import torch

from minillm.model.attention import AttentionBackend, AttentionMetadata, RowLayout, SDPABackend


def written_out(q, keys, values, start, seq_len):
    """Attention of one row as its definition says: query i sees min(start + i + 1, seq_len) keys.

    q [queries, heads, D], keys and values [n, kv_heads, D].
    """
    queries, heads, head_dim = q.shape
    k, v = (x.repeat_interleave(heads // x.shape[1], 1) for x in (keys, values))
    visible = (torch.arange(queries) + start + 1).clamp(max=seq_len)
    scores = torch.einsum("qhd,nhd->hqn", q, k) * head_dim**-0.5
    scores.masked_fill_(torch.arange(seq_len) >= visible[:, None], float("-inf"))
    return torch.einsum("hqn,nhd->qhd", scores.softmax(-1), v)


def make_case(
    shapes, heads, kv_heads, block_size, seed=0, *, head_dim=16, dtype=torch.float64, device="cpu"
):
    """shapes: (start, num_tokens, num_padding) a row, in order of length. Blocks are scattered.

    Returns q, the new keys and values, the layer's cache, the metadata, and each row's context.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        made = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return made.to(device=device, dtype=dtype)

    tables = [-(-(start + tokens) // block_size) for start, tokens, _ in shapes]
    num_blocks = sum(tables) + 2
    order = torch.randperm(num_blocks, generator=generator).tolist()
    pool_shape = ((num_blocks + 1) * block_size, 2, kv_heads, head_dim)
    cache = torch.full(pool_shape, float("nan"), dtype=dtype, device=device)
    rows, slots, new_kv, context = [], [], [], []
    for (start, tokens, padding), blocks in zip(shapes, tables, strict=True):
        table = tuple(order.pop() for _ in range(blocks))
        kv = normal(start + tokens, 2, kv_heads, head_dim)
        where = [table[p // block_size] * block_size + p % block_size for p in range(len(kv))]
        cache[where[:start]] = kv[:start]
        slots += where[start:] + [num_blocks * block_size] * padding
        new_kv += [kv[start:], normal(padding, 2, kv_heads, head_dim)]
        rows.append(RowLayout(start, tokens, padding, table))
        context.append(kv)
    slot_mapping = torch.tensor(slots, device=device)
    metadata = AttentionMetadata(rows, slot_mapping, block_size, num_blocks)
    q = normal(sum(row.query_len for row in rows), heads, head_dim)
    return q, torch.cat(new_kv), cache, metadata, context


def check_backend(backend: AttentionBackend, case, tolerance: float) -> None:
    """Its output equals attention written out in float64, within tolerance (of 1 + |value|)."""
    q, new_kv, cache, metadata, context = case
    plan = backend.plan(metadata, [], cache.unsqueeze(0))
    backend.write(0, new_kv, cache, metadata, plan)
    out = backend.attend(0, q, cache, plan)
    assert out.shape == q.shape
    assert out.dtype == q.dtype
    token = 0
    for row, kv in zip(metadata.rows, context, strict=True):
        mine = slice(token, token + row.query_len)
        k, v = kv.double().cpu().unbind(1)
        expected = written_out(q[mine].double().cpu(), k, v, row.start, row.seq_len)
        actual = out[mine].double().cpu()
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
        token = mine.stop


class WholeTables(AttentionBackend):
    """Capturable, in plain torch: decode rows over all that their block tables name, masked."""

    name = "whole-tables"
    capturable = True

    def plan(self, metadata, rows, pool):
        if any(row.query_len > 1 for row in metadata.rows):
            return SDPABackend().plan(metadata, rows, pool)
        return self.decode_plan(metadata, metadata.seq_lens, metadata.block_tables, pool)

    def decode_plan(self, metadata, seq_lens, block_tables, pool):
        within = torch.arange(metadata.block_size)
        slots = (block_tables.unsqueeze(-1) * metadata.block_size + within).flatten(1)
        return slots, torch.arange(slots.shape[1]) < seq_lens.unsqueeze(1)

    def attend(self, layer, q, kv_cache, plan):
        if isinstance(plan, list):
            return SDPABackend().attend(layer, q, kv_cache, plan)
        slots, seen = plan
        kv = torch.where(seen[:, :, None, None, None], kv_cache[slots.long()], 0.0)
        k, v = kv.repeat_interleave(q.shape[1] // kv.shape[3], 3).unbind(2)
        scores = torch.einsum("rhd,rnhd->rhn", q, k) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~seen.unsqueeze(1), float("-inf")).softmax(-1)
        return torch.einsum("rhn,rnhd->rhd", weights, v)
