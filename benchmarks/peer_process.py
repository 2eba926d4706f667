"""A peer in a process group of its own that stands still while it isn't its turn.

Loaded once and stopped (SIGSTOP) between turns, so that no engine's spinning threads take the CPU
from another's run, and no run pays for loading. The protocol: peer_runners/protocol.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 900.0  # for one answer; loading compiles in some engines


class PeerError(RuntimeError):
    """A peer's process ended, fell silent, or answered with an error."""


class PeerProcess:
    """Runs benchmarks.peer_runners.<runner> with that Python. log: where what it prints goes."""

    def __init__(
        self, name: str, runner: str, python: Path, environment: Mapping[str, str], log: IO
    ) -> None:
        self.name = name
        self._unread = b""
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.peer_runners.{runner}"],
            cwd=ROOT, env={**os.environ, **environment}, process_group=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        self.pid = self._process.pid

    def ask(self, message: object, patience_s: float = PATIENCE_S) -> dict:
        """Send one line, wait for the answer. Raises PeerError."""
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: closed on our side
            raise PeerError(f"{self.name} has ended.") from error
        answer = json.loads(self._line(patience_s))
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def _line(self, patience_s: float) -> bytes:
        output = self._process.stdout
        while b"\n" not in self._unread:
            if not select.select([output], [], [], patience_s)[0]:
                raise PeerError(f"{self.name} gave no answer within {patience_s:g} s.")
            read = os.read(output.fileno(), 1 << 16)
            if not read:
                raise PeerError(f"{self.name} ended with status {self._process.wait()}.")
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """End the whole group; safe to call twice."""
        self.resume()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
