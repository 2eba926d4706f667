"""The text timeline: exact pictures of small runs, every step one second long."""

from __future__ import annotations

from minillm import LLM, SamplingParams
from minillm.bench.text_timeline import slots_of, timeline, timelines
from minillm.core import Arrival, Trace, drive
from minillm.sim import CostModel

SECOND = CostModel(step_s=1.0, token_s=0.0, context_s=0.0)


def run(policy: str, lengths: list[int], times: list[float] | None = None, slots: int = 2) -> Trace:
    """Requests of 3 prompt tokens and these output lengths under a policy."""
    engine = LLM.simulated(SECOND, max_num_seqs=slots).new_engine(policy)
    times = times or [0.0] * len(lengths)
    arrivals = [
        Arrival(f"r{i}", (5, 6, 7), SamplingParams(max_tokens=n, ignore_eos=True), t)
        for i, (n, t) in enumerate(zip(lengths, times, strict=True))
    ]
    list(drive(engine, arrivals))
    return engine.trace


def test_static_shows_its_padding():
    assert timeline(run("static", [2, 5, 3]), 8) == ["aA░░░cCC", "bBBBB···"]


def test_continuous_fills_the_slot_at_once():
    assert timeline(run("continuous", [2, 5, 3]), 5) == ["aAcCC", "bBBBB"]


def test_one_axis_for_all_leaves_the_sooner_end_empty():
    runs = [run("static", [2, 5, 3]), run("continuous", [2, 5, 3])]
    assert timelines(runs, 8 + len("continuous │")) == [
        "static     │aA░░░cCC", "           │bBBBB···", "",
        "continuous │aAcCC", "           │bBBBB", "",
    ]  # fmt: skip


def test_a_prefill_is_seen_however_narrow():
    picture = timeline(run("continuous", [40, 5, 3]), 10)
    assert "b" in picture[1]
    assert "c" in picture[1]


def test_nobody_there_is_empty():
    assert timeline(run("continuous", [2, 2], [0.0, 6.0]), 8) == ["aA····bB"]


def test_slots_are_used_again_lowest_first():
    assert slots_of(run("continuous", [1, 4, 1, 1])) == {0: 0, 1: 1, 2: 0, 3: 0}


def test_many_slots_are_counted():
    lines = timeline(run("continuous", [2] * 20, slots=20), 4)
    assert len(lines) == 17
    assert lines[-1] == "… and 4 more slots"


def test_a_cell_shows_the_last_letter_of_a_name():
    lines = timeline(run("continuous", [1] * 28, slots=1), 28)
    assert lines == ["abcdefghijklmnopqrstuvwxyzab"]


def test_an_empty_trace_is_no_picture():
    engine = LLM.simulated().new_engine()
    assert timeline(engine.trace) == []
    assert timelines([engine.trace]) == [""]
