"""The process in which a student's code runs: `python -m grading.child EXERCISE`.

It reads a count of bytes and the student's objects (cloudpickle), then one JSON line a call, and
answers each with one JSON line. The student's own output goes nowhere, there is nothing to read,
and files outside its working folder, other programs and the network are refused. This keeps an
accident in its place; it is not a sandbox for people who mean harm.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import BinaryIO

NO_EXERCISE = "-"  # only run a notebook's cells, to see whether the process outlives them
BLOCKED = ("torch", "transformers", "matplotlib")  # slow to import, and no exercise needs them
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# event → paths it starts with, and where its directory descriptors are (−1: none)
PATH_EVENTS = {
    "os.remove": (1, (1,)), "os.rmdir": (1, (1,)), "os.mkdir": (1, (2,)), "os.truncate": (1, ()),
    "os.chmod": (1, (2,)), "os.chown": (1, (3,)), "os.utime": (1, (3,)), "os.rename": (2, (2, 3)),
    "os.link": (2, (2, 3)), "os.symlink": (2, (2,)),
}  # fmt: skip
REFUSED = {
    "subprocess.Popen": "start other programs",
    "os.system": "start other programs",
    "os.exec": "start other programs",
    "os.posix_spawn": "start other programs",
    "os.fork": "start other processes",
    "os.forkpty": "start other processes",
    "os.kill": "send signals",
    "os.killpg": "send signals",
    "socket.connect": "use the network",
    "socket.bind": "use the network",
}


def main() -> int:
    exercise_name, limits = sys.argv[1], json.loads(sys.argv[2])
    requests, answers = _private_pipes()
    _set_limits(limits)
    for name in BLOCKED:
        sys.modules[name] = None  # type: ignore[assignment]
    import cloudpickle

    from grading.cells import resolve, run_cells
    from grading.outcome import Outcome, answer, describe

    exercise = None
    if exercise_name != NO_EXERCISE:
        exercise = importlib.import_module(f"grading.checks.{exercise_name}").EXERCISE
    pickled = requests.read(int(requests.readline()))
    _refuse_outside(os.getcwd())
    try:
        objects = cloudpickle.loads(pickled)
        if exercise is None:
            run_cells(objects["cells"])
        else:
            objects = resolve(objects)
            exercise.expect(objects)
    except BaseException as error:
        _send(answers, Outcome(error=describe(error), died=True))
        return 1
    _send(answers, Outcome())  # ready
    for line in requests:
        outcome = answer(exercise.run, objects, json.loads(line))
        _send(answers, outcome)
        if outcome.died:
            return 1
    return 0


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Our two ends, out of the way of input() and print()."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    return requests, answers


def _send(answers: BinaryIO, outcome: object) -> None:
    answers.write(json.dumps(vars(outcome)).encode() + b"\n")
    answers.flush()


def _set_limits(limits: dict) -> None:
    try:
        import resource
    except ImportError:  # Windows: the parent's clock alone
        return
    wanted = {
        "RLIMIT_CPU": limits["cpu_s"],
        "RLIMIT_AS": limits["memory_bytes"],
        "RLIMIT_FSIZE": limits["file_bytes"],
        "RLIMIT_CORE": 0,
    }
    for name, value in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):  # this platform has no such limit
            continue


def _refuse_outside(folder: str) -> None:
    """From here on: writing only inside `folder`, no programs, no signals, no network."""
    inside = os.path.realpath(folder) + os.sep

    def is_inside(path: object) -> bool:
        if isinstance(path, int):  # a descriptor that is open already
            return True
        return os.path.realpath(os.fsdecode(path)).startswith(inside)

    def hook(event: str, args: tuple) -> None:
        if event in REFUSED:
            raise PermissionError(f"The checked code may not {REFUSED[event]}.")
        if event == "open":
            path, _, flags = args
            if path is None or not flags & WRITES or path == os.devnull:
                return
            paths = (path,)
        elif event in PATH_EVENTS:
            count, descriptors = PATH_EVENTS[event]
            folders = [args[i] for i in descriptors if args[i] != -1]
            paths = (*args[:count], *(f"/proc/self/fd/{number}" for number in folders))
        else:
            return
        if not all(is_inside(path) for path in paths):
            raise PermissionError("The checked code may write and delete in its own folder only.")

    sys.addaudithook(hook)


if __name__ == "__main__":
    sys.exit(main())
