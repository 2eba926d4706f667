"""Processes that are started again, and that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from minillm.serve.supervised import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    SOUND_S,
    Child,
    ChildGroup,
    ending,
)
from tests.serve.conftest import LIVENESS_S, wait_for

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def group() -> Iterator[ChildGroup]:
    group = ChildGroup()
    yield group
    group.kill()


def test_the_pause_before_a_restart_doubles_up_to_a_limit(group: ChildGroup, tmp_path: Path):
    child = Child(group, ["/bin/sh", "-c", "exit 3"], tmp_path / "log")
    child.start()
    now, pauses = 1000.0, []
    for _ in range(9):
        child.process.wait()
        assert child.look(now)
        assert not child.look(now)  # told once
        pauses.append(child.restart_at - now)
        now = child.restart_at
        child.look(now)
    assert pauses[:4] == [FIRST_PAUSE_S * 2**i for i in range(4)]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert child.starts == 10
    assert child.last_end == "ended with code 3"


def test_who_was_up_long_enough_starts_again_soon(group: ChildGroup, tmp_path: Path):
    child = Child(group, SLEEPER, tmp_path / "log")
    child.start()
    now = 0.0
    for up_s, pause in [(1.0, 1), (1.0, 2), (SOUND_S, 1), (1.0, 2)]:
        child.ready(now)
        child.signal(signal.SIGKILL)
        child.process.wait()
        now += up_s
        assert child.look(now)
        assert child.restart_at - now == FIRST_PAUSE_S * pause
        assert child.up_since is None
        now = child.restart_at
        child.look(now)
        assert child.alive
    assert child.last_end == "was ended by SIGKILL"


def test_last_words_are_the_last_line_that_says_something(group: ChildGroup, tmp_path: Path):
    child = Child(group, ["/bin/sh", "-c", "echo one; echo $WORD >&2; echo"], tmp_path / "log",
                  {"WORD": "two"})  # fmt: skip
    assert child.last_words() == ""
    child.start()
    child.process.wait()
    assert child.last_words() == "two"


def test_kill_ends_children_and_theirs(tmp_path: Path):
    group = ChildGroup()
    child = Child(group, ["/bin/sh", "-c", "sleep 600 & sleep 600"], tmp_path / "log")
    child.start()
    wait_for(lambda: len(psutil.Process(child.pid).children()) == 2, "both sleep")
    family = [psutil.Process(child.pid), *psutil.Process(child.pid).children()]
    group.kill()
    assert psutil.wait_procs(family, LIVENESS_S)[1] == []
    group.kill()  # once more is fine


PARENT = """
import sys, time
from pathlib import Path
from minillm.serve.supervised import Child, ChildGroup
child = Child(ChildGroup(), [sys.executable, "-c", "import signal, time\\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\ntime.sleep(600)"], Path(sys.argv[1]))
child.start()
print(child.pid, flush=True)
time.sleep(600)
"""


def test_children_end_with_a_parent_that_was_killed(tmp_path: Path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    child = psutil.Process(int(parent.stdout.readline()))
    keeper = [p for p in psutil.Process(parent.pid).children() if p.pid != child.pid]
    assert len(keeper) == 1
    parent.kill()
    parent.communicate()
    left = psutil.wait_procs([child, *keeper], LIVENESS_S)[1]  # though it ignores SIGTERM
    assert left == []


def test_ctrl_c_in_the_terminal_does_not_reach_them(group: ChildGroup, tmp_path: Path):
    child = Child(group, SLEEPER, tmp_path / "log")
    child.start()
    assert os.getpgid(child.pid) != os.getpgrp()


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with code 0"), (2, "ended with code 2"), (-15, "was ended by SIGTERM"),
     (-200, "was ended by signal 200")],
)  # fmt: skip
def test_endings_in_words(code: int, words: str):
    assert ending(code) == words
