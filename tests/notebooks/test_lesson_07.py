"""Lesson 07 on the real model: a full pool, who fits, prefix hits, the student's allocator."""

from __future__ import annotations

import re

import nbformat
import pytest

from tests.notebooks.harness import (
    FIGURE_TYPES,
    execute,
    lesson_path,
    outputs,
    run_too_early,
    text,
    writes_nothing_to_stderr,
)


@pytest.fixture(scope="module")
def lesson_07(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("07"), module_patch)


def line(shown: str, name: str) -> list[str]:
    """A table's row as its cells."""
    row = next(one for one in shown.splitlines() if one.startswith(f"{name}  "))
    return re.split(r"\s{2,}", row.strip())


def test_the_real_engine_s_pool_fills_up_and_somebody_gives_blocks_back(lesson_07):
    assert FIGURE_TYPES[0] in outputs(lesson_07, "07-demo")[0].data
    result = text(lesson_07, "07-demo-result")
    assert "The pool is full" in result
    assert "D was admitted last." in result
    assert line(result, "A")[4:] == ["0×", "0"]  # who came first is not held up
    assert "tokens computed a second time." in result
    assert "● measured: CPU" in result


def test_predictions_meet_what_was_seen(lesson_07):
    shown = text(lesson_07, "07-saw-victim")
    assert "you saw the one admitted last gives its blocks back." in shown
    assert "D was preempted" in shown
    users = text(lesson_07, "07-saw-users")
    assert "You predicted 50, you saw 220." in users
    assert "131,072, it would be 3." in users


def test_who_fits_is_computed_for_each_gpu(lesson_07):
    shown = text(lesson_07, "07-fit")
    assert line(shown, "A100-80GB-SXM")[2:4] == ["452,037", "882"]
    assert line(shown, "H200-141GB-SXM")[4] == "405"
    assert "computed: llama-3.1-8b bf16" in shown


def test_a_full_pool_costs_nothing_until_somebody_is_preempted(lesson_07):
    shown = text(lesson_07, "07-pool")
    wide, full, short = (line(shown, f"{n} blocks") for n in (512, 320, 192))
    assert wide[3:] == full[3:]
    assert (full[2], full[3]) == ("100\u2009%", "0")
    assert (short[3], short[4]) == ("10", "1,634 tokens")
    assert "simulated" in shown
    claim = next(c.source for c in lesson_07.cells if c.id == "07-misconceptions")
    assert "320 blocks are all taken at times" in claim
    assert "at 192 blocks there are 10" in claim


def test_the_same_beginning_is_found_and_not_computed_again(lesson_07):
    shown = text(lesson_07, "07-prefix-result")
    hits, without = line(shown, "with prefix cache"), line(shown, "without")
    found, computed, all_tokens = int(hits[2]), int(hits[3]), int(without[3])
    assert found > 0
    assert found % 16 == 0
    assert found + computed == all_tokens
    assert without[2] == "0"
    assert int(hits[4]) < int(without[4])


def test_the_stub_runs_and_scores_nothing(lesson_07):
    result = text(lesson_07, "07-check")
    assert "0 of 15 points" in result
    assert "Smallest failing input: play(BlockAllocator, 1, 1, [('allocate', 'A', 1)])" in result
    assert "Hint: " in result
    assert text(lesson_07, "07-play") == "[None, None, None]"
    assert "0 of the engine’s " in text(lesson_07, "07-against")


def test_no_cell_writes_to_stderr(lesson_07):
    writes_nothing_to_stderr(lesson_07)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “See the pool fill up” first: this one uses session."
    assert run_too_early("07", "07-demo-result", monkeypatch) == [sentence]
