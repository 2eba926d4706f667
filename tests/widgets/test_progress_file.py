"""The file of progress: whole, shared by processes, never in the way of a lesson."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.widgets.progress_facts import FACTS, at, finished
from widgets import progress_file
from widgets.progress_file import ProgressFile, place
from widgets.progress_model import Fact, decode, encode, merge

ROOT = Path(__file__).resolve().parents[2]
END = {("05", "end"): Fact(at(1))}
CHECK = {("05", "check"): Fact(at(1), points=7, of=10)}


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "kept" / "progress.json"


def test_facts_come_back_in_a_new_kernel(path):
    ProgressFile(path).add(END)
    ProgressFile(path).add(CHECK)
    assert ProgressFile(path).facts() == merge(END, CHECK)
    assert sorted(each.name for each in path.parent.iterdir()) in (
        ["progress.json"], ["progress.json", "progress.json.lock"],
    )  # fmt: skip


def test_looking_makes_no_file(path):
    assert ProgressFile(path).facts() == {}
    assert not path.parent.exists()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FACTS, FACTS, FACTS)
def test_two_notebooks_lose_nothing_of_each_other(tmp_path, a, b, c):
    path = tmp_path / "progress.json"
    path.unlink(missing_ok=True)
    one, other = ProgressFile(path), ProgressFile(path)
    one.add(a)
    other.add(b)
    one.add(c)
    assert one.facts() == other.facts() == merge(a, b, c)


WRITER = """
import sys
from widgets.progress_file import ProgressFile
from widgets.progress_model import Fact
from pathlib import Path
kept = ProgressFile(Path(sys.argv[1]))
for number in range(1, 21):
    fact = Fact("2026-12-01T12:00:00+01:00", right=True)
    kept.add({(sys.argv[2], f"quiz {number}"): fact})
assert not kept.note, kept.note
"""


def test_processes_that_write_at_once_lose_nothing(path):
    numbers = ("01", "02", "03")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), number], cwd=ROOT)
        for number in numbers
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    found, is_whole = decode(path.read_text(encoding="utf-8"))
    assert is_whole
    assert len(found) == 20 * len(numbers)


@pytest.mark.parametrize(
    "damage",
    [b"{", b"\xff\xfe", b'{"schema": 1, "lessons": {"05": {"end": 3}}}', b"[]", b"\x00" * 9],
)
def test_a_damaged_file_is_set_aside_with_one_sentence(path, damage):
    path.parent.mkdir()
    path.write_bytes(damage)
    kept = ProgressFile(path)
    kept.add(END)
    assert ProgressFile(path).facts() == END
    [copy] = path.parent.glob("progress-unreadable-*.json")
    assert copy.read_bytes() == damage
    assert kept.note == (
        f"Not all of progress.json could be read. As it was, it is kept as {copy.name}."
    )
    assert kept.facts() == END  # and it is not set aside again
    assert len(list(path.parent.glob("progress-unreadable-*"))) == 1


def test_what_can_be_read_of_a_damaged_file_counts(path):
    path.parent.mkdir()
    path.write_text(encode(merge(END, CHECK)).replace("7,", '"seven",'), encoding="utf-8")
    kept = ProgressFile(path)
    assert kept.facts() == END
    assert "could be read" in kept.note
    assert '"seven"' in next(path.parent.glob("progress-unreadable-*")).read_text("utf-8")


def test_an_editors_byte_order_mark_is_no_damage(path):
    path.parent.mkdir()
    path.write_text(encode(END), encoding="utf-8-sig")
    assert ProgressFile(path).facts() == END
    assert len(list(path.parent.iterdir())) == 1


def test_a_later_versions_file_is_left_as_it_is(path):
    path.parent.mkdir()
    text = '{"schema": 2, "lessons": {}}'
    path.write_text(text, encoding="utf-8")
    kept = ProgressFile(path)
    kept.add(END)
    assert path.read_text(encoding="utf-8") == text
    assert "was written by a later version" in kept.note
    assert kept.facts() == END  # in this kernel


def test_a_place_that_cannot_be_written_costs_one_sentence(tmp_path):
    """A file where the folder should be: nobody can write there, not even root."""
    (tmp_path / "home").write_text("a file")
    kept = ProgressFile(tmp_path / "home" / "progress.json")
    kept.add(END)
    assert kept.note.startswith("Not kept: ")
    assert kept.note.count(". ") == 0
    assert kept.facts() == END
    kept.add(CHECK)
    (tmp_path / "home").unlink()  # the trouble is over: nothing is lost
    assert kept.facts() == merge(END, CHECK)
    assert kept.note == ""
    assert ProgressFile(kept.path).facts() == merge(END, CHECK)


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid"), reason="modes are POSIX")
@pytest.mark.skipif(os.name != "nt" and os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_home_costs_one_sentence(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    kept = ProgressFile(home / "minillm" / "progress.json")
    kept.add(END)
    assert kept.note.startswith("Not kept: Permission denied")
    assert kept.facts() == END


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    kept = ProgressFile(path)
    kept.add(END)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        kept.add(CHECK)
        assert kept.note == f"Not kept: No space left on device ({path})."
    assert path.read_bytes() == before
    assert not list(path.parent.glob("*.part"))
    assert kept.facts() == merge(END, CHECK)
    assert decode(path.read_text("utf-8")) == (merge(END, CHECK), True)


def test_a_lock_that_stays_taken_costs_one_sentence(path, monkeypatch):
    filelock = pytest.importorskip("filelock")
    monkeypatch.setattr(progress_file, "WAIT_S", 0.1)
    path.parent.mkdir()
    kept = ProgressFile(path)
    with filelock.FileLock(f"{path}.lock", is_singleton=False):
        kept.add(END)
    assert kept.note.startswith("Not kept: ")
    assert kept.facts() == END
    assert kept.note == ""


def test_a_file_that_is_deleted_begins_anew(path):
    kept = ProgressFile(path)
    kept.add(finished("05"))
    path.unlink()
    assert kept.facts() == {}
    kept.add(END)
    assert kept.facts() == END


def test_who_watches_is_told(path):
    kept, told = ProgressFile(path), []
    kept.watchers["a"] = lambda: told.append(kept.facts())
    kept.add(END)
    assert told == [END]


# ── where it lies, and what is told ─────────────────────────────────────────────────────────


def test_where_it_lies(monkeypatch, tmp_path):
    monkeypatch.delenv(progress_file.PLACE)
    monkeypatch.delenv(progress_file.UNATTENDED, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert place().parts[-2:] == ("minillm", "progress.json")
    if sys.platform == "linux":
        assert place() == tmp_path / "data" / "minillm" / "progress.json"
    with monkeypatch.context() as bare:
        bare.setitem(sys.modules, "platformdirs", None)
        assert place() is None
    monkeypatch.setenv(progress_file.UNATTENDED, "{}")
    assert place() is None
    monkeypatch.setenv(progress_file.PLACE, str(tmp_path))
    assert place() == tmp_path / "progress.json"
    monkeypatch.setenv(progress_file.PLACE, str(tmp_path / "mine.json"))
    assert place() == tmp_path / "mine.json"
    monkeypatch.setenv(progress_file.PLACE, "off")
    assert place() is None


def test_tests_never_write_into_a_students_file():
    assert os.environ[progress_file.PLACE] == "off"
    assert progress_file.here().path is None


def test_what_the_lessons_tell(monkeypatch, path):
    monkeypatch.setenv(progress_file.PLACE, str(path))
    progress_file.predicted("05-speed", 3.0)
    progress_file.predicted("05-wait", None)  # locked with no answer
    progress_file.predicted("speed", 1.0)  # no lesson's
    progress_file.checked("lesson_05", 7, 10)
    progress_file.answered("05", {1: True, 3: False})
    progress_file.answered("mine", {1: True})
    progress_file.ended("05")
    items = json.loads(path.read_text(encoding="utf-8"))["lessons"]
    assert {key: {**fact, "at": ""} for key, fact in items.pop("05").items()} == {
        "predict 05-speed": {"at": "", "answer": 3.0},
        "check": {"at": "", "points": 7, "of": 10},
        "quiz 1": {"at": "", "right": True},
        "quiz 3": {"at": "", "right": False},
        "end": {"at": ""},
    }
    assert items == {}


WITHOUT = """
import sys
for name in ("filelock", "platformdirs", "ipywidgets", "anywidget", "IPython", "traitlets"):
    sys.modules[name] = None
from widgets import progress_file
from widgets.progress import progress
progress_file.ended("00")
print(progress("00"))
"""


def test_it_needs_nothing_installed(path):
    """As in a browser's kernel: no lock, and the text is there without IPython."""
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={**os.environ, progress_file.PLACE: str(path)},
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("Lesson 0 is done.")
    assert ProgressFile(path).facts().keys() == {("00", "end")}
