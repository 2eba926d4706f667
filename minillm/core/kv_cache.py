"""Which blocks hold which request's KV: the paged cache, seen by the scheduler.

Block i of a request's block table holds its tokens [i·block_size, (i+1)·block_size). A full,
computed block can be found again by its content (prefix cache), so that a prompt with the same
beginning shares it.
"""

from __future__ import annotations

from minillm.core.block_pool import Block, BlockPool, chain_hash, root_hash
from minillm.core.config import CacheConfig
from minillm.core.request import Request
from minillm.core.trace import BlockOp


class _Table:
    """A request's blocks; `ids` is the same as a tuple, made anew only when a block joins."""

    __slots__ = ("blocks", "ids", "num_cached", "num_slots")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.ids: tuple[int, ...] = ()
        self.num_slots = 0
        self.num_cached = 0  # leading blocks already offered to the prefix cache


class KVCacheManager:
    """Hands out blocks to requests and takes them back."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.block_size = config.block_size
        self.pool = BlockPool(config.num_blocks)
        self.prefix_queries = 0  # prompt tokens looked up, and found, since the start
        self.prefix_hits = 0
        self._tables: dict[str, _Table] = {}
        self._ops: list[BlockOp] = []

    # ── what a scheduler asks ───────────────────────────────────────────────────────────────

    @property
    def num_free_blocks(self) -> int:
        return self.pool.num_free

    @property
    def num_used_blocks(self) -> int:
        return self.pool.num_blocks - self.pool.num_free

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill."""
        return -(-num_tokens // self.block_size)

    def block_table(self, request: Request) -> tuple[int, ...]:
        """Ids of the request's blocks in order; empty when it holds none."""
        table = self._tables.get(request.request_id)
        return table.ids if table else ()

    def get_computed_blocks(self, request: Request) -> list[Block]:
        """The longest cached prefix in whole blocks. At least one token is left to compute.

        Each hash names a block *and* all before it, and the tokens are compared besides, so a
        hash collision cannot hand out another prompt's KV.
        """
        if not self.config.enable_prefix_caching:
            return []
        found: list[Block] = []
        size = self.block_size
        for i in range((request.num_tokens - 1) // size):
            self._extend_hashes(request, i + 1)
            tokens = request.token_ids[i * size : (i + 1) * size]
            block = self.pool.find(request.block_hashes[i], tokens)
            if block is None:
                break
            found.append(block)
        return found

    def admit(self, request: Request, num_tokens: int, use_cache: bool = True) -> bool:
        """Give a request without blocks a table for `num_tokens` tokens, cached prefix first.

        Sets request.num_computed_tokens to what the cache holds. False, and nothing changed,
        when there are not enough blocks.
        """
        hits = self.get_computed_blocks(request) if use_cache else []
        unowned_hits = sum(block.ref_count == 0 for block in hits)
        if self.blocks_for(num_tokens) - len(hits) > self.pool.num_free - unowned_hits:
            return False
        table = self._tables[request.request_id] = _Table()
        for block in hits:
            self.pool.share(block)
            self._ops.append(BlockOp("s", block.block_id, request.index))
        table.blocks.extend(hits)
        table.num_cached = len(hits)
        if use_cache and self.config.enable_prefix_caching:
            self.prefix_queries += request.num_tokens
            self.prefix_hits += len(hits) * self.block_size
        request.num_computed_tokens = len(hits) * self.block_size
        self._grow(request, table, num_tokens)
        return True

    def allocate_slots(self, request: Request, num_tokens: int) -> bool:
        """Let the table cover `num_tokens` tokens in all. False: no blocks, nothing changed."""
        table = self._tables[request.request_id]
        if num_tokens <= table.num_slots:
            return True
        if self.blocks_for(num_tokens) - len(table.blocks) > self.pool.num_free:
            return False
        self._grow(request, table, num_tokens)
        return True

    def cache_blocks(self, request: Request) -> None:
        """Offer the request's newly full, computed blocks to later prompts."""
        table = self._tables.get(request.request_id)
        if table is None or not self.config.enable_prefix_caching:
            return
        size = self.block_size
        full = request.num_computed_tokens // size
        if full <= table.num_cached:
            return
        self._extend_hashes(request, full)
        for i in range(table.num_cached, full):
            tokens = request.token_ids[i * size : (i + 1) * size]
            self.pool.remember(table.blocks[i], request.block_hashes[i], tokens)
        table.num_cached = full

    def free(self, request: Request) -> int:
        """Take the request's blocks back; returns how many nobody else holds. Twice is fine."""
        table = self._tables.pop(request.request_id, None)
        if table is None:
            return 0
        freed = 0
        for block in reversed(table.blocks):  # the tail is evicted first, the prefix lives longer
            if self.pool.release(block):
                freed += 1
            self._ops.append(BlockOp("f", block.block_id, request.index))
        return freed

    def reset_prefix_cache(self) -> None:
        """Forget what later prompts could share: someone else wrote to the KV memory.

        Raises ValueError while requests hold blocks.
        """
        if self._tables:
            raise ValueError(f"{len(self._tables)} requests hold KV blocks; finish them first.")
        self.pool.forget()

    def drain_ops(self) -> list[BlockOp]:
        """What happened to blocks since the last call, in order (for the trace)."""
        ops, self._ops = self._ops, []
        return ops

    def check_integrity(self) -> None:
        """Raise ValueError where a block is lost, freed twice, or in two tables unshared."""
        self.pool.check_integrity(table.blocks for table in self._tables.values())

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _grow(self, request: Request, table: _Table, num_tokens: int) -> None:
        for _ in range(self.blocks_for(num_tokens) - len(table.blocks)):
            block, evicted = self.pool.take()
            if evicted:
                self._ops.append(BlockOp("e", block.block_id, request.index))
            self._ops.append(BlockOp("a", block.block_id, request.index))
            table.blocks.append(block)
        table.ids = tuple(block.block_id for block in table.blocks)
        table.num_slots = len(table.blocks) * self.block_size

    def _extend_hashes(self, request: Request, count: int) -> None:
        hashes, size = request.block_hashes, self.block_size
        while len(hashes) < count:
            i = len(hashes)
            parent = hashes[-1] if hashes else root_hash(request.cache_salt)
            hashes.append(chain_hash(parent, request.token_ids[i * size : (i + 1) * size]))
