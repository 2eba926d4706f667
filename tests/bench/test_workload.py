"""The compare workload: the same for a seed everywhere, spread as it says."""

from __future__ import annotations

import json
import statistics
from importlib.resources import files
from itertools import pairwise

import pytest

from minillm.bench.workload import (
    mixed_workload,
    output_lengths,
    poisson_arrivals,
    read_prompts,
)


def one_id_a_word(text: str) -> list[int]:
    return [len(word) for word in text.split()]


def test_the_prompts_are_64_different_ones_with_provenance():
    data = json.loads((files("minillm") / "data" / "prompts.json").read_text(encoding="utf-8"))
    assert "Written for this course" in data["provenance"]
    assert len(set(read_prompts())) == 64
    words = sorted(len(prompt.split()) for prompt in read_prompts())
    assert words[0] <= 5
    assert words[-1] >= 70


def test_prompts_are_5_to_120_tokens_of_the_default_model(default_model_path):
    from minillm.model.tokenizer import Tokenizer

    tokenizer = Tokenizer(default_model_path)
    lengths = [len(tokenizer.encode(prompt)) for prompt in read_prompts()]
    assert min(lengths) >= 5
    assert max(lengths) <= 120


def test_lengths_of_seed_0_are_these_on_every_machine():
    first = output_lengths(24, 0)
    assert first[:8] == output_lengths(8, 0)
    # Worked out once; the ideal ratio of steps follows: 193 of static, 94 of continuous.
    assert sum(max(first[i : i + 8]) for i in (0, 8, 16)) == 193
    assert sum(first) == 696


def test_lengths_are_lognormal_and_cut():
    lengths = output_lengths(4000, 1)
    assert 22 <= statistics.median(lengths) <= 26
    assert (min(lengths), max(lengths)) == (4, 160)
    # Below 24/e of the median lies what is under −1 sigma: 15.9 %.
    assert 0.13 < sum(length < 24 / 2.718 for length in lengths) / 4000 < 0.19


def test_arrivals_are_poisson_and_change_no_length():
    times = poisson_arrivals(4000, 8.0, 2)
    assert times == sorted(times)
    gaps = [b - a for a, b in pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(1 / 8, rel=0.06)
    assert statistics.stdev(gaps) == pytest.approx(1 / 8, rel=0.1)
    at_once, spread = mixed_workload(one_id_a_word, 9, 5), mixed_workload(one_id_a_word, 9, 5, 2.0)
    assert {a.time for a in at_once} == {0.0}
    assert [a.params for a in at_once] == [a.params for a in spread]
    assert [a.prompt_token_ids for a in at_once] == [a.prompt_token_ids for a in spread]


def test_more_requests_than_prompts_take_them_again():
    arrivals = mixed_workload(one_id_a_word, 100)
    assert len({a.request_id for a in arrivals}) == 100
    assert arrivals[64].prompt_token_ids == arrivals[0].prompt_token_ids
    assert all(a.params.ignore_eos for a in arrivals)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float):
    with pytest.raises(ValueError, match="requests a second > 0"):
        poisson_arrivals(3, rate, 0)


def test_no_requests_are_refused():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        mixed_workload(one_id_a_word, 0)
