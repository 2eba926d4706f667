"""Attention as two batched matrix products: on a CPU often the fastest way there is.

torch's flash kernel for CPUs is made for long sequences. On prompts of up to some hundred tokens
the plain products take half its time, and so do a dozen decoding rows; on fewer rows each product
costs more to start than to compute, and the kernel wins. Scores are rounded to the dtype before
the softmax, as in transformers' eager attention.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from minillm.model.attention.sdpa import LengthGroup

# Scores a head up to which products win; beyond, the traffic of the scores takes what was won.
MOST_SCORES = 1 << 21


def attend_products(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """q [batch, queries, head_dim], k and v [batch, keys, head_dim] → like q.

    mask: additive, [batch, queries or 1, keys].
    """
    scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1), v)


def suits_products(group: LengthGroup) -> bool:
    """Whether a group of rows is faster as products than by the flash kernel."""
    return group.queries > 1 and group.rows * group.queries * group.keys <= MOST_SCORES


@dataclass(slots=True)
class ProductGroup:
    """A length group of several queries a row, computed as products."""

    group: LengthGroup
    _folded: torch.Tensor | None = field(default=None, repr=False)

    @property
    def tokens(self) -> slice:
        return self.group.tokens

    def attend(self, q: torch.Tensor, kv_cache: torch.Tensor) -> torch.Tensor:
        """q [rows · queries, heads, head_dim] → the same shape.

        The query heads that share a KV head are folded into the query length.
        """
        group = self.group
        rows, queries, keys = group.rows, group.queries, group.keys
        _, _, kv_heads, head_dim = kv_cache.shape
        shared = q.shape[1] // kv_heads
        gathered = kv_cache.index_select(0, group.slots)
        gathered = gathered.view(rows, keys, 2, kv_heads, head_dim).permute(2, 0, 3, 1, 4)
        k, v = gathered.reshape(2, rows * kv_heads, keys, head_dim).unbind()
        folded = q.reshape(rows, queries, kv_heads, shared, head_dim).permute(0, 2, 3, 1, 4)
        folded = folded.reshape(rows * kv_heads, shared * queries, head_dim)
        out = attend_products(folded, k, v, self._mask(kv_heads, shared, q.dtype))
        out = out.view(rows, kv_heads, shared, queries, head_dim).permute(0, 3, 1, 2, 4)
        return out.reshape(rows * queries, kv_heads * shared, head_dim)

    def _mask(self, kv_heads: int, shared: int, dtype: torch.dtype) -> torch.Tensor:
        """[rows · kv_heads, shared · queries, keys], made in the first layer."""
        if self._folded is None:
            group = self.group
            mask = group.mask
            if mask is None:  # causal: one row, whose queries are its keys
                size = (1, 1, group.queries, group.keys)
                mask = torch.full(size, float("-inf"), dtype=dtype).triu_(1)
            size = (group.rows, kv_heads, shared, group.queries, group.keys)
            mask = mask.unsqueeze(1).expand(size)
            self._folded = mask.reshape(group.rows * kv_heads, -1, group.keys)
        return self._folded
