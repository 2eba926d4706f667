"""Physical KV blocks: who is free, who is shared, who may be found again by its content.

A block is *used* (ref_count ≥ 1), *cached* (ref_count 0, but a later prompt with the same prefix
may take it back) or truly *free*. New blocks come from the free ones first; when none is left the
least recently used cached block is evicted. (vLLM V1 keeps one queue; two say more clearly what
is what.)
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b

HASH_BYTES = 16


class Block:
    """One KV block. `content`: the packed token ids that its hash stands for, None if none."""

    __slots__ = ("block_hash", "block_id", "content", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_count = 0
        self.block_hash: bytes | None = None
        self.content: bytes | None = None

    def __repr__(self) -> str:
        cached = ", cached" if self.block_hash else ""
        return f"Block({self.block_id}, ref_count={self.ref_count}{cached})"


def root_hash(salt: str | None) -> bytes:
    """The parent of a first block. Typed: no salt and the empty salt are different tenants."""
    tag = b"none" if salt is None else b"salt:" + salt.encode()
    return blake2b(tag, digest_size=HASH_BYTES).digest()


def pack(token_ids: Sequence[int]) -> bytes:
    """Token ids as 8 bytes each: what is hashed and compared.

    Raises struct.error for what is not an integer from 0 to 2^64 − 1.
    """
    return struct.pack(f"{len(token_ids)}Q", *token_ids)


def chain_hash(parent: bytes, content: bytes) -> bytes:
    """blake2b over the parent's hash and the packed tokens: equal prefixes, equal hashes."""
    return blake2b(parent + content, digest_size=HASH_BYTES).digest()


class BlockPool:
    """`num_blocks` blocks with ids 0 … num_blocks − 1, all free at first."""

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self.blocks = [Block(i) for i in range(num_blocks)]
        self._free: deque[Block] = deque(self.blocks)
        self._cached: OrderedDict[int, Block] = OrderedDict()  # ref_count 0, oldest first
        self._by_hash: dict[bytes, Block] = {}

    @property
    def num_free(self) -> int:
        """Blocks that can be had now: truly free ones and cached ones that may be evicted."""
        return len(self._free) + len(self._cached)

    @property
    def num_cached(self) -> int:
        """Blocks without an owner that a prefix may still hit."""
        return len(self._cached)

    def cached_ids(self) -> list[int]:
        """Those blocks' ids, the least recently used first."""
        return list(self._cached)

    def take(self, count: int) -> tuple[list[Block], int]:
        """`count` blocks with ref_count 1; the last so many of them were cached and are evicted.

        Raises IndexError, and nothing is taken, when fewer are free: ask num_free first.
        """
        free, cached = self._free, self._cached
        num_evicted = max(count - len(free), 0)
        if num_evicted > len(cached):
            raise IndexError(
                f"{count} KV blocks are wanted and {self.num_free} of {self.num_blocks} are free."
            )
        blocks = [free.popleft() for _ in range(count - num_evicted)]
        for _ in range(num_evicted):
            _, block = cached.popitem(last=False)
            del self._by_hash[block.block_hash]
            block.block_hash = block.content = None
            blocks.append(block)
        for block in blocks:
            block.ref_count = 1
        return blocks, num_evicted

    def share(self, block: Block) -> None:
        """One more owner of a cached or used block."""
        if block.ref_count == 0:
            del self._cached[block.block_id]
        block.ref_count += 1

    def release(self, block: Block) -> bool:
        """One owner less; True when that was the last. A block found by hash stays cached."""
        if block.ref_count < 1:
            raise ValueError(f"Block {block.block_id} is freed twice.")
        block.ref_count -= 1
        if block.ref_count:
            return False
        if block.block_hash is None:
            self._free.append(block)
        else:
            self._cached[block.block_id] = block
        return True

    def find(self, block_hash: bytes, content: bytes) -> Block | None:
        """The cached block of that hash, if its tokens are the same too."""
        block = self._by_hash.get(block_hash)
        return block if block is not None and block.content == content else None

    def remember(
        self, blocks: Iterable[Block], hashes: Iterable[bytes], contents: Iterable[bytes]
    ) -> None:
        """Let full, computed blocks be found by their content. The first of equals is kept."""
        known = self._by_hash
        for block, block_hash, content in zip(blocks, hashes, contents, strict=True):
            if block.block_hash is None and block_hash not in known:
                block.block_hash, block.content = block_hash, content
                known[block_hash] = block

    def forget(self) -> None:
        """Let no block be found by its content any more: what was cached becomes free."""
        for block in self._by_hash.values():
            block.block_hash = block.content = None
        self._free.extend(self._cached.values())
        self._cached.clear()
        self._by_hash.clear()

    def check_integrity(self, tables: Iterable[Sequence[Block]]) -> None:
        """Raise ValueError unless free + used = total and ref_count = number of owners."""
        owners = [0] * self.num_blocks
        for table in tables:
            for block in table:
                owners[block.block_id] += 1
        unowned = {block.block_id for block in self._free} | set(self._cached)
        if len(unowned) != self.num_free:
            raise ValueError("A KV block is on the free list twice.")
        for block in self.blocks:
            count = owners[block.block_id]
            if block.ref_count != count:
                raise ValueError(f"{block} has {count} owners.")
            if (count == 0) != (block.block_id in unowned):
                raise ValueError(f"{block} is lost: {count} owners and not on a free list.")
            if count > 1 and block.block_hash is None:
                raise ValueError(f"{block} is shared but not full.")
        for block_hash, block in self._by_hash.items():
            if block.block_hash != block_hash:
                raise ValueError(f"{block} is found by a hash that is not its own.")
