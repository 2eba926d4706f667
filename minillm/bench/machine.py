"""What machine figures come from. Without torch; what can't be read is None, never a guess."""

from __future__ import annotations

import os
import platform
from typing import Any

import minillm
from minillm.telemetry import installed_gpus


def version(package: str) -> str | None:
    """The installed version of a distribution, None if it isn't installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = [line for line in file if line.startswith("model name")]
    except OSError:
        found = []
    return found[0].split(":", 1)[1].strip() if found else platform.machine()


def usable_cpus() -> int:
    """Logical processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> dict[str, Any]:
    """The machine as every --json report carries it."""
    found, _ = installed_gpus()
    return {
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpus": usable_cpus(),
        "gpus": [gpu.name for gpu in found],
        "python": platform.python_version(),
        "torch": version("torch"),
        "minillm": minillm.__version__,
    }
