"""Attention on a CPU that reads a decoding sequence's keys and values where they lie.

Gathering pages anew in every layer of every step is most of what attention costs on a CPU. So
each sequence that decodes gets, beside its pages, a *place* on a shelf: its keys and values once
more, contiguous, kept up to date token by token. The pages stay the truth (prefixes, preemption
and prefill work on them); a place is a copy that may be dropped at any time and loaded again.

A shelf holds sequences of similar length as one tensor [layers, 2, places, kv_heads, capacity,
head_dim], its places filled from the front, so that a layer's decode attention is two batched
products on a view. What doesn't decode, or finds no room, is computed by the SDPA backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from minillm.core.batch import ScheduledRow
from minillm.core.request import Request
from minillm.model.attention.base import AttentionMetadata
from minillm.model.attention.products import ProductGroup, attend_products, suits_products
from minillm.model.attention.sdpa import LengthGroup, SDPABackend, gather_slots
from minillm.model.devices import zeros

# Few shelves: on one that is half empty a row costs less than starting another product does.
CAPACITIES = (128, 256, 512, 768)  # then by half as much again
FEW_KEYS = 1 << 17  # numbers in a group's keys up to which the flash kernel is the faster one


def capacity_for(tokens: int) -> int:
    """The smallest capacity that holds so many tokens."""
    for capacity in CAPACITIES:
        if tokens <= capacity:
            return capacity
    capacity = 1024
    while capacity < tokens:
        capacity += capacity // 2
    return capacity


class Shelf:
    """Places for sequences of up to `capacity` tokens; members[i] is at place i."""

    def __init__(self, capacity: int, places: int, like: torch.Tensor) -> None:
        layers, _, _, kv_heads, head_dim = like.shape
        shape = (layers, 2, places, kv_heads, capacity, head_dim)
        self.capacity = capacity
        # Zeros, because what is masked must be finite.
        self.store = zeros(shape, like.dtype, like.device)
        self.members: list[Request] = []

    def load(self, place: int, tokens: torch.Tensor) -> None:
        """tokens [layers, n, 2, kv_heads, head_dim] become the first n at that place."""
        self.store[:, :, place, :, : tokens.shape[1]] = tokens.permute(0, 2, 3, 1, 4)

    def remove(self, place: int, held: dict[Request, int]) -> None:
        """Empty a place; the last member moves there, so that the front stays filled."""
        last = self.members.pop()
        if place < len(self.members):
            count = held[last]
            source = self.store[:, :, len(self.members), :, :count]
            self.store[:, :, place, :, :count] = source
            self.members[place] = last


@dataclass(frozen=True, slots=True)
class ShelfGroup:
    """One shelf's part of a step. rows: the first places, and as many packed tokens.

    index: int64 [rows · 2 · kv_heads], where the new keys and values go in the layer's store.
    mask: additive [rows · kv_heads, 1, capacity]: all of a place takes part, for torch would copy
    a part of it first, which costs more.
    """

    shelf: Shelf
    tokens: slice
    index: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True, slots=True)
class ResidentPlan:
    shelves: list[ShelfGroup]
    others: list[LengthGroup | ProductGroup]


class ResidentBackend(SDPABackend):
    """See the module's text. It keeps at most as many bytes beside the pool as the pool has."""

    name = "resident"

    def __init__(self) -> None:
        super().__init__()
        self.shelves: dict[int, Shelf] = {}
        self.held: dict[Request, int] = {}  # tokens that a place holds, per sequence
        self.on: dict[Request, Shelf] = {}
        self._pool: torch.Tensor | None = None

    def arrange(self, rows: Sequence[ScheduledRow], pool: torch.Tensor) -> list[ScheduledRow]:
        """Decoding rows shelf by shelf, in the order of their places; then the rest by length."""
        if self._pool is not pool:
            self.shelves, self.held, self.on, self._pool = {}, {}, {}, pool
        decoding = {row.request: row for row in rows if row.num_tokens + row.num_padding == 1}
        for request in [r for r, shelf in self.on.items() if not self._stays(r, shelf, decoding)]:
            self._drop(request)
        for request, row in decoding.items():
            if request not in self.on:
                self._place(request, row.start + row.num_tokens)
        placed = [
            decoding[request]
            for shelf in self.shelves.values()
            for request in shelf.members
        ]  # fmt: skip
        rest = [row for row in rows if row.request not in self.on]
        return placed + super().arrange(rest, pool)

    def plan(
        self, metadata: AttentionMetadata, rows: list[ScheduledRow], pool: torch.Tensor
    ) -> ResidentPlan:
        groups = []
        first = 0
        for shelf in self.shelves.values():
            if shelf.members:
                members = slice(first, first + len(shelf.members))
                groups.append(self._group(shelf, metadata, members, pool))
                first = members.stop
        others = self.length_groups(metadata, first, pool.dtype)
        others = [ProductGroup(group) if suits_products(group) else group for group in others]
        return ResidentPlan(groups, others)

    def write(self, layer, kv, kv_cache, metadata, plan: ResidentPlan) -> None:
        super().write(layer, kv, kv_cache, metadata, plan)
        head_dim = kv.shape[-1]
        for group in plan.shelves:
            store = group.shelf.store[layer].view(-1, head_dim)
            store.index_copy_(0, group.index, kv[group.tokens].reshape(-1, head_dim))

    def attend(self, layer, q, kv_cache, plan: ResidentPlan) -> torch.Tensor:
        parts = [_attend_shelf(q[group.tokens], layer, group) for group in plan.shelves]
        if plan.others:
            parts.append(super().attend(layer, q, kv_cache, plan.others))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    # ── places ──────────────────────────────────────────────────────────────────────────────

    def _stays(self, request: Request, shelf: Shelf, decoding: dict[Request, ScheduledRow]) -> bool:
        row = decoding.get(request)
        if row is None or row.start > self.held[request]:
            return False
        return row.start + row.num_tokens <= shelf.capacity

    def _drop(self, request: Request) -> None:
        shelf = self.on.pop(request)
        shelf.remove(shelf.members.index(request), self.held)
        del self.held[request]

    def _place(self, request: Request, tokens: int) -> None:
        """Give a sequence a place, to be loaded by `plan`, if there is memory for it."""
        capacity = capacity_for(tokens)
        shelf = self.shelves.get(capacity)
        full = shelf is not None and len(shelf.members) == shelf.store.shape[2]
        if shelf is None or full:
            shelf = self._make_room(capacity)
            if shelf is None:
                return
        shelf.members.append(request)
        self.on[request] = shelf
        self.held[request] = 0

    def _make_room(self, capacity: int) -> Shelf | None:
        """A shelf with a free place: a new one, or the old one's content on one twice as long."""
        old = self.shelves.get(capacity)
        places = 2 * old.store.shape[2] if old else 4
        layers, _, _, kv_heads, head_dim = self._pool.shape
        size = layers * 2 * places * kv_heads * capacity * head_dim * self._pool.itemsize
        for key in [k for k, s in self.shelves.items() if not s.members]:
            if self._bytes() + size > self._pool.nbytes:
                del self.shelves[key]
        if self._bytes() + size > self._pool.nbytes:
            return None
        shelf = Shelf(capacity, places, self._pool)
        if old:
            shelf.store[:, :, : len(old.members)] = old.store[:, :, : len(old.members)]
            shelf.members = old.members
            self.on.update(dict.fromkeys(old.members, shelf))
        self.shelves[capacity] = shelf
        return shelf

    def _bytes(self) -> int:
        return sum(shelf.store.nbytes for shelf in self.shelves.values())

    # ── a step ──────────────────────────────────────────────────────────────────────────────

    def _group(
        self, shelf: Shelf, metadata: AttentionMetadata, members: slice, pool: torch.Tensor
    ) -> ShelfGroup:
        """Load who is new, and lay out one shelf's rows."""
        rows = metadata.rows[members]
        for place, (request, row) in enumerate(zip(shelf.members, rows, strict=True)):
            if self.held[request] < row.start:
                one = slice(members.start + place, members.start + place + 1)
                slots = gather_slots(metadata, one, row.start)
                shelf.load(place, pool.index_select(1, slots))
            self.held[request] = row.seq_len
        kv_heads = pool.shape[3]
        places, capacity = shelf.store.shape[2], shelf.capacity
        # A dead row has no token of its own to keep: what it writes lies behind its last key,
        # where nobody looks, or (at a full place) on a key that it alone still reads.
        position = torch.tensor([min(row.start, capacity - 1) for row in rows])
        place = torch.arange(len(rows)).view(-1, 1, 1)
        side = torch.arange(2).view(1, 2, 1)
        head = torch.arange(kv_heads).view(1, 1, -1)
        index = ((side * places + place) * kv_heads + head) * capacity + position.view(-1, 1, 1)
        lens = torch.tensor([row.seq_len for row in rows]).repeat_interleave(kv_heads)
        mask = torch.zeros(len(lens), 1, capacity, dtype=pool.dtype)
        mask.masked_fill_((torch.arange(capacity) >= lens.unsqueeze(1)).unsqueeze(1), float("-inf"))
        return ShelfGroup(shelf, members, index.view(-1), mask)


def _attend_shelf(q: torch.Tensor, layer: int, group: ShelfGroup) -> torch.Tensor:
    """q [rows, heads, head_dim] → the same shape. Query heads that share a KV head are folded."""
    rows, heads, head_dim = q.shape
    store = group.shelf.store[layer, :, :rows]  # [2, rows, kv_heads, capacity, head_dim]
    kv_heads, shared = store.shape[2], heads // store.shape[2]
    if store[0].numel() <= FEW_KEYS:
        folded = q.reshape(rows, kv_heads, shared, head_dim)
        mask = group.mask.view(rows, kv_heads, 1, -1)
        out = F.scaled_dot_product_attention(folded, *store.unbind(), attn_mask=mask)
    else:
        folded = q.reshape(rows * kv_heads, shared, head_dim)
        k, v = store.flatten(1, 2).unbind()
        out = attend_products(folded, k, v, group.mask)
    return out.reshape(rows, heads, head_dim)
