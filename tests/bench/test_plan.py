"""Plans: the lengths that were asked for, prompts of their own, shared prefixes, traces."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from minillm.bench.plan import Workload, replay_plan
from minillm.bench.prompts import WORDS, segment_text
from minillm.llm.simulated import PseudoTokenizer
from minillm.sim.workload import OWN, TENANT, Segment

tokenizer = PseudoTokenizer(32_000)


def lengths(workload: Workload, count: int = 50) -> list[int]:
    return [len(tokenizer.encode(p.prompt)) for p in workload.plan([0.0] * count)]


def test_a_prompt_has_the_tokens_asked_for():
    assert set(lengths(Workload(input_len=37))) == {37}
    drawn = lengths(Workload("lognormal", input_len=100, sigma=0.5), 400)
    assert median(drawn) == pytest.approx(100, rel=0.15)
    assert len(set(drawn)) > 50
    assert max(lengths(Workload("lognormal", input_len=100, max_input_len=90))) == 90


def test_every_prompt_is_another_one_from_its_first_tokens_on():
    starts = set()
    for seed in range(3):
        for first in (0, 50):
            plan = Workload(input_len=40, seed=seed).plan([0.0] * 50, first)
            starts |= {p.prompt[: 16 * 4] for p in plan}
    assert len(starts) == 300


def test_the_seed_alone_decides():
    assert Workload("lognormal", seed=4).plan([0.0] * 9) == Workload("lognormal", seed=4).plan(
        [0.0] * 9
    )


def test_words_are_one_token_of_the_pseudo_tokenizer_each():
    assert len(set(WORDS)) == len(WORDS) == 64
    assert {len(word) for word in WORDS} == {3}
    for length in (1, 3, 6, 7, 100, 1_000):
        assert len(segment_text(Segment(OWN, 999_999_999, length))) == 4 * length
    longer, shorter = (segment_text(Segment(TENANT, 5, n)) for n in (300, 40))
    assert longer.startswith(shorter)


def test_tenants_share_their_prefix():
    plan = Workload(input_len=20, tenants=3, prefix_len=64).plan([0.0] * 60)
    assert len({p.prompt[: 64 * 4] for p in plan}) == 3
    assert len({p.prompt for p in plan}) == 60
    with pytest.raises(ValueError, match="both"):
        Workload(tenants=3)


def test_real_prompts_come_with_their_lengths():
    plan = Workload("prompts", max_output_len=50).plan([0.5] * 70)
    assert plan[0].text == plan[64].text
    assert all(4 <= p.output_len <= 50 and p.time == 0.5 for p in plan)


def test_a_trace_is_replayed_at_its_own_times():
    real = replay_plan(Workload("trace"), count=200)
    fast = replay_plan(Workload("trace"), count=200, rate_scale=4)
    assert real[0].time == 0.0
    assert [p.time for p in fast] == pytest.approx([p.time / 4 for p in real])
    paced = replay_plan(Workload("trace"), count=200, rate=10.0)
    assert (len(paced) - 1) / paced[-1].time == pytest.approx(10.0)
    gaps = [(b.time - a.time) for a, b in pairwise(paced)]
    assert max(gaps) > 3 * median(gaps)  # bursts stay bursts


def test_a_traces_shared_blocks_stay_shared():
    plan = replay_plan(Workload("trace", trace="mooncake-conversation"), count=40)
    starts = [p.prompt[: 512 * 4] for p in plan]
    assert len(set(starts)) < len(starts)


def test_a_file_is_a_trace_too(tmp_path: Path):
    file = tmp_path / "mine.csv"
    file.write_text("arrival_s,input_len,output_len\n3.0,5,2\n4.5,6,3\n")
    plan = replay_plan(Workload("trace", trace=str(file)))
    assert [(p.time, len(tokenizer.encode(p.prompt)), p.output_len) for p in plan] == [
        (0.0, 5, 2), (1.5, 6, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Workload("nope"), "Unknown dataset"),
        (lambda: Workload(seed=-1).plan([0.0]), "seed"),
        (lambda: replay_plan(Workload(trace="arxiv-summarization")), "no times"),
        (lambda: replay_plan(Workload(trace="nope")), "Unknown trace"),
        (lambda: Workload("lognormal", sigma=-1).plan([0.0]), "sigma"),
    ],
)
def test_what_cannot_be_is_refused(make, says: str):
    with pytest.raises(ValueError, match=says):
        make()
