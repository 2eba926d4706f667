"""Buckets, places and filler rows, on a CPU: a graph is a computation done again on its tensors.

That CUDA's own graphs give the same is tested on a GPU (tests/gpu).
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from hypothesis import given
from hypothesis import strategies as st

from minillm.core import Request, SamplingParams, ScheduledRow, SchedulerOutput
from minillm.model.cuda_graphs import BUCKETS, DecodeGraphs, PlacedTables, bucket_for
from tests.model.attention_cases import WholeTables
from tests.model.harness import make_engine, make_runner, preemptions, random_prompts, run_all
from tests.model.tiny_models import VOCAB

LENGTHS = (3, 9, 23, 1, 12, 17)
PROMPTS = random_prompts(LENGTHS, VOCAB)
PARAMS = [SamplingParams(max_tokens=4 + 3 * i, ignore_eos=True) for i in range(len(PROMPTS))]


class FakeCapture:
    """As a CUDA graph does: computes at once, and again on what its tensors hold by then."""

    def __init__(self) -> None:
        self.captured = self.replays = 0

    def __call__(self, compute):
        result = compute()
        self.captured += 1

        def replay():
            self.replays += 1
            result.copy_(compute())
            return result

        return replay


@pytest.fixture(scope="module")
def expected(tiny):
    _, reference = tiny("llama")
    pairs = enumerate(zip(PROMPTS, PARAMS, strict=True))
    return {str(i): reference.greedy(prompt, p.max_tokens) for i, (prompt, p) in pairs}


def add_graphs(runner, capture) -> None:
    with torch.inference_mode():
        runner.graphs = DecodeGraphs(
            runner.model.forward, runner.backend, runner.kv_pool, block_size=runner.block_size,
            max_model_len=runner.max_model_len, capture=capture,
        )  # fmt: skip


def graph_runner(folder, capture=None, **options):
    runner = make_runner(folder, backend=WholeTables(), threads=1, **options)
    add_graphs(runner, capture or FakeCapture())
    return runner


def row(name, tokens, start, table, count=1, dead=False):
    request = Request(name, tokens, SamplingParams())
    padding, samples = int(dead), not dead
    return ScheduledRow(request, start, 0 if dead else count, padding, samples, table, dead)


# ── buckets ─────────────────────────────────────────────────────────────────────────────────────


def test_buckets_grow_and_hold():
    assert list(BUCKETS) == sorted(set(BUCKETS))
    for rows in range(1, BUCKETS[-1] + 1):
        bucket = bucket_for(rows)
        assert bucket >= rows
        assert bucket < rows + 16
        assert bucket < 2 * rows or rows == 1
    assert bucket_for(BUCKETS[-1] + 1) is None


# ── whole runs ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("policy", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_tokens_equal_the_references(tiny, expected, policy, block_size):
    """Sequences join, leave and end; static batching's dead rows are among them."""
    runner = graph_runner(tiny("llama")[0], num_blocks=400 // block_size, block_size=block_size)
    engine = make_engine(runner, policy, max_num_seqs=5)
    assert run_all(engine, PROMPTS, PARAMS) == expected
    graphs = runner.graphs
    assert graphs.capture.replays > 10
    assert graphs.capture.captured == len(graphs.graphs) <= 4
    decodes = [s for s in engine.trace.steps if all(r.n_tokens + r.n_padding == 1 for r in s.rows)]
    assert graphs.capture.replays == len(decodes)
    assert all(s.graph_pad_rows == bucket_for(len(s.rows)) - len(s.rows) for s in decodes)
    assert any(s.graph_pad_rows for s in decodes)


@pytest.mark.parametrize("prefix_cache", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 0])
def test_tokens_after_preemption(tiny, expected, prefix_cache, chunk):
    """A chunk of one token is a row like a decoding one, but samples nothing."""
    runner = graph_runner(tiny("llama")[0], num_blocks=11)
    engine = make_engine(runner, chunk=chunk, prefix_cache=prefix_cache)
    assert run_all(engine, PROMPTS, PARAMS) == expected
    assert preemptions(engine)


def test_a_second_engine_finds_no_trace_of_the_first(tiny, expected):
    runner = graph_runner(tiny("llama")[0], num_blocks=60)
    run_all(make_engine(runner, max_num_seqs=6), random_prompts([30, 20, 25], VOCAB, 9), PARAMS[0])
    assert run_all(make_engine(runner, max_num_seqs=4), PROMPTS, PARAMS) == expected


# ── filler rows ─────────────────────────────────────────────────────────────────────────────────


def test_filler_rows_change_nothing_and_write_to_the_null_block_alone(tiny):
    """Five rows in a bucket of eight: logits as computed without, three rows in the null block."""
    folder, _ = tiny("llama")
    prompts = random_prompts([5, 6, 3, 9, 4], VOCAB)
    tables = [(0, 1), (2, 3), (4,), (5, 6, 7), (8, 9)]
    rows = [
        row(str(i), [*prompt, 7], len(prompt), table)
        for i, (prompt, table) in enumerate(zip(prompts, tables, strict=True))
    ]
    prefill = [r._replace(start=0, num_tokens=r.start, samples=False) for r in rows]
    runner = graph_runner(folder, num_blocks=12)
    runner.execute(SchedulerOutput(0, prefill))
    before = runner.kv_pool.clone()
    result = runner.execute(SchedulerOutput(1, rows))
    assert result.graph_pad_rows == 3
    after = runner.kv_pool
    plain = make_runner(folder, num_blocks=12, backend=WholeTables())
    plain.execute(SchedulerOutput(0, prefill))
    assert plain.execute(SchedulerOutput(1, rows)).token_ids == result.token_ids
    for name, (logits,) in runner.sampler.logits.items():
        torch.testing.assert_close(logits, plain.sampler.logits[name][0], rtol=0, atol=1e-12)

    changed = (after.nan_to_num(9.0) != before.nan_to_num(9.0)).flatten(2).any(2).any(0)
    own = {r.block_ids[r.start // 4] * 4 + r.start % 4 for r in rows}
    null = {12 * 4}
    assert set(changed.nonzero().flatten().tolist()) == own | null


def test_to_capture_writes_to_the_null_block_alone(tiny):
    """Even when the inputs still hold an earlier step: its blocks may be another's by then."""
    runner = graph_runner(tiny("llama")[0], num_blocks=12)
    prompt = random_prompts([6], VOCAB)[0]
    one = row("a", [*prompt, 7], 6, (3, 4))
    runner.execute(SchedulerOutput(0, [one._replace(start=0, num_tokens=6, samples=False)]))
    runner.execute(SchedulerOutput(1, [one]))
    runner.kv_pool[:, 12:20] = float("nan")  # both blocks are freed
    with torch.inference_mode():
        runner.graphs.prepare(24)
    assert set(runner.graphs.graphs) == {1, 2, 4, 8, 16, 24}
    assert runner.kv_pool[:, : 12 * 4].isnan().all()
    assert not runner.kv_pool[:, 12 * 4].isnan().any()


def test_steps_that_no_graph_computes(tiny):
    runner = graph_runner(tiny("llama")[0])
    graphs = runner.graphs
    assert graphs.run([row("a", [5, 6, 7], 0, (0,), count=3)]) is None
    assert graphs.run([row("a", [5], 0, (0,)), row("b", [5, 6], 0, (1,), count=2)]) is None
    many = [row(str(i), [5], 0, (0,)) for i in range(BUCKETS[-1] + 1)]
    assert graphs.run(many) is None
    assert not graphs.graphs
    assert not graphs.tables.members


def test_what_cannot_be_captured_is_computed_without(tiny, expected):
    def fail(compute):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nhint")

    runner = graph_runner(tiny("llama")[0], fail, num_blocks=100)
    with pytest.warns(RuntimeWarning, match="could not be captured") as seen:
        assert run_all(make_engine(runner), PROMPTS, PARAMS) == expected
    assert len([w for w in seen if "captured" in str(w.message)]) == 1
    assert "\n" not in str(seen[0].message)


# ── places ──────────────────────────────────────────────────────────────────────────────────────

STEPS = st.lists(st.dictionaries(st.integers(0, 6), st.sampled_from("sagp"), max_size=7))


@given(STEPS)
def test_places_hold_the_tables_whatever_happens(steps):
    """Each step: who is in it, and whether a table stays, grows by one or two blocks, or is new."""
    tables = PlacedTables(8, 6, null_block=99, device=torch.device("cpu"))
    requests = [Request(str(i), [5], SamplingParams()) for i in range(7)]
    blocks = dict.fromkeys(range(7), (7,))
    fresh = iter(range(100, 100_000))
    for step in steps:
        rows = []
        for i, change in step.items():
            more = {"s": 0, "a": 1, "g": 2, "p": 0}[change]
            if change == "p":
                blocks[i] = tuple(next(fresh) for _ in blocks[i])
            elif more and len(blocks[i]) + more <= 6:
                blocks[i] = (*blocks[i], *(next(fresh) for _ in range(more)))
            rows.append(ScheduledRow(requests[i], 3, 1, 0, True, blocks[i]))
        placed = tables.place(rows)
        assert sorted(r.request.request_id for r in placed) == sorted(str(i) for i in step)
        for place, r in enumerate(placed):
            got = tables.tensor[place, : len(r.block_ids)].tolist()
            assert got == list(r.block_ids)
        assert (tables.tensor[len(placed) :, 0] == 99).all()


def test_a_sequence_keeps_its_place_and_only_news_are_sent(monkeypatch):
    from minillm.model import cuda_graphs

    sent = []

    def count(values, dtype, device):
        sent.append(values[1])
        return torch.tensor(values, dtype=dtype, device=device)

    monkeypatch.setattr(cuda_graphs, "to_device", count)
    tables = PlacedTables(8, 6, null_block=99, device=torch.device("cpu"))
    a, b, c = (row(name, [5] * 9, 8, (i, i + 10)) for i, name in enumerate("abc"))
    assert tables.place([a, b, c]) == [a, b, c]
    assert tables.place([c, b, a]) == [a, b, c]
    longer = b._replace(block_ids=(*b.block_ids, 50))
    assert tables.place([longer, a, c]) == [a, longer, c]
    assert tables.place([longer, c]) == [c, longer]
    assert sent == [[0, 10, 1, 11, 2, 12], [50], [99, 2, 12]]
