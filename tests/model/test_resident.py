"""The CPU's resident copies: what they hold, when they move, and that they're only copies."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from minillm.core import SamplingParams
from minillm.model.attention import SDPABackend
from minillm.model.attention.resident import CAPACITIES, ResidentBackend, capacity_for
from tests.model.harness import make_engine, make_runner, random_prompts, run_all, step_once
from tests.model.tiny_models import VOCAB

PROMPTS = random_prompts([60, 3, 120, 30, 7, 62], VOCAB, seed=11)
PARAMS = [SamplingParams(max_tokens=n, ignore_eos=True) for n in (12, 70, 15, 40, 9, 5)]


@pytest.fixture(scope="module")
def expected(tiny):
    _, reference = tiny("llama")
    pairs = zip(PROMPTS, PARAMS, strict=True)
    return {str(i): reference.greedy(p, params.max_tokens) for i, (p, params) in enumerate(pairs)}


@pytest.mark.parametrize("policy", ["static", "continuous"])
@pytest.mark.parametrize("backend", [SDPABackend, ResidentBackend])
def test_both_backends_give_the_references_tokens(tiny, expected, backend, policy):
    """Sequences that outgrow their shelf, and ones that join and leave."""
    runner = make_runner(tiny("llama")[0], num_blocks=200, backend=backend())
    assert run_all(make_engine(runner, policy, max_num_seqs=4), PROMPTS, PARAMS) == expected


def test_cpu_takes_the_resident_backend(tiny):
    assert make_runner(tiny("llama")[0]).backend.name == "resident"


def test_without_memory_for_places_pages_are_gathered(tiny, expected):
    """A pool of one request's size: places may take as much again, and no more."""
    runner = make_runner(tiny("llama")[0], num_blocks=34)
    engine = make_engine(runner, max_num_seqs=4)
    outputs: dict[str, list[int]] = {}
    for i, (prompt, params) in enumerate(zip(PROMPTS, PARAMS, strict=True)):
        engine.add_request(str(i), prompt, params)
    engine.close_input()
    gathered = 0
    while engine.has_unfinished:
        step_once(engine, outputs)
        places = sum(shelf.store.nbytes for shelf in runner.backend.shelves.values())
        assert places <= runner.kv_pool.nbytes
        decoding = [row for row in engine.trace.steps[-1].rows if row.n_tokens == 1]
        gathered += len(decoding) > len(runner.backend.on)
    assert outputs == expected
    assert gathered


def test_places_are_given_back(tiny):
    runner = make_runner(tiny("llama")[0], num_blocks=200)
    backend = runner.backend
    engine = make_engine(runner, max_num_seqs=4)
    run_all(engine, PROMPTS, PARAMS)
    later = make_engine(runner)
    later.add_request("last", PROMPTS[1], SamplingParams(max_tokens=3, ignore_eos=True))
    outputs: dict[str, list[int]] = {}
    step_once(later, outputs)
    step_once(later, outputs)
    assert [request.request_id for request in backend.on] == ["last"]
    assert sum(len(shelf.members) for shelf in backend.shelves.values()) == 1
    ((request, shelf),) = backend.on.items()
    held, table = backend.held[request], request.block_ids
    slots = torch.tensor([table[p // 4] * 4 + p % 4 for p in range(held)])
    pages = runner.kv_pool[:, slots].permute(0, 2, 3, 1, 4)
    assert torch.equal(shelf.store[:, :, 0, :, :held], pages)


def test_capacities_grow_and_hold():
    sizes = [capacity_for(n) for n in range(1, 9000)]
    assert sizes == sorted(sizes)
    assert all(size >= n for n, size in enumerate(sizes, 1))
    assert set(CAPACITIES) < set(sizes)
    assert all(size <= max(128, 2 * n) for n, size in enumerate(sizes, 1))
