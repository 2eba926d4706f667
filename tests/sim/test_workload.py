"""Workloads: seeded, of the shape that was asked for, the same under every hash seed."""

from __future__ import annotations

import subprocess
import sys
from statistics import fmean, stdev

import pytest

from minillm.sim.workload import (
    Fixed,
    Lognormal,
    Uniform,
    arrival_times,
    own_request,
    synthetic,
    with_documents,
    with_tenants,
)


def test_prompts_share_what_they_are_meant_to_share_and_nothing_else():
    a, b = own_request(1, 0.0, 40, 1), own_request(2, 0.0, 40, 1)
    assert a.prompt_token_ids()[0] != b.prompt_token_ids()[0]
    assert a.prompt_token_ids() == own_request(1, 9.0, 40, 5).prompt_token_ids()
    many = {own_request(i, 0.0, 16, 1).prompt_token_ids() for i in range(50_000)}
    assert len(many) == 50_000
    for length in (1, 2, 3, 4, 5000):
        ids = own_request(70_000, 0.0, length, 1).prompt_token_ids()
        assert len(ids) == length
        assert ids == own_request(70_000, 0.0, 9000, 1).prompt_token_ids()[:length]
        assert all(3 <= token < 32_000 for token in ids)


def test_poisson_constant_and_gamma_arrivals():
    poisson = arrival_times(20_000, 5.0, seed=1)
    assert poisson == sorted(poisson)
    assert poisson[-1] == pytest.approx(20_000 / 5, rel=0.05)
    assert gap_cv(poisson) == pytest.approx(1.0, rel=0.05)
    bursts = arrival_times(20_000, 5.0, seed=1, kind="gamma", cv=3.0)
    assert bursts[-1] == pytest.approx(20_000 / 5, rel=0.1)
    assert gap_cv(bursts) == pytest.approx(3.0, rel=0.1)
    assert arrival_times(3, 4.0, seed=1, kind="constant") == [0.25, 0.5, 0.75]


def gap_cv(times):
    gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    return stdev(gaps) / fmean(gaps)


def test_another_rate_changes_no_length():
    slow, fast = synthetic(50, 1.0, seed=3), synthetic(50, 8.0, seed=3)
    assert [r.segments for r in slow] == [r.segments for r in fast]
    assert [r.output_len for r in slow] == [r.output_len for r in fast]
    assert [r.time for r in slow] == pytest.approx([8 * r.time for r in fast])
    assert synthetic(50, 1.0, seed=4) != slow


def test_lengths():
    requests = synthetic(400, 1.0, inputs=Fixed(100), outputs=Lognormal(50, 1.0, 10, 200))
    assert {r.input_len for r in requests} == {100}
    outputs = sorted(r.output_len for r in requests)
    assert 10 <= outputs[0] <= outputs[-1] <= 200
    assert outputs[200] == pytest.approx(50, rel=0.2)
    uniform = synthetic(400, 1.0, inputs=Uniform(3, 5))
    assert {r.input_len for r in uniform} == {3, 4, 5}


def test_documents_take_the_place_of_some_prompts():
    plain = synthetic(2_000, 1.0, inputs=Fixed(100))
    mixed = with_documents(plain, 0.05, seed=1)
    documents = [r for r in mixed if r.input_len != 100]
    assert len(documents) == pytest.approx(100, rel=0.3)
    assert all(12_000 <= r.input_len <= 24_000 for r in documents)
    assert [r.time for r in mixed] == [r.time for r in plain]
    assert with_documents(plain, 0.0) == plain


def test_tenants_share_their_system_prompt():
    requests = with_tenants(synthetic(60, 1.0, inputs=Fixed(20)), 5, 64, seed=2)
    heads = {r.prompt_token_ids()[:64] for r in requests}
    assert len(heads) == 5
    assert len({r.prompt_token_ids() for r in requests}) == 60
    assert {r.input_len for r in requests} == {84}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: synthetic(0, 1.0), "number of requests must be an integer ≥ 1, got 0"),
        (lambda: synthetic(5, 0), "rate must be a number of requests a second > 0, got 0"),
        (lambda: synthetic(5, 1.0, arrivals="bursty"), "Unknown arrivals 'bursty'"),
        (lambda: synthetic(5, 1.0, arrivals="gamma", cv=0), "variation must be > 0, got 0"),
        (lambda: Fixed(0), "fixed length must be an integer ≥ 1, got 0"),
        (lambda: Uniform(5, 4), r"must not end \(4\) before they begin \(5\)"),
        (lambda: Lognormal(0), "median length must be > 0"),
        (lambda: Lognormal(5, -1), "sigma must be a number ≥ 0"),
        (lambda: with_documents([], 1.5), "share of documents must lie between 0 and 1"),
        (lambda: with_tenants([], 0, 5), "number of tenants must be an integer ≥ 1"),
        (lambda: with_tenants([], 5, 0), "shared prefix must be an integer ≥ 1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(make, said):
    with pytest.raises(ValueError, match=said) as error:
        make()
    assert str(error.value).count("\n") == 0


SCRIPT = """
import hashlib
from minillm.sim.simulate import EngineOptions, simulate_cluster
from minillm.sim.workload import synthetic, with_documents, with_tenants
work = with_tenants(with_documents(synthetic(40, 20.0, seed=5, arrivals="gamma"), 0.1), 4, 200)
for router in ("random", "power_of_two", "prefix_aware", "prefix_load"):
    result = simulate_cluster("3xA100-80GB-SXM", router, work, fail="1@0.5s-1s", seed=7)
    result = {k: v for k, v in result.items() if not k.startswith("sim_")}
    print(router, hashlib.sha256(repr(result).encode()).hexdigest(), result["ttft_p99_ms"])
"""


def test_the_same_seed_gives_the_same_result_on_any_hash_seed(repository):
    answers = []
    for hash_seed in ("0", "4242"):
        answer = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=repository, capture_output=True, text=True,
            timeout=120, env={"PYTHONHASHSEED": hash_seed, "PATH": ""},
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        answers.append(answer.stdout)
    assert answers[0] == answers[1]
    assert len(set(answers[0].splitlines())) == 4
