"""Lesson 02: the queue on paper, the slider, a thousand users, one and four slots of the engine."""

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
def lesson_02(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("02"), module_patch)


def test_a_hundred_at_once_the_last_waits_49_5_s(lesson_02):
    assert FIGURE_TYPES[0] in outputs(lesson_02, "02-demo")[0].data
    saw = text(lesson_02, "02-saw-last")
    assert "You predicted 50.0\u202fs, you saw 49.5\u202fs." in saw
    assert "The mean wait is 24.75 s." in saw


def test_the_sample_stands_beside_the_endless_queue(lesson_02):
    lines = text(lesson_02, "02-load-theory").splitlines()
    endless = {line.split()[0]: line for line in lines[2:5]}
    assert "200\u2009ms" in endless["2.5"]
    assert "800\u2009ms" in endless["4"]
    assert "3.80\u2009s" in endless["4.75"]
    assert lines[-1].startswith("◐ simulated: one server, exponential gaps and service")
    saw = text(lesson_02, "02-saw-load")
    assert "You predicted 2.0×, you saw " in saw
    assert "the factor is 19" in saw


def test_the_slider_and_its_queue_are_shown(lesson_02):
    assert FIGURE_TYPES[0] in outputs(lesson_02, "02-slider")[0].data


def test_a_thousand_users_are_some_eighty_requests(lesson_02):
    shown = text(lesson_02, "02-users")
    assert "by hand: λ = users ÷ (think + answer) = 15.4/s, L = λ · 5 s = 77" in shown
    assert "(simulated)" in shown
    assert "You predicted about 1,000, you saw about 80." in text(lesson_02, "02-saw-users")


def test_one_slot_and_four_are_measured_on_the_real_engine(lesson_02):
    shown = text(lesson_02, "02-real-result")
    assert shown.count("(measured)") == 2
    for name in ("one slot", "four slots"):
        line = next(line for line in shown.splitlines() if line.startswith(name))
        rate, stay, number, wait = map(float, re.findall(r"\d+\.\d+", line))
        assert number == pytest.approx(rate * stay, rel=0.1, abs=0.02)
        assert 0 <= wait <= stay  # how long, a busy machine decides
    assert "measured" in text(lesson_02, "02-real-service")


def test_the_stub_runs_and_scores_nothing(lesson_02):
    result = text(lesson_02, "02-check")
    assert "0 of 12 points" in result
    assert "Smallest failing input: fifo_waits([0.0], [1.0])" in result
    assert "yours: None None None" in text(lesson_02, "02-against")


def test_no_cell_writes_to_stderr(lesson_02):
    writes_nothing_to_stderr(lesson_02)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “The queue on the real engine” first: this one uses real."
    assert run_too_early("02", "02-real-result", monkeypatch) == [sentence]
