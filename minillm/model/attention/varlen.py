"""Attention through torch's own variable-length kernel (torch.nn.attention.varlen). Experimental.

Never chosen by itself: pass it to ModelRunner to compare. Needs CUDA from SM80 on, bfloat16 or
float16. Where torch's function takes a block table, it reads pages, and their size has to be a
multiple of 256; where it doesn't yet, the pages are gathered first. What it takes is read from its
signature, and `varlen_attn` may be any function with that contract.

Its causal mask ends at the last key, as a row's real tokens want it. Padding sees all keys, so it
is computed by a second call without a mask.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch

from minillm.core.batch import ScheduledRow
from minillm.model.attention.base import AttentionBackend, AttentionMetadata
from minillm.model.devices import to_device

PAGE_MULTIPLE = 256  # of the FlashAttention-2 kernel that stock torch calls


@dataclass(frozen=True, slots=True)
class VarlenCall:
    """One call's arguments beside q, k and v. tokens: which of q's they are, None: all.

    slots: of the keys to gather, one row behind another; None: pages are read by block table.
    """

    tokens: torch.Tensor | None
    cu_seq_q: torch.Tensor
    cu_seq_k: torch.Tensor
    max_q: int
    max_k: int
    causal: bool
    slots: torch.Tensor | None
    block_tables: torch.Tensor | None
    seq_lens: torch.Tensor | None


class VarlenBackend(AttentionBackend):
    """See the module's text. Raises ValueError where torch has no such function, and for block
    sizes that its pages can't have."""

    name = "varlen"

    def __init__(self, varlen_attn: Callable | None = None) -> None:
        self.varlen_attn = varlen_attn or _torchs_own()
        self.parameters = frozenset(inspect.signature(self.varlen_attn).parameters)
        self.paged = "block_table" in self.parameters

    def plan(
        self, metadata: AttentionMetadata, rows: list[ScheduledRow], pool: torch.Tensor
    ) -> tuple[int, list[VarlenCall]]:
        if self.paged and metadata.block_size % PAGE_MULTIPLE:
            raise ValueError(
                f"The varlen backend reads pages of a multiple of {PAGE_MULTIPLE} tokens; "
                f"block_size is {metadata.block_size}."
            )
        calls = []
        layout = metadata.rows
        padded = any(row.num_padding for row in layout)
        if any(row.num_tokens for row in layout):
            calls.append(self._call(metadata, causal=True, some=padded))
        if padded:
            calls.append(self._call(metadata, causal=False, some=True))
        return metadata.block_size, calls

    def _call(self, metadata: AttentionMetadata, *, causal: bool, some: bool) -> VarlenCall:
        """All rows' real tokens (causal), or their padding."""
        device = metadata.slot_mapping.device
        firsts = list(accumulate((row.query_len for row in metadata.rows), initial=0))
        members, counts, tokens = [], [], []
        for i, row in enumerate(metadata.rows):
            count = row.num_tokens if causal else row.num_padding
            if count:
                begin = firsts[i] + (0 if causal else row.num_tokens)
                members.append(i)
                counts.append(count)
                tokens.extend(range(begin, begin + count))
        lens = [metadata.rows[i].seq_len for i in members]

        def int32(values: list[int]) -> torch.Tensor:
            return to_device(values, torch.int32, device)

        index = to_device(members, torch.int64, device)
        slots = None
        if not self.paged:
            size = metadata.block_size
            slots = [
                block * size + offset
                for i, length in zip(members, lens, strict=True)
                for block, used in _blocks(metadata.rows[i].block_ids, length, size)
                for offset in range(used)
            ]
            slots = to_device(slots, torch.int64, device)
        return VarlenCall(
            to_device(tokens, torch.int64, device) if some else None,
            int32(list(accumulate(counts, initial=0))), int32(list(accumulate(lens, initial=0))),
            max(counts), max(lens), causal, slots,
            metadata.block_tables.index_select(0, index) if self.paged else None,
            int32(lens) if self.paged else None,
        )  # fmt: skip

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        kv_cache: torch.Tensor,
        plan: tuple[int, list[VarlenCall]],
    ) -> torch.Tensor:
        block_size, calls = plan
        if len(calls) == 1 and calls[0].tokens is None:
            return self._run(q, kv_cache, block_size, calls[0])
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for call in calls:
            out[call.tokens] = self._run(q[call.tokens], kv_cache, block_size, call)
        return out

    def _run(
        self, q: torch.Tensor, kv_cache: torch.Tensor, block_size: int, call: VarlenCall
    ) -> torch.Tensor:
        options: dict = {}
        cu_seq_k: torch.Tensor | None = call.cu_seq_k
        if call.slots is not None:
            k, v = kv_cache.index_select(0, call.slots).unbind(1)
        else:
            k, v = kv_cache.unflatten(0, (-1, block_size)).unbind(2)
            options |= {"seqused_k": call.seq_lens, "block_table": call.block_tables}
            cu_seq_k = None
        group = q.shape[1] // kv_cache.shape[2]
        if "enable_gqa" in self.parameters:
            options["enable_gqa"] = group > 1
        elif group > 1:
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        if "window_size" in self.parameters:
            options["window_size"] = (-1, 0) if call.causal else (-1, -1)
        else:
            options["is_causal"] = call.causal
        if "num_splits" in self.parameters:
            options["num_splits"] = 1  # torch issue 194167: splits over pages leave rows unwritten
        return self.varlen_attn(
            q.contiguous(), k, v, call.cu_seq_q, cu_seq_k, call.max_q, call.max_k, **options
        )


def _blocks(table: tuple[int, ...], tokens: int, size: int) -> list[tuple[int, int]]:
    """(block, tokens in it) of a row's first `tokens` tokens."""
    count = -(-tokens // size)
    return [(table[i], min(size, tokens - i * size)) for i in range(count)]


def _torchs_own() -> Callable:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError as error:
        raise ValueError(
            f"The varlen backend needs torch.nn.attention.varlen, which torch "
            f"{torch.__version__} lacks."
        ) from error
    return varlen_attn
