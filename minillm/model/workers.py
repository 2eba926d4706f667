"""WorkerGroup: the processes of a split model, from the engine's side. Starts, asks, ends them.

Each worker is a fresh `python -m minillm.model.worker` (no fork: torch and OpenMP don't survive
it; no `__main__` guard needed), tied to this process by a socket. A thread does the talking, so
that an interrupt (Ctrl-C, a notebook's stop button) never cuts a message in two: it lets go of
the answer, which comes later and is dropped.
"""

from __future__ import annotations

import os
import pickle
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from minillm.core.errors import RunnerLostError
from minillm.model.wire import Failure, Hello

END_S = 5.0  # after SIGTERM, before SIGKILL
ECHO_S = 1.0  # how long to look for the worker whose end made others fail
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
LOG_LINES = 3


class WorkerProcess(NamedTuple):
    rank: int
    process: subprocess.Popen
    channel: Connection
    log: Path


class Question(NamedTuple):
    """number: so that an answer nobody waits for any more is known. make: gives the message.

    answering: ranks whose answers are waited for.
    """

    number: int
    make: Callable[[], Any]
    answering: Sequence[int]


class WorkerGroup:
    """num_workers processes on one machine. threads: CPU threads of each.

    device: "cpu", or "cuda" for a GPU each. `close()`, the end of this object and the end of the
    interpreter end the processes; so does the end of this process, if it is killed.
    """

    def __init__(self, num_workers: int, *, device: str = "cpu", threads: int = 1) -> None:
        if sys.platform == "win32":
            raise ValueError(
                "A model split over several processes needs Linux or macOS (on Windows: WSL)."
            )
        self.num_workers, self.device, self.threads = num_workers, device, threads
        self._lost: str | None = None  # why there are no workers any more
        self._asked = 0
        self._questions: SimpleQueue[Question | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        workers: list[WorkerProcess] = []
        folder = Path(tempfile.mkdtemp(prefix="minillm-workers-"))
        talk = (workers, self._questions, self._answers)
        thread = threading.Thread(target=_talk, args=talk, name="minillm-workers", daemon=True)
        self._end = weakref.finalize(
            self, _end, workers, folder, thread, self._questions, os.getpid()
        )
        self._workers = workers
        try:
            for rank in range(num_workers):
                workers.append(_start(rank, num_workers, device, threads, folder))
            thread.start()
        except BaseException:
            self.close()
            raise

    @property
    def process_ids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    def ask(self, make: Callable[[], Any], answering: Sequence[int]) -> list[Any]:
        """Send make() to all workers; the answers of those ranks. One call at a time.

        Raises ValueError for what a worker refuses, and RunnerLostError when one fails or ends:
        then all are ended, and every later call fails with the same reason.
        """
        if self._lost is not None:
            raise RunnerLostError(self._lost)
        self._asked += 1
        self._questions.put(Question(self._asked, make, answering))
        while True:
            number, answer = self._answers.get()
            if isinstance(answer, Exception):
                self._lost = str(answer)
                self._end()
                raise answer
            if number == self._asked:
                return answer

    def close(self) -> None:
        """End all workers and wait for it. Safe to call twice."""
        self._lost = self._lost or "The model has been closed."
        self._end()


def _start(rank: int, num_workers: int, device: str, threads: int, folder: Path) -> WorkerProcess:
    ours, theirs = Pipe()
    log = folder / f"worker-{rank}.log"
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(threads),
        "GLOO_SOCKET_IFNAME": LOOPBACK, "NCCL_SOCKET_IFNAME": LOOPBACK,
    }  # fmt: skip
    # -P: a file in the user's folder that is called like a module must not take its place.
    # A session of its own: Ctrl-C in a terminal is for us, who then decide what it means.
    with theirs, log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "minillm.model.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()], env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    own = f"cuda:{rank}" if device == "cuda" else device
    ours.send(Hello(rank, num_workers, own, folder, os.getpid()))
    return WorkerProcess(rank, process, ours, log)


def _end(
    workers: list[WorkerProcess],
    folder: Path,
    thread: threading.Thread,
    questions: SimpleQueue,
    owner: int,
) -> None:
    """End processes, thread and folder. Not in a fork of the process that started them."""
    if os.getpid() != owner:
        return
    questions.put(None)
    for worker in workers:
        worker.process.terminate()
    limit = time.monotonic() + END_S
    for worker in workers:
        try:
            worker.process.wait(max(limit - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(END_S)
    for worker in workers:
        worker.channel.close()
    shutil.rmtree(folder, ignore_errors=True)


# ── the thread ──────────────────────────────────────────────────────────────────────────────


def _talk(workers: list[WorkerProcess], questions: SimpleQueue, answers: SimpleQueue) -> None:
    """Take questions one by one. After a failure there is nothing left to ask."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.channel, selectors.EVENT_READ, worker)
        while (question := questions.get()) is not None:
            try:
                answers.put((question.number, _ask_all(workers, selector, question)))
            except Exception as error:
                answers.put((question.number, error))
                return
            del question  # it holds on to who asked, and so would this thread while it waits


def _ask_all(
    workers: list[WorkerProcess], selector: selectors.BaseSelector, question: Question
) -> list[Any]:
    """Send the question to all and collect the answers. Raises what _why makes of a failure."""
    message = pickle.dumps(question.make(), pickle.HIGHEST_PROTOCOL)
    for worker in workers:
        try:
            worker.channel.send_bytes(message)
        except OSError:  # it has ended since the last answer, and may have said why
            last = _receive(worker)
            failure = last if isinstance(last, Failure) else None
            raise _why(workers, selector, {worker.rank: failure}) from None
    answers: dict[int, Any] = {}
    while len(answers) < len(question.answering):
        for key, _ in selector.select():
            worker = key.data
            answer = _receive(worker)
            if answer is None or isinstance(answer, Failure):
                raise _why(workers, selector, {worker.rank: answer})
            answers[worker.rank] = answer
    return [answers[rank] for rank in question.answering]


def _receive(worker: WorkerProcess) -> Any:
    """A worker's message; None if it has ended."""
    try:
        return worker.channel.recv()
    except (EOFError, OSError):
        return None


def _why(
    workers: list[WorkerProcess], selector: selectors.BaseSelector, ends: dict[int, Failure | None]
) -> Exception:
    """The error that tells what began it. ends: a Failure of each rank that failed, None: it died.

    One worker's end makes the others fail too, and theirs may be heard first.
    """
    limit = time.monotonic() + ECHO_S
    while all(end is not None and end.is_echo for end in ends.values()):
        left = limit - time.monotonic()
        ready = selector.select(left) if left > 0 else []
        if not ready:
            break
        for key, _ in ready:
            selector.unregister(key.fileobj)
            if key.data.rank not in ends:
                answer = _receive(key.data)
                ends[key.data.rank] = answer if isinstance(answer, Failure) else None
    own = [rank for rank, end in ends.items() if end is None or not end.is_echo]
    rank = own[0] if own else next(iter(ends))
    failure, worker = ends[rank], workers[rank]
    if failure is not None and failure.is_refusal:
        return ValueError(failure.text)
    name = f"Worker {rank} of {len(workers)} (process {worker.process.pid})"
    if failure is not None:
        error = RunnerLostError(f"{name} failed: {failure.text}. All workers have been ended; "
                                "load the model anew.")  # fmt: skip
        error.add_note(failure.details)
        return error
    return RunnerLostError(
        f"{name} {_how_it_ended(worker)}. The others have been ended; load the model anew."
    )


def _how_it_ended(worker: WorkerProcess) -> str:
    """"was ended by SIGKILL", "ended with exit code 1 (ModuleNotFoundError: …)"."""
    try:
        code = worker.process.wait(ECHO_S)
    except subprocess.TimeoutExpired:
        return "closed its socket"
    if code < 0:
        hint = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
        return f"was ended by {signal.Signals(-code).name}{hint}"
    lines = worker.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    said = " ".join(line.strip() for line in lines[-LOG_LINES:])
    return f"ended with exit code {code}" + (f" ({said})" if said else "")
