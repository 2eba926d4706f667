"""Lesson 11: a model split over real processes, routers on a trace, a real nginx."""

from __future__ import annotations

import re

import nbformat
import pytest

from tests.capabilities import find_program
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
def lesson_11(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(lesson_path("11"), module_patch)


def line(shown: str, name: str) -> list[str]:
    """A table's row as its cells."""
    row = next(one for one in shown.splitlines() if one.startswith(f"{name}  "))
    return re.split(r"\s{2,}", row.strip())


def test_each_worker_tells_its_part(lesson_11):
    shown = text(lesson_11, "11-split")
    assert "● measured on this machine" in shown
    assert line(shown, "worker 2")[2:] == ["0–29", "3", "1", "32,768–49,151", "90\u202fMB"]
    assert re.search(r"worker 1 +\d+ +15–29 +9 +3", shown)
    assert line(shown, "one process")[2] == "all 16"
    assert "3 workers of 1 thread" in line(shown, "TP 3")[3]


def test_the_numbers_of_the_claim_come_from_a_cell(lesson_11):
    shown = text(lesson_11, "11-gpu")
    claim = next(c.source for c in lesson_11.cells if c.id == "11-misconceptions")
    tp, pp = line(shown, "A100-80GB-SXM TP 4 · PP 1"), line(shown, "A100-80GB-SXM TP 1 · PP 4")
    assert (tp[1], tp[2], pp[1]) == ("27.4\u2009ms", "0.9\u2009ms", "94.4\u2009ms")
    for number in ("27.4 ms", "0.9 ms", "94.4 ms"):
        assert number in claim
    reads = [float(line(shown, f"L40S {s}")[4].replace(",", "")) for s in
             ("TP 4 · PP 1", "TP 1 · PP 4")]  # fmt: skip
    assert f"{reads[1] / reads[0]:.1f} times as fast" in claim
    assert "◐ simulated" in shown


def test_predictions_meet_what_was_seen(lesson_11):
    assert "You predicted 1.0×, you saw 3.4×" in text(lesson_11, "11-saw-pipeline")
    assert "You predicted 1.5 to 5 times, you saw not at all" in text(lesson_11, "11-saw-equal")
    assert "You predicted 1.5 to 5 times, you saw " in text(lesson_11, "11-saw-unequal")


def test_a_slow_replica_gets_less_by_least_conn(lesson_11):
    shown = text(lesson_11, "11-unequal")
    in_turn, by_load = (
        [int(n) for n in line(shown, router)[1].split(" / ")]
        for router in ("round_robin", "least_conn")
    )
    assert max(in_turn) - min(in_turn) <= 1
    assert by_load[2] < min(by_load[:2])


def test_a_replica_fails_and_every_request_is_answered(lesson_11):
    assert FIGURE_TYPES[0] in outputs(lesson_11, "11-fail")[0].data
    lost, again, done, all_of = map(int, re.findall(r" ?(\d+) ", re.sub(
        r"replica 1", "", text(lesson_11, "11-fail-sum")).replace("\n", " ")))  # fmt: skip
    assert lost == again > 0
    assert done == all_of


def test_a_real_nginx_stands_before_the_replicas(lesson_11):
    find_program("nginx", "nginx")
    assert "least_conn;\n" in text(lesson_11, "11-nginx")
    assert "proxy_buffering off;" in text(lesson_11, "11-nginx")
    shown = text(lesson_11, "11-nginx-result")
    for router in ("round_robin", "least_conn"):
        row = line(shown, router)
        assert sum(int(n) for n in row[1].split(" / ")) == 24
        assert row[-1] == "0"
    assert "● measured here, through nginx" in shown


def test_the_stub_runs_and_scores_nothing(lesson_11):
    result = text(lesson_11, "11-check")
    assert "0 of 14 points" in result
    assert "Smallest failing input: column_parallel([[1]], [[2]], 1)" in result
    assert "Hint: " in result
    assert line(text(lesson_11, "11-drive"), "your route")[1] == "80 / 0 / 0"


def test_no_cell_writes_to_stderr(lesson_11):
    writes_nothing_to_stderr(lesson_11)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    sentence = "Run the cell under “A real nginx” first: this one uses try_nginx."
    assert run_too_early("11", "11-nginx-result", monkeypatch) == [sentence]
