"""The paged cache and its prefix cache, through the engine and the mock model."""

import pytest

from minillm.core import SamplingParams
from tests.core.helpers import assert_idle, make_engine, run_all, solo

GREEDY = SamplingParams(max_tokens=6)


def serve(engine, name, prompt, **kwargs):
    request = engine.add_request(name, prompt, GREEDY, **kwargs)
    tokens = run_all(engine)[name]
    assert tokens == solo(prompt, GREEDY)
    return request


@pytest.mark.parametrize("length", [3, 4, 5, 8, 9])
def test_the_same_prompt_four_times_gives_the_same_output(length):  # C11
    engine = make_engine()
    prompt = list(range(length))
    hits = [serve(engine, f"r{i}", prompt).num_cached_tokens for i in range(4)]
    assert hits == [0] + [(length - 1) // 4 * 4] * 3  # whole blocks, never the last token
    assert_idle(engine)


def test_ids_with_the_same_low_byte_do_not_hit():  # C09
    engine = make_engine()
    serve(engine, "a", [65, 1, 2, 3, 9])
    assert serve(engine, "b", [321, 1, 2, 3, 9]).num_cached_tokens == 0


def test_an_evicted_block_is_a_miss():  # C12
    engine = make_engine(num_blocks=4)
    first = [1] * 8
    serve(engine, "p1", first)
    serve(engine, "p2", [2] * 9)
    serve(engine, "p3", [3] * 9)
    assert serve(engine, "again", first).num_cached_tokens == 0
    assert_idle(engine)


@pytest.mark.parametrize(("a", "b"), [(None, ""), ("x", None), ("x", "y")])
def test_salts_keep_tenants_apart(a, b):  # C13
    engine = make_engine()
    prompt = list(range(9))
    serve(engine, "a", prompt, cache_salt=a)
    hits = engine.kv.prefix_hits
    assert serve(engine, "b", prompt, cache_salt=b).num_cached_tokens == 0
    assert engine.kv.prefix_hits == hits
    assert serve(engine, "a2", prompt, cache_salt=a).num_cached_tokens == 8


def test_without_prefix_caching_nothing_is_remembered():
    engine = make_engine(prefix_caching=False)
    serve(engine, "a", list(range(9)))
    assert serve(engine, "b", list(range(9))).num_cached_tokens == 0
    assert engine.kv.pool.num_cached == 0


def test_a_running_request_shares_its_prefix_with_one_that_joins():
    engine = make_engine()
    prompt = list(range(8))
    engine.add_request("a", [*prompt, 1], GREEDY)
    engine.step()
    engine.add_request("b", [*prompt, 2], GREEDY)
    engine.step()
    ops = [op for step in engine.trace.steps for op in step.blocks]
    assert [op.op for op in ops if op.req_idx == 1] == ["s", "s", "a"]
    assert engine.trace.steps[-1].kv_used == 4  # 2 shared and 1 each
    tokens = run_all(engine)
    for name, tail in (("a", 1), ("b", 2)):
        whole = solo([*prompt, tail], GREEDY)
        assert whole[-len(tokens[name]) :] == tokens[name]
    assert_idle(engine)
