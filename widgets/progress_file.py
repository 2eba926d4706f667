"""One file on this machine that keeps what the student has done; nothing leaves the machine.

    progress_file.predicted("05-speed", 3.0)     # a Predict is locked
    progress_file.checked("lesson_05", 7, 10)    # a check has run
    progress_file.answered("05", {1: True})      # quiz question 1
    progress_file.here().facts()                 # everything, for who shows it

It lies in the platform's folder for user data, or where MINILLM_PROGRESS says (a file, a folder, or
"off"). No call here raises for a file that cannot be read or written: what could not be kept is
held in this process, tried again with the next thing done, and `note` says why in one sentence.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

from widgets.files import reason, write_whole
from widgets.progress_model import (
    Fact,
    Facts,
    Key,
    NewerFileError,
    decode,
    encode,
    fields_of,
    is_fact,
    merge,
)

PLACE = "MINILLM_PROGRESS"
OFF = "off"
UNATTENDED = "MINILLM_ANSWERS"  # set for a run without a person
WAIT_S = 2.0  # for another notebook that writes at this moment
NAME = "progress.json"


def place() -> Path | None:
    """Where progress is kept; None: nowhere.

    Without MINILLM_PROGRESS a run without a person keeps nothing, and a browser's kernel keeps it
    beside the notebooks, which is what outlives the page.
    """
    told = os.environ.get(PLACE, "")
    if told == OFF or (not told and os.environ.get(UNATTENDED)):
        return None
    if told:
        path = Path(os.path.expanduser(told))
        return path / NAME if os.path.isdir(path) else path
    if sys.platform in ("emscripten", "wasi"):
        return Path(f"minillm-{NAME}")
    try:
        import platformdirs
    except ImportError:  # without JupyterLab
        return None
    return Path(platformdirs.user_data_dir("minillm", appauthor=False)) / NAME


def here() -> ProgressFile:
    """The file of this process, as the environment says now."""
    return _at(place())


@functools.cache
def _at(path: Path | None) -> ProgressFile:
    return ProgressFile(path)


class ProgressFile:
    """Facts in a file. path None: in this process alone.

    watchers: called after each new fact, by a name of whoever wants it.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.watchers: dict[str, Callable[[], None]] = {}
        self._failure = self._set_aside = ""
        self._unwritten: dict[Key, Fact] = {}
        self._mutex = threading.Lock()  # a widget's callback may run on a thread of its own

    @property
    def note(self) -> str:
        """What the student should know of the file, in a sentence; "" when all is well."""
        return self._failure or self._set_aside

    def add(self, facts: Facts) -> None:
        """Keep these facts too."""
        good = {key: fact for key, fact in facts.items() if is_fact(key, fields_of(fact))}
        with self._mutex:
            self._unwritten = merge(self._unwritten, good)
            self._write()
        for watcher in list(self.watchers.values()):
            watcher()

    def facts(self) -> dict[Key, Fact]:
        """Everything that is known now, by whichever notebook."""
        with self._mutex:
            unwritten = self._unwritten
            try:
                kept, is_whole = self._read()
            except (OSError, NewerFileError):
                kept, is_whole = {}, False
            if unwritten or self._failure or not is_whole:
                self._write()
            return merge(kept, unwritten)

    def _read(self) -> tuple[dict[Key, Fact], bool]:
        if self.path is None:
            return {}, True
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return {}, True
        try:
            return decode(raw.decode("utf-8-sig"))
        except UnicodeDecodeError:
            return decode(raw.decode("utf-8", errors="replace"))[0], False

    def _write(self) -> None:
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self.path):
                kept, is_whole = self._read()
                if not is_whole:
                    self._keep_copy()
                merged = merge(kept, self._unwritten)
                if merged != kept or not is_whole:
                    write_whole(self.path, encode(merged))
        except NewerFileError as error:
            self._failure = f"Not kept: {self.path} was written by a later version. {error}"
        except OSError as error:
            self._failure = f"Not kept: {reason(error, self.path)}."
        else:
            self._failure, self._unwritten = "", {}

    def _keep_copy(self) -> None:
        """Set a file that cannot be read whole aside before it is written anew."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        copy = self.path.with_name(f"{self.path.stem}-unreadable-{stamp}{self.path.suffix}")
        shutil.copyfile(self.path, copy)
        self._set_aside = (
            f"Not all of {self.path.name} could be read. As it was, it is kept as {copy.name}."
        )


def _alone(path: Path) -> contextlib.AbstractContextManager:
    """One process at a time. Raises OSError (a timeout is one) when it does not come to that."""
    try:
        from filelock import FileLock
    except ImportError:  # in a browser, where nobody else writes the file
        return contextlib.nullcontext()
    return FileLock(f"{path}.lock", timeout=WAIT_S)


# ── what the lessons tell ───────────────────────────────────────────────────────────────────


def predicted(key: str, answer: object) -> None:
    """A prediction is locked. One that is no lesson's, or has no answer, is not kept."""
    here().add({(key[:2], f"predict {key}"): Fact(_now(), answer=answer)})


def checked(exercise: str, points: float, of: float) -> None:
    """All functions of an exercise ("lesson_05") were checked."""
    here().add({(exercise[-2:], "check"): Fact(_now(), points=points, of=of)})


def answered(lesson: str, right: Mapping[int, bool]) -> None:
    """Quiz questions, counted from 1, were answered."""
    now = _now()
    here().add({(lesson, f"quiz {number}"): Fact(now, right=is_right)
                for number, is_right in right.items()})  # fmt: skip


def ended(lesson: str) -> None:
    """A lesson's last cell was run."""
    here().add({(lesson, "end"): Fact(_now())})


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
