"""Which blocks hold which request's KV: the paged cache, seen by the scheduler.

Block i of a request's block table holds its tokens [i·block_size, (i+1)·block_size). A full,
computed block can be found again by its content (prefix cache), so that a prompt with the same
beginning shares it.
"""

from __future__ import annotations

from minillm.core.block_pool import Block, BlockPool, chain_hash, pack, root_hash
from minillm.core.config import CacheConfig
from minillm.core.request import Request


class KVCacheManager:
    """Hands out blocks to requests and takes them back."""

    def __init__(self, config: CacheConfig) -> None:
        self.config = config
        self.block_size = config.block_size
        self.pool = BlockPool(config.num_blocks)
        self.prefix_queries = 0  # prompt tokens looked up, and found, since the start
        self.prefix_hits = 0
        self._owners: dict[str, Request] = {}  # requests that hold blocks
        self._ops: list[tuple[str, int, int]] = []  # as trace.BlockOp has them

    # ── what a scheduler asks ───────────────────────────────────────────────────────────────

    @property
    def num_free_blocks(self) -> int:
        return self.pool.num_free

    @property
    def num_used_blocks(self) -> int:
        pool = self.pool
        return pool.num_blocks - pool.num_free

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill."""
        return -(-num_tokens // self.block_size)

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
            block = self.pool.find(request.block_hashes[i], request.block_contents[i])
            if block is None:
                break
            found.append(block)
        return found

    def admit(self, request: Request, num_tokens: int, use_cache: bool = True) -> bool:
        """Give a request without blocks a table for `num_tokens` tokens, cached prefix first.

        Sets request.num_computed_tokens to what the cache holds. False, and nothing changed, when
        there are not enough blocks.
        """
        hits = self.get_computed_blocks(request) if use_cache else []
        unowned_hits = sum(block.ref_count == 0 for block in hits)
        fresh = self.blocks_for(num_tokens) - len(hits)
        if fresh > self.pool.num_free - unowned_hits:
            return False
        for block in hits:
            self.pool.share(block)
            self._ops.append(("s", block.block_id, request.index))
        self._owners[request.request_id] = request
        request.blocks = hits
        request.block_ids = tuple([block.block_id for block in hits])
        request.num_cached_blocks = len(hits)
        request.num_computed_tokens = len(hits) * self.block_size
        if use_cache and self.config.enable_prefix_caching:
            self.prefix_queries += request.num_tokens
            self.prefix_hits += request.num_computed_tokens
        self._grow(request, fresh)
        return True

    def allocate_slots(self, request: Request, num_tokens: int) -> bool:
        """Let the block table cover `num_tokens` tokens in all. False: no blocks, no change."""
        if num_tokens <= request.num_slots:
            return True
        fresh = self.blocks_for(num_tokens) - len(request.blocks)
        if fresh > self.pool.num_free:
            return False
        self._grow(request, fresh)
        return True

    def cache_blocks(self, request: Request) -> None:
        """Offer the request's newly full, computed blocks to later prompts."""
        if not self.config.enable_prefix_caching:
            return
        full = request.num_computed_tokens // self.block_size
        self._extend_hashes(request, full)
        new = slice(request.num_cached_blocks, full)
        self.pool.remember(
            request.blocks[new], request.block_hashes[new], request.block_contents[new]
        )
        request.num_cached_blocks = full

    def free(self, request: Request) -> int:
        """Take the request's blocks back; returns how many nobody else holds. Twice is fine."""
        self._owners.pop(request.request_id, None)
        freed = 0
        ops, release, index = self._ops, self.pool.release, request.index
        for block in reversed(request.blocks):  # the tail goes first, the prefix lives longer
            ops.append(("f", block.block_id, index))
            if release(block):
                freed += 1
                if block.block_hash is not None:
                    ops.append(("c", block.block_id, index))
        request.blocks, request.block_ids = [], ()
        request.num_slots = request.num_cached_blocks = 0
        return freed

    def reset_prefix_cache(self) -> None:
        """Forget what later prompts could share: someone else wrote to the KV memory.

        Raises ValueError while requests hold blocks.
        """
        if self._owners:
            raise ValueError(f"{len(self._owners)} requests hold KV blocks; finish them first.")
        self._ops += [("e", block_id, -1) for block_id in self.pool.cached_ids()]
        self.pool.forget()

    def drain_ops(self) -> list[tuple[str, int, int]]:
        """What happened to blocks since the last call, in order (for the trace)."""
        ops, self._ops = self._ops, []
        return ops

    def check_integrity(self) -> None:
        """Raise ValueError where a block is lost, freed twice, or in two tables unshared."""
        self.pool.check_integrity(owner.blocks for owner in self._owners.values())

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _grow(self, request: Request, num_blocks: int) -> None:
        """Append so many fresh blocks to the request's table."""
        index = request.index
        blocks, num_evicted = self.pool.take(num_blocks)
        ids = [block.block_id for block in blocks]
        if num_evicted:
            self._ops += [("e", block_id, index) for block_id in ids[-num_evicted:]]
        self._ops += [("a", block_id, index) for block_id in ids]
        request.blocks += blocks
        request.block_ids += tuple(ids)
        request.num_slots = len(request.blocks) * self.block_size

    def _extend_hashes(self, request: Request, count: int) -> None:
        hashes, size = request.block_hashes, self.block_size
        first = len(hashes)
        if count <= first:
            return
        parent = hashes[-1] if hashes else root_hash(request.cache_salt)
        packed = pack(request.token_ids[first * size : count * size])
        width = len(packed) // (count - first)
        contents = [packed[i : i + width] for i in range(0, len(packed), width)]
        request.block_contents += contents
        for content in contents:
            parent = chain_hash(parent, content)
            hashes.append(parent)
