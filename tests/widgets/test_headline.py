"""The headline and the figures: computed, honest when there is no gain, in the field's words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minillm.core import summarize
from minillm.core.trace import RequestEvent, Trace
from tests.widgets.golden import header, records
from tests.widgets.runs import FOURTEEN, run
from widgets.headline import (
    headline,
    lane_figures,
    policy_subtitle,
    settings,
    steps_waited,
)


@pytest.fixture(scope="module")
def static():
    return run("static")


@pytest.fixture(scope="module")
def continuous():
    return run("continuous", num_blocks=52)


def golden_trace() -> Trace:
    trace = Trace(header())
    for record in records():
        trace.add(record)
    return trace


def test_two_runs(static, continuous):
    found = headline([static, continuous])
    ratio = summarize(continuous).output_tok_s / summarize(static).output_tok_s
    first, second = found.text.split("\n")
    assert first == f"Continuous batching: {ratio:.1f}× the tokens per second."
    before, after = steps_waited(static), steps_waited(continuous)
    most = max(before, key=lambda req: before[req] - after[req])
    assert (
        second
        == f"{'ABCDEFGHIJKLMN'[most]} starts after {after[most]} steps instead of {before[most]}."
    )
    marked = [note for note in found.notes if note["mark"]]
    assert [(n["lane"], n["req"]) for n in marked] == [(0, most), (1, most)]
    assert marked[0]["text"].endswith(f"waits {before[most]} steps")


def test_no_gain_is_said(static, continuous):
    worse = headline([continuous, static]).text
    assert worse.startswith("Static batching: only 0.46× the tokens per second here.")
    same = headline([static, static]).text
    assert same == "Static batching: about the same tokens per second (1.00×)."


def test_a_students_scheduler_keeps_its_name(static, continuous):
    text = headline([static, continuous], ["Static", "ShortestFirst"]).text
    assert text.startswith("ShortestFirst: 2.2× the tokens per second.")


def test_unfinished_runs_are_not_compared(static, continuous):
    cut = Trace(continuous.header)
    for record in continuous.records[:100]:
        cut.add(record)
    done = summarize(cut).completed
    assert 0 < done < 14
    assert headline([static, cut]).text.startswith(f"Continuous: {done} of ")
    assert "no comparison" in headline([static, cut]).text


def test_other_machines_are_named(static, continuous):
    other = Trace(header())
    for record in continuous.records:
        other.add(record)
    assert "differ in device or model" in headline([static, other]).text
    assert "differ" not in headline([static, continuous]).text


def test_one_run(static, continuous):
    assert headline([static]).text == (
        "Static batching: 151 tokens per second.\n62\u2009% of its rows are padding."
    )
    assert headline([continuous]).text == "Continuous batching: 329 tokens per second."
    assert headline([Trace(header())]).text == "Static batching: no request has finished."


def test_steps_waited_by_hand():
    # Request 0 arrives at 0.5, request 1 at 0.75; the first step, with both, starts at 1.0.
    assert steps_waited(golden_trace()) == {0: 0, 1: 0}
    late = golden_trace()
    late.add(RequestEvent(1.2, 2, "req-2", "arrive", {"prompt_len": 1}))
    first = next(s for s in late.steps if s.step == 5)
    first.raw_rows.append(first.rows[0]._replace(req_idx=2))
    assert steps_waited(late)[2] == 4  # steps 1 (in part) to 4


def test_preemption_note_counts_what_is_computed_again():
    (note,) = headline([golden_trace()]).notes
    assert note["text"] == "B preempted at ✕: pool full; it recomputes 6 tokens"
    assert (note["lane"], note["req"], note["tone"]) == (0, 1, "pre")


def test_more_preemptions_are_counted():
    tight = run("continuous", num_blocks=48)
    lost = [e for e in tight.events if e.event == "preempt"]
    assert len(lost) > 1
    assert headline([tight]).notes[0]["text"].endswith(f"({len(lost) - 1} more)")


def test_figures_are_the_metrics(static):
    figures, summary = lane_figures(static), summarize(static)
    assert figures.tok_s == summary.output_tok_s
    assert figures.elapsed_s == summary.makespan_s
    assert figures.row_padding_fraction == summary.row_padding_fraction
    assert figures.slots == 6
    assert figures.useful_rows == pytest.approx(
        (1 - summary.row_padding_fraction) * sum(len(s.rows) for s in static.steps) / summary.steps
    )


def test_settings_and_subtitles(static, continuous):
    assert settings([static, continuous]) == "same 14 requests, 6 slots, 52 KV blocks"
    assert settings([run("static", FOURTEEN[:1])]) == "1 request, 6 slots, 1,024 KV blocks"
    assert settings([static, run("static", FOURTEEN[:6])]).startswith("14 and 6 requests")
    assert policy_subtitle(static.header).startswith("waits for 6")
    assert "chunks of ≤ 128" in policy_subtitle(continuous.header)
    assert "50\u2009ms" in policy_subtitle(run("dynamic", FOURTEEN[:2]).header)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("static", "waits for a full batch, then runs until the longest output ends"),
        ("dynamic", "waits, then runs until the longest output ends"),
        ("continuous", "joins and leaves at every step"),
        ("ShortestFirst", ""),
    ],
)
def test_subtitle_of_a_trace_that_does_not_say_its_limits(policy, says):
    assert policy_subtitle(replace(header(), policy=policy, config={})) == says


def test_no_run_is_refused():
    with pytest.raises(ValueError, match="1 or 2 runs, got 0"):
        headline([])
