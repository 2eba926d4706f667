"""The contract of an attention backend, and the metadata of a step that it gets as an argument.

The KV cache of one layer is a tensor [slots, 2, kv_heads, head_dim]: key and value of a token lie
side by side, and token t of a sequence is in slot block_ids[t // size] · size + t % size. The
last block is the *null block*: what isn't to be kept (slot −1) is written there and never read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from minillm.core.batch import ScheduledRow
from minillm.model.devices import to_device


class RowLayout(NamedTuple):
    """One row of a step, in tokens.

    start: tokens whose KV the cache holds already. num_tokens: real tokens in this step.
    num_padding: padding tokens after them. block_ids: the sequence's whole block table.
    """

    start: int
    num_tokens: int
    num_padding: int
    block_ids: tuple[int, ...]

    @property
    def query_len(self) -> int:
        return self.num_tokens + self.num_padding

    @property
    def seq_len(self) -> int:
        """Keys there are for the row: padding sees them all, and adds none."""
        return self.start + self.num_tokens


@dataclass(frozen=True)
class AttentionMetadata:
    """A step as attention sees it: rows in the order in which their tokens are packed.

    slot_mapping: int64 [tokens], where each token's KV goes; the null block's slots for padding.
    The tensors that a kernel over pages wants are made when first asked for.
    """

    rows: list[RowLayout]
    slot_mapping: torch.Tensor
    block_size: int
    num_blocks: int  # the null block's id, too

    @cached_property
    def cu_seqlens_q(self) -> torch.Tensor:
        """int32 [rows + 1]: where each row's tokens begin in the packed ones."""
        starts = [0]
        for row in self.rows:
            starts.append(starts[-1] + row.query_len)
        return self._tensor(starts)

    @cached_property
    def seq_lens(self) -> torch.Tensor:
        """int32 [rows]: keys of each row, this step's real tokens included."""
        return self._tensor([row.seq_len for row in self.rows])

    @cached_property
    def block_tables(self) -> torch.Tensor:
        """int32 [rows, longest table], filled up with the null block."""
        width = max(len(row.block_ids) for row in self.rows)
        null = (self.num_blocks,)
        return self._tensor(
            [row.block_ids + null * (width - len(row.block_ids)) for row in self.rows]
        )

    def _tensor(self, values: list) -> torch.Tensor:
        return to_device(values, torch.int32, self.slot_mapping.device)


class AttentionBackend(ABC):
    """Attention of a step's queries over the paged cache.

    Once a step: `arrange` puts the rows in the order in which their tokens are packed, and `plan`
    makes what all layers share. Then `write` and `attend` in every layer.
    pool [layers, slots, 2, kv_heads, head_dim] is the whole cache, kv_cache one layer of it.
    """

    name: str
    capturable = False  # whether a decode step can be captured in a CUDA graph: see decode_plan

    def arrange(self, rows: Sequence[ScheduledRow], pool: torch.Tensor) -> list[ScheduledRow]:
        """In order of query length, then context: rows of like length become neighbours."""
        return sorted(rows, key=_by_length)

    @abstractmethod
    def plan(
        self, metadata: AttentionMetadata, rows: list[ScheduledRow], pool: torch.Tensor
    ) -> object:
        """What all layers share: groups, masks, indices. rows: as arranged."""

    def decode_plan(
        self,
        metadata: AttentionMetadata,
        seq_lens: torch.Tensor,
        block_tables: torch.Tensor,
        pool: torch.Tensor,
    ) -> object:
        """The plan of a step whose rows have one query each, from tensors that are filled later.

        For capturable backends: their plan and kernels read nothing of the step but these.
        seq_lens: int32 [rows]. block_tables: int32 [rows, width]. Of metadata: block_size alone.
        """
        raise NotImplementedError(f"The {self.name} backend can't be captured.")

    @abstractmethod
    def attend(
        self, layer: int, q: torch.Tensor, kv_cache: torch.Tensor, plan: object
    ) -> torch.Tensor:
        """q [tokens, heads, head_dim] → the same shape.

        Query i of a row sees the keys at positions 0 … min(start + i, seq_len − 1).
        """

    def write(
        self,
        layer: int,
        kv: torch.Tensor,
        kv_cache: torch.Tensor,
        metadata: AttentionMetadata,
        plan: object,
    ) -> None:
        """Put kv [tokens, 2, kv_heads, head_dim] where slot_mapping says."""
        kv_cache.index_copy_(0, metadata.slot_mapping, kv)


def _by_length(row: ScheduledRow) -> tuple[int, int]:
    return row.num_tokens + row.num_padding, row.start + row.num_tokens
