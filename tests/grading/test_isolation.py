"""Hostile or broken code costs its own question only, and the report says what happened."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from grading.exercise import Exercise, Property, calls, equals, run_function, same
from grading.isolate import IN_PROCESS, sandbox
from grading.limits import Limits
from grading.plain import NotPlainError, plain

LIMITS = Limits(call_s=3.0, total_s=30.0, memory_bytes=1 << 30, lines=30_000)
DOUBLE = Exercise(
    "lesson_05",  # the child only takes `run` from that module: see exercise()
    run_function,
    (
        Property(
            "a number is doubled", 2, "What is twice 3?",
            calls("double", [(1,), (3,), ([1],)]), equals(lambda x: x * 2), ("double",),
        ),
        Property(
            "nothing is negative", 1, "Which way does it go?",
            calls("other", [(1,)]), equals(lambda x: x), ("other",),
        ),
    ),
    limits=LIMITS,
)  # fmt: skip


@pytest.fixture
def exercise(tmp_path, monkeypatch):
    """DOUBLE, where a child process can import it: a module of its own in grading.checks."""
    import grading.checks

    folder = tmp_path / "extra"
    folder.mkdir()
    (folder / "doubling.py").write_text(
        "from grading.exercise import Exercise, Property, run_function\n"
        "two = [Property(n, 1, '', (), None, (n,)) for n in ('double', 'other')]\n"
        "EXERCISE = Exercise('doubling', run_function, tuple(two))\n"
    )
    site = tmp_path / "site"
    site.mkdir()
    # sitecustomize runs in the child before anything else
    (site / "sitecustomize.py").write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})\n"
        f"import grading.checks\ngrading.checks.__path__.append({str(folder)!r})\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(grading.checks, "__path__", [*grading.checks.__path__, str(folder)])
    return replace(DOUBLE, name="doubling")


def double(x):
    return x * 2


class AlwaysEqual:
    def __eq__(self, other):
        return True

    __hash__ = None


class AlwaysEqualNumber(float):
    def __eq__(self, other):
        return True

    __hash__ = None


def endless(x):
    while True:
        pass


def hog(x):
    return [bytearray(1 << 27) for _ in range(64)]


def exits(x):
    sys.exit("bye")


def asks(x):
    return input("? ")


def flood(x):
    for _ in range(2000):
        print("x" * 1000)
        print("y" * 1000, file=sys.stderr)
    return x * 2


def changes_its_input(x):
    if isinstance(x, list):
        x.append(1)
        return x
    return x * 2


def deletes(x):
    shutil.rmtree(os.environ["MINILLM_TEST_VICTIM"])
    return x * 2


def overwrites(x):
    Path(os.environ["MINILLM_TEST_VICTIM"], "file").write_text("gone")
    return x * 2


def starts_programs(x):
    return subprocess.run(["true"]).returncode


def kills_its_parent(x):
    os.kill(os.getppid(), 9)


@pytest.mark.parametrize("in_process", [False, True])
def test_right_code_gets_full_marks(exercise, monkeypatch, in_process):
    monkeypatch.setenv(IN_PROCESS, "1" if in_process else "0")
    report = exercise.check({"double": double, "other": lambda x: x})
    assert (report.score, report.max) == (3, 3), repr(report)


def test_only_the_questions_that_are_given_are_checked(exercise):
    report = exercise.check({"double": double})
    assert (report.score, report.max) == (2, 2)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (endless, "did not end within 3 s"),
        (lambda x: os._exit(3), "ended its process (exit status 3)"),
        (lambda x: ctypes.string_at(0), "segmentation fault"),
        (hog, "MemoryError"),
        (exits, "SystemExit: bye"),
        (asks, "EOFError"),
        (deletes, "may write and delete in its own folder only"),
        (overwrites, "may write and delete in its own folder only"),
        (starts_programs, "may not start other programs"),
        (kills_its_parent, "may not send signals"),
        (changes_its_input, "a changed argument"),
        (lambda x: AlwaysEqual(), "It is of type AlwaysEqual"),
        (lambda x: AlwaysEqualNumber(7), "7"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero (line"),
        (lambda x: {1, 2}, "of type set"),
        (lambda x: "x" * (9 << 20), "larger than 8 MiB"),
        (lambda: 1, "TypeError"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:30]),
)
def test_faults_cost_their_own_question_and_say_why(exercise, tmp_path, monkeypatch, wrong, says):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("still here")
    monkeypatch.setenv("MINILLM_TEST_VICTIM", str(victim))
    start = time.monotonic()
    report = exercise.check({"double": wrong, "other": lambda x: x})
    assert time.monotonic() - start < 30
    assert report.groups[0].points == 0
    assert says in report.groups[0].got
    assert (victim / "file").read_text() == "still here"
    other = exercise.check({"other": lambda x: x})
    assert other.score == 1


def test_a_flood_of_output_goes_nowhere(exercise, capfd):
    report = exercise.check({"double": flood})
    assert report.score == 2
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_an_endless_loop_ends_in_this_process_too(exercise, monkeypatch):
    monkeypatch.setenv(IN_PROCESS, "1")
    report = exercise.check({"double": endless, "other": lambda x: x})
    assert "did not end within 30,000 lines" in report.groups[0].got
    assert report.groups[1].points == 1
    assert sys.gettrace() is None or "grading" not in repr(sys.gettrace())
    assert report.remark.endswith("Marks are given in the installed course.")


def test_code_that_never_ends_gets_fewer_lines_each_time(monkeypatch):
    monkeypatch.setenv(IN_PROCESS, "1")
    limits = Limits(lines=30_000, deaths=2)
    with sandbox("", run_function, {"f": endless}, limits) as box:
        errors = [outcome.error for outcome in box.run([{"name": "f", "args": [1]}] * 4)]
    lines = [error.rsplit(maxsplit=2)[1] for error in errors]
    assert lines == ["30,000", "30,000", "1,500", "1,500"]


def test_what_cannot_be_pickled_is_told(exercise):
    lock = __import__("threading").Lock()
    report = exercise.check({"double": lambda x: lock and x * 2})
    assert "cannot be handed to the check" in report.groups[0].got


@pytest.mark.parametrize(("objects", "says"), [({}, "nothing"), ({"tripple": double}, "tripple")])
def test_names_are_checked(exercise, objects, says):
    with pytest.raises(ValueError, match=f"is about double and other, got {says}"):
        exercise.check(objects)


def test_a_number_is_no_function(exercise):
    with pytest.raises(ValueError, match="double must be a function"):
        exercise.check({"double": 3})


def test_plain_data():
    numpy = pytest.importorskip("numpy")
    assert plain((1, [2.5, None], {"a": True, 3: "x"})) == [1, [2.5, None], {"a": True, "3": "x"}]
    assert plain(numpy.arange(3)) == [0, 1, 2]
    assert type(plain(numpy.float64(2.5))) is float
    loop: list = []
    loop.append(loop)
    for wrong in (loop, object(), 10**5000, {(1, 2): 3}):
        with pytest.raises(NotPlainError):
            plain(wrong)


def test_sameness_keeps_true_and_one_apart():
    assert same((1, 2.0), [1, 2.0000000001])
    assert not same(True, 1)
    assert not same([1], [1, 2])
    assert same({1: 2}, {"1": 2})
    assert same(float("inf"), float("inf"))
