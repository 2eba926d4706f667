"""Allocators for exercise 7: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import ClassVar

from grading.checks.lesson_07 import BlockAllocator, max_concurrent


class WithDeque:
    def __init__(self, num_blocks, block_size):
        self.pool, self.size, self.held = deque(range(num_blocks)), block_size, {}

    def allocate(self, request, num_tokens):
        held = self.held.setdefault(request, [])
        need = (num_tokens + self.size - 1) // self.size
        if need - len(held) > len(self.pool):
            return None
        while len(held) < need:
            held.append(self.pool.popleft())
        return held

    def free(self, request):
        held = self.held.pop(request, [])
        while held:
            self.pool.append(held.pop())
        return True


class WithOwners:
    """An owner for each block, and a counter that says how long it has been free."""

    def __init__(self, num_blocks, block_size):
        self.size, self.owner = block_size, [None] * num_blocks
        self.since = list(range(num_blocks))
        self.tick, self.tables = num_blocks, {}

    def allocate(self, request, num_tokens):
        table = list(self.tables.get(request, ()))
        free = sorted(
            (b for b, owner in enumerate(self.owner) if owner is None), key=lambda b: self.since[b]
        )
        more = max(0, -(-num_tokens // self.size) - len(table))
        if more > len(free):
            return None
        for block in free[:more]:
            self.owner[block] = request
            table.append(block)
        self.tables[request] = tuple(table)
        return tuple(table)

    def free(self, request):
        for block in reversed(self.tables.pop(request, ())):
            self.owner[block], self.since[block] = None, self.tick
            self.tick += 1


class RoundsDown(BlockAllocator):
    def allocate(self, request, num_tokens):
        return super().allocate(request, num_tokens // self.block_size * self.block_size)


class OneTooMany(BlockAllocator):
    """A block more where the last one is just full."""

    def allocate(self, request, num_tokens):
        return super().allocate(request, num_tokens + 1)


class TokensForBlocks(BlockAllocator):
    def allocate(self, request, num_tokens):
        return super().allocate(request, num_tokens * self.block_size)


class NeverTakesOut(BlockAllocator):
    """Hands the same blocks to everyone."""

    def allocate(self, request, num_tokens):
        need = -(-num_tokens // self.block_size)
        return self.free_blocks[:need] if need <= len(self.free_blocks) else None


class PartOfIt(BlockAllocator):
    """Gives what there is when it is too little."""

    def allocate(self, request, num_tokens):
        room = len(self.free_blocks) + len(self.tables.get(request, ()))
        return super().allocate(request, min(num_tokens, room * self.block_size))


class KeepsThePart(BlockAllocator):
    """Says None, but the blocks are gone."""

    def allocate(self, request, num_tokens):
        got = super().allocate(request, num_tokens)
        if got is None:
            self.tables[request] = self.tables.get(request, []) + self.free_blocks
            self.free_blocks = []
        return got


class RefusesTheLast(BlockAllocator):
    def allocate(self, request, num_tokens):
        table = self.tables.get(request, [])
        more = -(-num_tokens // self.block_size) - len(table)
        return None if more >= len(self.free_blocks) > 0 else super().allocate(request, num_tokens)


class AnewEachTime(BlockAllocator):
    """Growing takes a whole new table; the old blocks are lost."""

    def allocate(self, request, num_tokens):
        self.tables.pop(request, None)
        return super().allocate(request, num_tokens)


class ReturnsTheNewOnes(BlockAllocator):
    def allocate(self, request, num_tokens):
        before = len(self.tables.get(request, ()))
        table = super().allocate(request, num_tokens)
        return None if table is None else table[before:]


class LeaksOne(BlockAllocator):
    def free(self, request):
        self.free_blocks += reversed(self.tables.pop(request, [])[1:])


class NeverFrees(BlockAllocator):
    def free(self, request):
        self.tables.pop(request, None)


class FreesTwice(BlockAllocator):
    def free(self, request):
        self.free_blocks += reversed(self.tables.get(request, []))


class RaisesForStrangers(BlockAllocator):
    def free(self, request):
        self.free_blocks += reversed(self.tables.pop(request))


class HeadFirst(BlockAllocator):
    def free(self, request):
        self.free_blocks += self.tables.pop(request, [])


class ToTheFront(BlockAllocator):
    """A stack: what was freed last is used first."""

    def free(self, request):
        self.free_blocks[:0] = self.tables.pop(request, [])


class LowestFirst(BlockAllocator):
    def free(self, request):
        super().free(request)
        self.free_blocks.sort()


class Shrinks(BlockAllocator):
    """Takes blocks back when fewer tokens are asked for."""

    def allocate(self, request, num_tokens):
        table, need = self.tables.get(request, []), -(-num_tokens // self.block_size)
        if need < len(table):
            self.free_blocks += table[need:]
            self.tables[request] = table[:need]
        return super().allocate(request, num_tokens)


class AllTogether(BlockAllocator):
    """One pool for the whole class: it lives on from one allocator to the next."""

    tables_of_all: ClassVar[dict] = {}

    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self.tables = self.tables_of_all


class Stub:
    def __init__(self, num_blocks, block_size):
        raise NotImplementedError


class LessonStub:
    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.tables = {}

    def allocate(self, request, num_tokens):
        return None

    def free(self, request):
        return None


def with_accumulate(lengths, num_blocks, block_size):
    taken = accumulate((length + block_size - 1) // block_size for length in lengths)
    return sum(blocks <= num_blocks for blocks in taken)


def overtakes(lengths, num_blocks, block_size):
    count = 0
    for length in lengths:
        need = -(-length // block_size)
        if need <= num_blocks:
            num_blocks -= need
            count += 1
    return count


def tokens_only(lengths, num_blocks, block_size):
    """As if the last block of each were shared."""
    return sum(total <= num_blocks * block_size for total in accumulate(lengths))


def rounds_down(lengths, num_blocks, block_size):
    return sum(t <= num_blocks for t in accumulate(x // block_size for x in lengths))


def one_always_free(lengths, num_blocks, block_size):
    return max_concurrent(lengths, num_blocks - 1, block_size)


def from_the_longest(lengths, num_blocks, block_size):
    """As if everybody needed what the longest needs."""
    longest = max(lengths, default=1)
    return min(len(lengths), num_blocks // -(-longest // block_size))


def shortest_first(lengths, num_blocks, block_size):
    return max_concurrent(sorted(lengths), num_blocks, block_size)


def eats_its_input(lengths, num_blocks, block_size):
    count = max_concurrent(lengths, num_blocks, block_size)
    lengths[:] = []
    return count


def stub(lengths, num_blocks, block_size):
    raise NotImplementedError


def lesson_stub(lengths, num_blocks, block_size):
    return None


RIGHT = [
    {"BlockAllocator": WithDeque, "max_concurrent": with_accumulate},
    {"BlockAllocator": WithOwners, "max_concurrent": max_concurrent},
]
WRONG = [
    {"BlockAllocator": wrong}
    for wrong in (
        RoundsDown, OneTooMany, TokensForBlocks, NeverTakesOut, PartOfIt, KeepsThePart,
        RefusesTheLast, AnewEachTime, ReturnsTheNewOnes, LeaksOne, NeverFrees, FreesTwice,
        RaisesForStrangers, HeadFirst, ToTheFront, LowestFirst, Shrinks, AllTogether,
    )
]  # fmt: skip
WRONG += [
    {"max_concurrent": wrong}
    for wrong in (
        overtakes, tokens_only, rounds_down, one_always_free, from_the_longest, shortest_first,
        eats_its_input,
    )
]  # fmt: skip
STUBS = [
    {"BlockAllocator": Stub, "max_concurrent": stub},
    {"BlockAllocator": LessonStub, "max_concurrent": lesson_stub},
]
