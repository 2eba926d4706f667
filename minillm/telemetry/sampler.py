"""Reads GPU and process at a fixed pace on a thread of its own and keeps the newest samples."""

from __future__ import annotations

import threading
import time
from collections import deque
from types import ModuleType

from minillm.telemetry.fields import FIELDS, Sample
from minillm.telemetry.gpu import GPUReader
from minillm.telemetry.process import ProcessReader

HZ = 10.0
KEEP = 6000  # samples: ten minutes
OLD_S = 2.0  # a sample older than this says nothing about now
JOIN_S = 1.0  # a driver call may hang: closing does not wait for it


class Sampler:
    """Samples in a ring of `keep`. device, nvml: as GPUReader's; pid, psutil: as ProcessReader's.

    Where no thread can be started (a browser tab) call `sample()` yourself.
    """

    def __init__(
        self,
        *,
        hz: float = HZ,
        keep: int = KEEP,
        device: int | str | None = None,
        pid: int | None = None,
        nvml: ModuleType | None = None,
        psutil: ModuleType | None = None,
    ) -> None:
        if not 0.1 <= hz <= 100:
            raise ValueError(f"hz must lie between 0.1 and 100, got {hz!r}.")
        if keep < 1:
            raise ValueError(f"keep must be at least 1 sample, got {keep!r}.")
        self.hz = hz
        self.gpu = GPUReader(device, nvml)
        self.process = ProcessReader(pid, psutil)
        self._samples: deque[Sample] = deque(maxlen=keep)
        self._taken = 0
        self._guard = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # Unix time that runs on steadily when the system's clock is set.
        self._unix_zero = time.time() - time.monotonic()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> Sampler:
        """Begin; harmless when it runs. RuntimeError where no thread can be started."""
        if not self.running:
            self._stopping = threading.Event()  # a thread that hangs keeps its own
            self._thread = threading.Thread(
                target=self._run, args=(self._stopping,), name="minillm-telemetry", daemon=True
            )
            self._thread.start()
        return self

    def stop(self) -> None:
        """End, within JOIN_S even if a driver call hangs. Safe to call twice."""
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def __enter__(self) -> Sampler:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def sample(self) -> Sample:
        """Take one reading now and keep it."""
        now = time.monotonic()
        gpu, process = self.gpu.read(now), self.process.read()
        taken = Sample(
            gpu.values | process.values, gpu.missing | process.missing, self._unix_zero + now
        )
        with self._guard:
            self._samples.append(taken)
            self._taken += 1
        return taken

    def since(self, number: int = 0) -> tuple[int, list[Sample]]:
        """(how many were taken so far, the kept ones after the first `number`)."""
        with self._guard:
            new = min(self._taken - number, len(self._samples))
            return self._taken, list(self._samples)[len(self._samples) - new :] if new > 0 else []

    def latest(self) -> Sample:
        """The newest sample; all fields missing when there is none, or only an old one."""
        with self._guard:
            last = self._samples[-1] if self._samples else None
        now = self._unix_zero + time.monotonic()
        if last is None:
            return Sample(missing=dict.fromkeys(FIELDS, "nothing was read yet"), t_unix=now)
        if self.running and now - last.t_unix > OLD_S:
            age = f"no answer for {now - last.t_unix:.0f} s"
            return Sample(missing=dict.fromkeys(FIELDS, age), t_unix=now)
        return last

    def _run(self, stopping: threading.Event) -> None:
        due = time.monotonic()
        while not stopping.is_set():
            self.sample()
            due = max(due + 1 / self.hz, time.monotonic())  # late: skip, never catch up
            stopping.wait(due - time.monotonic())
        self.gpu.close()
