"""Sampling: each setting by its definition, and what a seed promises."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")

import torch

from minillm.core import Request, SamplingParams
from minillm.model.sampler import Sampler, filtered_probs, greedy
from tests.model.harness import finish, make_engine, make_runner, random_prompts, run_all
from tests.model.tiny_models import VOCAB

V = 50


def request(name="r", prompt=(1, 2), output=(), stop_ids=(), **params) -> Request:
    made = Request(name, list(prompt), SamplingParams(**params), stop_ids=frozenset(stop_ids))
    for token in output:
        made.token_ids.append(token)
        made.num_tokens += 1
    return made


@pytest.fixture
def logits():
    return torch.randn(1, V, generator=torch.Generator().manual_seed(4)) * 2


def kept(logits, **params) -> set[int]:
    probs = filtered_probs(logits, [request(temperature=1.0, **params)])
    return set(probs[0].nonzero().flatten().tolist())


def test_greedy_takes_the_largest(logits):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        assert greedy(logits.to(dtype)) == [logits.to(dtype).float().argmax().item()]
    assert Sampler().sample(logits, [request()]) == (greedy(logits), {})


def test_top_k_keeps_k(logits):
    best = logits[0].argsort(descending=True).tolist()
    assert kept(logits, top_k=3) == set(best[:3])
    assert kept(logits, top_k=1) == {best[0]}
    for off in (0, -1, V, V + 5):
        assert kept(logits, top_k=off) == set(range(V))


def test_top_p_keeps_the_smallest_set_of_that_mass(logits):
    probs = logits[0].softmax(-1)
    for p in (0.3, 0.7, 0.95):
        chosen = kept(logits, top_p=p)
        mass = probs[list(chosen)].sum()
        assert mass >= p > mass - probs[list(chosen)].min()
        assert probs[list(chosen)].min() > max(probs[i] for i in set(range(V)) - chosen)
    assert kept(logits, top_p=1e-4) == {logits.argmax().item()}


def test_min_p_is_a_share_of_the_best(logits):
    probs = logits[0].softmax(-1)
    expected = set((probs >= 0.2 * probs.max()).nonzero().flatten().tolist())
    assert kept(logits, min_p=0.2) == expected
    assert 1 < len(expected) < V
    assert kept(logits, min_p=1.0) == {logits.argmax().item()}


def test_settings_of_one_row_leave_the_others_alone(logits):
    rows = logits.repeat(3, 1)
    requests = [
        request("a", temperature=1.0, top_k=2),
        request("b", temperature=1.0),
        request("c", temperature=1.0, top_p=0.5),
    ]
    probs = filtered_probs(rows, requests)
    assert (probs[1] > 0).all()
    assert (probs[0] > 0).sum() == 2
    torch.testing.assert_close(probs[1], logits[0].softmax(-1))


@pytest.mark.parametrize("temperature", [1e-6, 1e-5, 1e-4, 1e-3])
def test_tiny_temperatures_are_greedy_and_finite(logits, temperature):
    big = logits * 1e4
    tokens, _ = Sampler(0).sample(big, [request(temperature=temperature, seed=1)])
    assert tokens == greedy(big)


def test_draws_follow_the_probabilities(logits):
    """8,000 seeded draws: each token's share within five standard errors."""
    n = 8000
    sampler = Sampler()
    requests = [request(str(i), temperature=0.7, top_k=5, seed=i) for i in range(n)]
    drawn, _ = sampler.sample(logits.expand(n, V), requests)
    probs = filtered_probs(logits, requests[:1])[0]
    probs = (probs / probs.sum()).tolist()
    for token in range(V):
        error = math.sqrt(probs[token] * (1 - probs[token]) / n)
        assert abs(drawn.count(token) / n - probs[token]) <= 5 * error


def test_a_seeded_draw_depends_on_seed_and_position_alone(logits):
    flat = torch.zeros(1, V)
    one = request("a", temperature=1.0, seed=42)
    sampler = Sampler()
    alone, _ = sampler.sample(flat, [one])
    mates = [request("x", temperature=1.0), one, request("y", temperature=1.0, seed=7)]
    assert sampler.sample(flat.expand(3, V), mates)[0][1] == alone[0]
    assert Sampler().sample(flat, [one])[0] == alone
    by_position = [
        Sampler().sample(flat, [request("a", output=range(n), temperature=1.0, seed=42)])[0][0]
        for n in range(20)
    ]
    by_seed = [Sampler().sample(flat, [request(temperature=1.0, seed=s)])[0][0] for s in range(20)]
    assert len(set(by_position)) > 8
    assert len(set(by_seed)) > 8


def test_unseeded_rows_draw_from_the_samplers_generator():
    flat = torch.zeros(1, V)
    rows = [request(temperature=1.0)]
    first, second = Sampler(5), Sampler(5)
    draws = [first.sample(flat, rows)[0][0] for _ in range(20)]
    assert draws == [second.sample(flat, rows)[0][0] for _ in range(20)]
    assert len(set(draws)) > 8


def test_repetition_penalty_counts_prompt_and_output_once():
    row = torch.tensor([[2.0, -2.0, 1.0, 3.0, 2.5]])
    ask = request(prompt=[3, 3, 1], output=[4], repetition_penalty=2.0, logprobs=1)
    tokens, logprobs = Sampler().sample(row, [ask])
    assert tokens == [0]  # 3 → 1.5 and 4 → 1.25, once each; −2 → −4
    assert set(logprobs["r"]) == {0, 3}  # of the model's own: 3 leads
    assert row.tolist() == [[2.0, -2.0, 1.0, 3.0, 2.5]]


def test_min_tokens_holds_the_stop_tokens_back():
    row = torch.tensor([[0.0, 5.0, 4.0, 3.0]])
    early = request(output=[3], stop_ids=[1, 2, 99], min_tokens=2, max_tokens=5)
    assert Sampler().sample(row, [early])[0] == [3]
    late = request(output=[3, 3], stop_ids=[1, 2], min_tokens=2, max_tokens=5)
    assert Sampler().sample(row, [late])[0] == [1]


def test_logprobs_are_the_models_and_hold_the_sampled_token(logits):
    expected = logits[0].log_softmax(-1)
    ask = request(temperature=2.0, seed=3, logprobs=4)
    tokens, logprobs = Sampler().sample(logits, [ask])
    best = set(expected.topk(4).indices.tolist())
    assert set(logprobs["r"]) == best | {tokens[0]}
    for token, value in logprobs["r"].items():
        assert value == pytest.approx(expected[token].item(), abs=1e-5)
    _, none = Sampler().sample(logits, [request(logprobs=0)])
    assert list(none["r"]) == greedy(logits)


def test_seed_through_the_engine(tiny):
    """Seed 42 alone, beside unseeded and seed 7, in another order, again: the same ids (C32)."""
    folder, _ = tiny("llama")
    prompt, other = random_prompts([6, 9], VOCAB, seed=8)
    options = {"max_tokens": 12, "ignore_eos": True, "temperature": 1.0}
    seeded = SamplingParams(seed=42, **options)
    runner = make_runner(folder)

    def run(*requests) -> list[int]:
        engine = make_engine(runner, max_num_seqs=4)
        for number, (tokens, params) in enumerate(requests):
            name = "it" if params is seeded else str(number)
            engine.add_request(name, tokens, params)
        return finish(engine)["it"]

    unseeded, seven = SamplingParams(**options), SamplingParams(seed=7, **options)
    alone = run((prompt, seeded))
    assert run((prompt, seeded), (other, unseeded)) == alone
    assert run((other, seven), (prompt, seeded), (prompt, unseeded)) == alone
    assert run((other, unseeded), (other, seven), (prompt, seeded)) == alone
    assert run((prompt, seeded)) == alone
    different = run_all(make_engine(runner), [prompt], seven)["0"]
    assert different != alone
