"""The varlen backend on a CPU: torch's kernel replaced by its documented contract.

What torch's own kernel gives is compared on a GPU (tests/gpu).
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from minillm.model.attention.varlen import VarlenBackend
from tests.model.attention_cases import check_backend, make_case


def _rows(query, key, value, cu_seq_q, cu_seq_k, causal):
    """Attention of sequences one behind another; a causal mask ends at the last key."""
    out = torch.empty_like(query)
    for i in range(len(cu_seq_q) - 1):
        q = query[cu_seq_q[i] : cu_seq_q[i + 1]]
        k, v = key[cu_seq_k[i] : cu_seq_k[i + 1]], value[cu_seq_k[i] : cu_seq_k[i + 1]]
        scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
            scores.masked_fill_(~seen, float("-inf"))
        weights = scores.softmax(-1)
        out[cu_seq_q[i] : cu_seq_q[i + 1]] = torch.einsum("hqk,khd->qhd", weights, v)
    return out


def first_version(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal=False):
    """As torch had it at first: one key head a query head, no pages."""
    assert key.shape == value.shape == (int(cu_seq_k[-1]), *query.shape[1:])
    assert max_q == cu_seq_q.diff().max()
    assert max_k == cu_seq_k.diff().max()
    return _rows(query, key, value, cu_seq_q, cu_seq_k, is_causal)


def paged_version(
    query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1),
    enable_gqa=False, seqused_k=None, block_table=None, num_splits=None,
):  # fmt: skip
    """As torch 2.13 has it: key and value [pages, page size, KV heads, head_dim]."""
    assert cu_seq_k is None
    assert num_splits == 1
    assert max_k == seqused_k.max()
    assert block_table.dtype == seqused_k.dtype == torch.int32
    keys = [key[table.long()].flatten(0, 1)[:n] for table, n in zip(block_table, seqused_k)]  # noqa: B905
    values = [value[table.long()].flatten(0, 1)[:n] for table, n in zip(block_table, seqused_k)]  # noqa: B905
    group = query.shape[1] // key.shape[2]
    assert enable_gqa == (group > 1)
    ends = torch.cat((torch.zeros(1, dtype=torch.int32), seqused_k.cumsum(0)))
    k, v = (torch.cat(x).repeat_interleave(group, 1) for x in (keys, values))
    return _rows(query, k, v, cu_seq_q, ends, window_size == (-1, 0))


RAGGED = [(3, 1, 0), (18, 1, 0), (600, 1, 0), (0, 7, 0), (5, 7, 0), (40, 29, 0), (255, 30, 0)]
PADDED = [(0, 3, 6), (0, 5, 4), (0, 9, 0)]
DEAD = [(4, 0, 1), (9, 0, 1)]
MIXED = [(4, 0, 1), (6, 1, 0), (9, 0, 1), (12, 1, 0), (3, 5, 2)]


@pytest.mark.parametrize("shapes", [RAGGED, PADDED, DEAD, MIXED])
@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (4, 4)])
@pytest.mark.parametrize(("varlen_attn", "block_size"), [(first_version, 16), (paged_version, 256)])
def test_any_step(shapes, heads, kv_heads, varlen_attn, block_size):
    case = make_case(shapes, heads, kv_heads, block_size)
    check_backend(VarlenBackend(varlen_attn), case, 1e-9)


def test_pages_that_the_kernel_cannot_read_are_refused():
    _, _, cache, metadata, _ = make_case(RAGGED, 4, 4, 16)
    with pytest.raises(ValueError, match="256") as error:
        VarlenBackend(paged_version).plan(metadata, [], cache.unsqueeze(0))
    assert "block_size is 16" in str(error.value)


def test_torch_here_has_the_function():
    """A torch that renamed it, or one of the parameters we give, would show here."""
    backend = VarlenBackend()
    assert {"cu_seq_q", "cu_seq_k", "max_q", "max_k"} <= backend.parameters
    assert backend.parameters & {"window_size", "is_causal"}
