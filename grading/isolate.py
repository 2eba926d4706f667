"""Runs a student's code apart from everything else: in a fresh process, or in this one.

Both are context managers with `run(calls) -> list[Outcome]`. The process starts anew (no fork:
PyTorch and OpenMP don't survive it), gets the objects by value, and has limits on time, memory
and files; whatever it does, what comes back is plain data or a sentence that says what happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from grading.limits import Limits, TimeLimitError, line_limit, time_limit
from grading.outcome import OURS, Outcome, Run, answer, describe

ROOT = Path(__file__).resolve().parent.parent
IN_PROCESS = "MINILLM_CHECK_IN_PROCESS"
USER = "MINILLM_CHECK_USER"  # who runs the checked code, where this process may choose
MEMORY_MB = "MINILLM_CHECK_MEMORY_MB"
CHILD_ENV = {
    "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "MINILLM_PROGRESS": "off",
}  # fmt: skip
STOPPED = "It was not run: the code had ended its process {count} times before."
ONCE_ENDLESS = 20  # code that did not come back some times gets so many times fewer lines each
IN_TAB = "Checked within this notebook's kernel. Marks are given in the installed course."
NO_TIME = "It was not run: the check's {seconds:g} s were over."


class Sandbox(Protocol):
    """Where a student's objects live while they are checked. note: what to know of that, or ""."""

    note: str

    def __enter__(self) -> Sandbox: ...
    def __exit__(self, *_: object) -> None: ...
    def run(self, calls: Iterable[dict]) -> list[Outcome]: ...


def sandbox(exercise: str, run: Run, objects: Mapping[str, object], limits: Limits) -> Sandbox:
    """A process of its own where processes can be started, else this one (a browser's kernel)."""
    if sys.platform in ("emscripten", "wasi") or os.environ.get(IN_PROCESS) == "1":
        return InProcess(run, objects, limits)
    return ChildProcess(exercise, objects, limits)


class InProcess:
    """The code runs here, under a limit of lines and time."""

    note = IN_TAB

    def __init__(self, run: Run, objects: Mapping[str, object], limits: Limits) -> None:
        self._run, self._objects, self._limits = run, objects, limits
        self._endless = 0
        self._deadline = time.monotonic() + limits.total_s

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def run(self, calls: Iterable[dict]) -> list[Outcome]:
        return [self._one(args) for args in calls]

    def _one(self, args: dict) -> Outcome:
        limits = self._limits
        if time.monotonic() > self._deadline:
            return Outcome(error=NO_TIME.format(seconds=limits.total_s), died=True)
        lines = limits.lines // (ONCE_ENDLESS if self._endless >= limits.deaths else 1)
        try:
            with (
                time_limit(limits.call_s),
                line_limit(lines, limits.call_s, OURS),
            ):
                outcome = answer(self._run, self._objects, args)
        except TimeLimitError as error:  # it rang between the answer and the limit's end
            outcome = Outcome(error=str(error), died=True)
        self._endless += outcome.died
        return outcome


class ChildProcess:
    """The code runs in `python -m grading.child`, which is started again when it has died."""

    note = ""

    def __init__(self, exercise: str, objects: Mapping[str, object], limits: Limits) -> None:
        self._exercise, self._limits = exercise, limits
        self._pickled, self._refused = _by_value(objects)
        self._process: subprocess.Popen | None = None
        self._folder: str | None = None
        self._rest = b""
        self._deaths = 0
        self._deadline = time.monotonic() + limits.total_s

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, calls: Iterable[dict]) -> list[Outcome]:
        """The outcome of each call, in order."""
        return [self._one(args) for args in calls]

    def _one(self, args: dict) -> Outcome:
        if self._refused:
            return Outcome(error=self._refused, died=True)
        if self._deaths >= self._limits.deaths:
            return Outcome(error=STOPPED.format(count=self._deaths), died=True)
        if time.monotonic() > self._deadline:
            return Outcome(error=NO_TIME.format(seconds=self._limits.total_s), died=True)
        outcome = self._start() if self._process is None else Outcome()
        if not outcome.died:
            outcome = self._ask(json.dumps(args).encode() + b"\n", self._limits.call_s)
        if outcome.died:
            self._deaths += 1
            self._end()
        return outcome

    def starts(self) -> Outcome:
        """Whether the process gets as far as having the objects, in an outcome without value."""
        if self._refused:
            return Outcome(error=self._refused, died=True)
        if self._process is not None:
            return Outcome()
        outcome = self._start()
        if outcome.died:
            self._end()
        return outcome

    # ── the process ─────────────────────────────────────────────────────────────────────────

    def _start(self) -> Outcome:
        self._folder = tempfile.mkdtemp(prefix="minillm-check-")
        limits = json.dumps(asdict(_for_this_machine(self._limits)))
        path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grading.child", self._exercise, limits],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=self._folder, start_new_session=True,
            env={**os.environ, **CHILD_ENV, "PYTHONPATH": path},
            **_as_other_user(self._folder),
        )  # fmt: skip
        self._rest = b""
        message = f"{len(self._pickled)}\n".encode() + self._pickled
        return self._ask(message, self._limits.start_s)

    def _ask(self, message: bytes, seconds: float) -> Outcome:
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
        except OSError:
            return self._obituary()
        line = self._read_line(seconds)
        if isinstance(line, Outcome):
            return line
        try:
            return Outcome(**json.loads(line))
        except (TypeError, ValueError, RecursionError):
            return Outcome(error="Its answer was overwritten by the code itself.", died=True)

    def _read_line(self, seconds: float) -> bytes | Outcome:
        deadline = time.monotonic() + seconds
        pipe = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return Outcome(error=f"It did not end within {seconds:g} s.", died=True)
                data = os.read(pipe, 1 << 16)
                if not data:
                    return self._obituary()
                self._rest += data
                if len(self._rest) > self._limits.answer_bytes:
                    size = self._limits.answer_bytes >> 20
                    return Outcome(error=f"Its answer is larger than {size} MiB.", died=True)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _obituary(self) -> Outcome:
        """Why the process is gone, in words."""
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return Outcome(error="It closed its connection to the check.", died=True)
        if code == -getattr(signal, "SIGXCPU", 24):
            reason = f"It used more than {self._limits.cpu_s} s of processor time."
        elif code in (-getattr(signal, "SIGSEGV", 11), -getattr(signal, "SIGBUS", 7)):
            reason = "It crashed its process (segmentation fault)."
        elif code == -getattr(signal, "SIGKILL", 9):
            reason = "Its process was killed, most likely for the memory it took."
        elif code < 0:
            reason = f"Its process was ended by signal {-code}."
        else:
            reason = f"It ended its process (exit status {code})."
        return Outcome(error=reason, died=True)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # its own group: children go with it
            except (AttributeError, ProcessLookupError, PermissionError):
                process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
            process.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _for_this_machine(limits: Limits) -> Limits:
    """The limits, with the memory that MINILLM_CHECK_MEMORY_MB leaves for the code, if less."""
    megabytes = os.environ.get(MEMORY_MB)
    if not megabytes:
        return limits
    return replace(limits, memory_bytes=min(limits.memory_bytes, int(megabytes) << 20))


def _as_other_user(folder: str) -> dict[str, object]:
    """Popen's arguments that run the code as MINILLM_CHECK_USER, to whom its folder is given."""
    name = os.environ.get(USER)
    if not name:
        return {}
    import pwd

    person = pwd.getpwnam(name)
    os.chown(folder, person.pw_uid, person.pw_gid)
    return {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": ()}


def _by_value(objects: Mapping[str, object]) -> tuple[bytes, str | None]:
    """The objects as bytes that need none of the student's modules; or why that cannot be."""
    import cloudpickle

    registered = [module for module in _modules_of(objects.values()) if module is not None]
    for module in registered:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(dict(objects)), None
    except BaseException as error:
        return b"", f"The code cannot be handed to the check: {describe(error)}"
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _modules_of(objects: Iterable[object]) -> Sequence:
    """Modules that the child may not find: neither ours, nor installed, nor the notebook itself."""
    found = {}
    for thing in objects:
        name = getattr(thing, "__module__", None)
        module = sys.modules.get(name) if isinstance(name, str) else None
        top = (name or "").partition(".")[0] if isinstance(name, str) else ""
        file = getattr(module, "__file__", None)
        is_known = top in ("", "__main__", "minillm", "grading") or file is None
        if not is_known and "site-packages" not in file and top not in sys.stdlib_module_names:
            found[name] = module
    return list(found.values())
