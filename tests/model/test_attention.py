"""The SDPA backend against attention written out, over pages that hold NaN where unwritten."""

from __future__ import annotations

from itertools import pairwise

import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given
from hypothesis import strategies as st

from minillm.model.attention import AttentionMetadata, RowLayout, SDPABackend
from minillm.model.attention.sdpa import split_by_length
from tests.model.attention_cases import check_backend, make_case


def check(shapes, heads=6, kv_heads=2, block_size=4, group_cost=500):
    check_backend(SDPABackend(group_cost), make_case(shapes, heads, kv_heads, block_size), 1e-9)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (8, 2), (4, 4)])
@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("group_cost", [0, 500])
def test_ragged_rows(heads, kv_heads, block_size, group_cost):
    """Decode rows, chunks with and without context, whole prompts: queries 1, 7 and 129."""
    shapes = [(3, 1, 0), (18, 1, 0), (130, 1, 0), (0, 7, 0), (5, 7, 0), (0, 129, 0), (40, 129, 0)]
    check(shapes, heads, kv_heads, block_size, group_cost)


def test_padded_prefill_is_one_group():
    """Rows of 3 + 6, 5 + 4 and 9 + 0 tokens: padding sees its row's context, and nothing is NaN."""
    shapes = [(0, 3, 6), (0, 5, 4), (0, 9, 0)]
    check(shapes)
    _, _, _, metadata, _ = make_case(shapes, 6, 2, 4)
    (group,) = SDPABackend().plan(metadata, [], torch.empty(0).double())
    assert (group.rows, group.queries, group.keys) == (3, 9, 9)


def test_dead_rows_beside_decode_rows():
    """A dead row has one padding token at its context's end, and adds no key."""
    check([(4, 0, 1), (6, 1, 0), (9, 0, 1), (12, 1, 0)])


def test_padding_is_written_to_the_null_block_alone():
    _, new_kv, cache, metadata, _ = make_case([(2, 1, 3), (0, 4, 0)], 6, 2, 4)
    before = cache.clone()
    SDPABackend().write(0, new_kv, cache, metadata, [])
    changed = (cache != before).flatten(1).any(1) & ~cache.flatten(1).isnan().any(1)
    null = metadata.num_blocks * metadata.block_size
    assert set(changed.nonzero().flatten().tolist()) == set(metadata.slot_mapping.tolist())
    assert (metadata.slot_mapping == null).sum() == 3


def test_tensors_for_kernels():
    rows = [RowLayout(3, 1, 0, (5,)), RowLayout(4, 2, 1, (1, 2))]
    metadata = AttentionMetadata(rows, torch.tensor([23, 8, 9, 28]), 4, 7)
    assert metadata.cu_seqlens_q.tolist() == [0, 1, 4]
    assert metadata.seq_lens.tolist() == [4, 6]
    assert metadata.block_tables.tolist() == [[5, 7], [1, 2]]


def cost(rows, sizes, group_cost):
    total, at = 0, 0
    for size in sizes:
        total += size * rows[at + size - 1].seq_len + group_cost
        at += size
    return total


def all_splits(n):
    if n == 0:
        yield []
    for size in range(1, n + 1):
        for rest in all_splits(n - size):
            yield [size, *rest]


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 4]), st.integers(1, 400)), max_size=8),
    st.integers(0, 300),
)
def test_split_by_length_is_the_cheapest(shapes, group_cost):
    rows = [RowLayout(length, queries, 0, ()) for queries, length in shapes]
    rows.sort(key=lambda row: (row.query_len, row.seq_len))
    sizes = split_by_length(rows, group_cost)
    assert sum(sizes) == len(rows)

    def legal(split):
        at = 0
        for size in split:
            if len({row.query_len for row in rows[at : at + size]}) > 1:
                return False
            at += size
        return True

    assert legal(sizes)
    cheapest = min(cost(rows, s, group_cost) for s in all_splits(len(rows)) if legal(s))
    assert cost(rows, sizes, group_cost) == cheapest


def test_groups_cover_the_tokens_in_order():
    shapes = [(3, 1, 0), (900, 1, 0), (0, 7, 0), (0, 129, 0)]
    _, _, _, metadata, _ = make_case(shapes, 6, 2, 4)
    groups = SDPABackend(group_cost=100).plan(metadata, [], torch.empty(0).double())
    assert len(groups) == 4
    assert groups[0].tokens.start == 0
    assert all(a.tokens.stop == b.tokens.start for a, b in pairwise(groups))
    assert groups[-1].tokens.stop == len(metadata.slot_mapping)
