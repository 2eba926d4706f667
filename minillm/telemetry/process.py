"""This process and its machine's CPU through psutil; without psutil every field says so."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from minillm.telemetry.fields import FIELDS, PROCESS_FIELDS, Reading


class ProcessReader:
    """CPU and memory of a process (pid; None: this one) and of the machine.

    psutil: the module, for tests.
    """

    def __init__(self, pid: int | None = None, psutil: ModuleType | None = None) -> None:
        self.pid = pid
        self._psutil = psutil
        self._process: Any = None
        self._reason = ""
        self._warm = False
        self._open()

    def read(self) -> Reading:
        """All of PROCESS_FIELDS. CPU shares are those since the last reading."""
        reading = Reading()
        if self._psutil is None:
            return Reading(missing=dict.fromkeys(PROCESS_FIELDS, self._reason))
        psutil, process = self._psutil, self._process
        calls = {
            "cpu_busy": lambda: psutil.cpu_percent(interval=None),
            "memory_total": lambda: psutil.virtual_memory().total,
            "process_memory": lambda: process.memory_info().rss,
            "process_cpu": lambda: process.cpu_percent(interval=None) / psutil.cpu_count(),
        }
        for name, call in calls.items():
            try:
                reading.put(name, call())
            except Exception as error:  # the process is gone, or the system says no
                reading.missing[name] = f"{type(error).__name__}: {error}"
        if not self._warm:  # psutil's first share is a made-up 0
            self._warm = True
            for name in ("cpu_busy", "process_cpu"):
                if reading.values.pop(name, None) is not None:
                    reading.missing[name] = "needs a second reading"
        reading.missing["cpu_power"] = FIELDS["cpu_power"].meaning
        return reading

    def _open(self) -> None:
        try:
            if self._psutil is None:
                import psutil

                self._psutil = psutil
            self._process = self._psutil.Process(self.pid)
        except ImportError:
            self._reason = "psutil is not installed"
        except Exception as error:
            self._psutil, self._reason = None, f"{type(error).__name__}: {error}"
