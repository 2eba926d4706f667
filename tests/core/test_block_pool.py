"""Blocks: who is free, shared, cached; eviction order; what check_integrity finds."""

import pytest

from minillm.core.block_pool import BlockPool, chain_hash, pack, root_hash


def take(pool: BlockPool):
    return pool.take(1)[0][0]


def remember(pool: BlockPool, tokens, parent=None) -> bytes:
    block = take(pool)
    key = chain_hash(parent or root_hash(None), pack(tokens))
    pool.remember([block], [key], [pack(tokens)])
    pool.release(block)
    return key


def test_free_blocks_go_before_cached_ones_and_the_oldest_cached_is_evicted_first():
    pool = BlockPool(3)
    old, new = remember(pool, [1]), remember(pool, [2])
    assert (pool.num_free, pool.num_cached) == (3, 2)
    assert pool.take(1)[1] == 0  # the truly free one
    assert pool.take(1)[1] == 1
    assert pool.find(old, pack([1])) is None
    assert pool.find(new, pack([2])) is not None


def test_a_hit_makes_a_block_young_again():
    pool = BlockPool(2)
    first, second = remember(pool, [1]), remember(pool, [2])
    block = pool.find(first, pack([1]))
    pool.share(block)
    pool.release(block)
    take(pool)
    assert pool.find(second, pack([2])) is None
    assert pool.find(first, pack([1])) is block


def test_an_empty_pool_says_so():
    pool = BlockPool(1)
    take(pool)
    with pytest.raises(IndexError, match="2 KV blocks are wanted and 0 of 1 are free"):
        pool.take(2)


def test_freeing_twice_is_an_error():
    pool = BlockPool(1)
    block = take(pool)
    pool.release(block)
    with pytest.raises(ValueError, match="freed twice"):
        pool.release(block)


def test_the_hash_keeps_whole_token_ids():  # C09: ids 65 and 321 share their low byte
    root = root_hash(None)
    assert chain_hash(root, pack([65, 1, 2, 3])) != chain_hash(root, pack([321, 1, 2, 3]))
    assert chain_hash(root, pack([2**40])) != chain_hash(root, pack([2**40 + 256]))


def test_salts_are_typed():  # C13
    assert len({root_hash(None), root_hash(""), root_hash("x"), root_hash("none")}) == 4


def test_a_hash_collision_is_caught_by_comparing_the_tokens():
    pool = BlockPool(2)
    key = remember(pool, [1, 2])
    assert pool.find(key, pack([1, 3])) is None


def test_integrity_finds_each_kind_of_damage():
    pool = BlockPool(2)
    block = take(pool)
    pool.check_integrity([[block]])
    with pytest.raises(ValueError, match="has 0 owners"):
        pool.check_integrity([])
    pool.share(block)
    with pytest.raises(ValueError, match="shared but not full"):
        pool.check_integrity([[block], [block]])
    pool.release(block)
    pool._free.clear()
    with pytest.raises(ValueError, match="is lost"):
        pool.check_integrity([[block]])
