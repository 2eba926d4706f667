"""What can be read of a machine: the fields, and a reading with what is missing and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple


class Field(NamedTuple):
    """unit: %, W or B (bytes). meaning: what the figure is, and what it is not."""

    label: str
    unit: str
    meaning: str


FIELDS = {
    "gpu_busy": Field("SM busy", "%", "share of time in which any kernel ran; not efficiency"),
    "gpu_memory": Field("GPU memory in use", "B", "claimed by all processes on this GPU"),
    "gpu_memory_total": Field("GPU memory", "B", "of this GPU or MIG instance"),
    "gpu_power": Field("GPU power", "W", "of the whole board"),
    "gpu_power_limit": Field("GPU power limit", "W", "that the driver enforces"),
    "gpu_tensor": Field("Tensor cores active", "%", "share of cycles, all SMs"),
    "gpu_dram": Field("GPU memory bandwidth", "%", "share of the theoretical maximum"),
    "cpu_busy": Field("CPU busy", "%", "of all logical processors, all programs"),
    "process_cpu": Field("Process CPU", "%", "this process, of all logical processors"),
    "process_memory": Field("Process memory", "B", "resident set of this process"),
    "memory_total": Field("Memory", "B", "of this machine"),
    "cpu_power": Field("CPU power", "W", "its counter is closed to ordinary users"),
}
GPU_FIELDS = tuple(name for name in FIELDS if name.startswith("gpu_"))
GPM_FIELDS = {"gpu_tensor": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
              "gpu_dram": "NVML_GPM_METRIC_DRAM_BW_UTIL"}  # fmt: skip
PROCESS_FIELDS = tuple(name for name in FIELDS if not name.startswith("gpu_"))


@dataclass(slots=True)
class Reading:
    """values: field → number. missing: field → why there is none."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def put(self, name: str, value: object, scale: float = 1.0) -> None:
        """Keep a value if it is a number ≥ 0."""
        if value is None:
            self.missing[name] = "the driver gave no value"
        elif isinstance(value, (int, float)) and math.isfinite(value) and value >= 0:
            self.values[name] = value * scale
        else:
            self.missing[name] = f"the driver gave {value!r}"


@dataclass(slots=True)
class Sample(Reading):
    """A reading and when it was taken, in Unix time."""

    t_unix: float = 0.0
