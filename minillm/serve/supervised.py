"""Child processes that shall stay up, and that never outlive the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  # before a restart; doubles from death to death
SOUND_S = 30.0  # a child that was up for so long starts at the first pause again
LAST_BYTES = 4000  # of a log that are searched for its last line

# Waits for the end of its input, which comes when the parent is gone, however it went; then ends
# the whole process group, itself included. Python alone has no such thing on every system.
_KEEPER = "trap '' TERM INT HUP QUIT; read -r _; kill -TERM 0; sleep 3; kill -KILL 0"


class ChildGroup:
    """A process group of its own: Ctrl-C in a terminal doesn't reach it, `kill` ends all of it.

    All children die with the parent, even where that is killed with SIGKILL.
    """

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip

    def spawn(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen:
        """A child in the group. Its output is added to `log`; env: beyond this process's own."""
        with log.open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})}, process_group=self._keeper.pid,
            )  # fmt: skip

    def kill(self) -> None:
        """End whatever is left of the group, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        self._keeper.wait()
        self._keeper.stdin.close()


class Child:
    """One process, started again when it ends, with growing pauses. Times: time.monotonic().

    `look` is to be called often; whether the child is ready, its owner says with `ready`.
    """

    def __init__(
        self,
        group: ChildGroup,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.group, self.command, self.log, self.env = group, list(command), log, env
        self.process: subprocess.Popen | None = None
        self.up_since: float | None = None  # when it got ready; None: it is not
        self.restart_at: float | None = None  # when it is down
        self.starts = 0
        self.last_end: str | None = None  # how it ended the last time, in words
        self._deaths = 0  # in a row, without being sound between

    def start(self) -> None:
        self.process = self.group.spawn(self.command, self.log, self.env)
        self.restart_at = None
        self.starts += 1

    def look(self, now: float) -> bool:
        """Notice an end, start again when the pause is over. True if it has just ended."""
        if self.restart_at is not None:
            if now >= self.restart_at:
                self.start()
            return False
        if self.process is None or self.process.poll() is None:
            return False
        if self.up_since is not None and now - self.up_since >= SOUND_S:
            self._deaths = 0
        self._deaths += 1
        self.up_since = None
        self.last_end = ending(self.process.returncode)
        self.restart_at = now + min(FIRST_PAUSE_S * 2 ** (self._deaths - 1), LONGEST_PAUSE_S)
        return True

    def ready(self, now: float) -> None:
        if self.up_since is None:
            self.up_since = now

    def signal(self, number: int) -> None:
        """Send a signal, if it lives."""
        if self.alive:
            self.process.send_signal(number)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.alive else None

    def listens_on(self, port: int) -> bool:
        """Whether it is this process, and no stranger, that listens on that TCP port."""
        try:
            found = psutil.Process(self.process.pid).net_connections("tcp") if self.alive else []
        except psutil.Error:  # it has just ended
            return False
        return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in found)

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(os.path.getsize(self.log) - LAST_BYTES, 0))
                lines = file.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def ending(returncode: int) -> str:
    """What an exit status means, in words."""
    if returncode >= 0:
        return f"ended with code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"
