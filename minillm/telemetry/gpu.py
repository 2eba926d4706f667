"""One NVIDIA GPU through NVML: a field that cannot be read gives its reason, whatever NVML says.

Sources: NVML's API reference (utilisation, memory, power, MIG) and its GPM part (counters).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from minillm.telemetry.fields import GPM_FIELDS, GPU_FIELDS, Reading

REOPEN_S = 5.0  # a GPU that was lost is looked for again after this long
GPM_S = 0.15  # between two readings of the counters; NVIDIA asks for at least 0.1
# After one of these no call on the GPU works until NVML is opened anew.
LOST = (
    "UNINITIALIZED", "DRIVER_NOT_LOADED", "GPU_IS_LOST", "RESET_REQUIRED",
    "LIB_RM_VERSION_MISMATCH", "GPU_NOT_FOUND",
)  # fmt: skip


def visible_device() -> int | str | None:
    """What CUDA_VISIBLE_DEVICES names first (an index or a UUID); 0 without it; None: no GPU."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return 0
    first = text.split(",")[0].strip()
    if first.isdecimal():
        return int(first)
    return first if first and not first.startswith("-") else None


class GPUReader:
    """One GPU. device: NVML's index, a UUID ("GPU-…", "MIG-…"), or None for the visible one.

    Of a GPU in MIG mode its first instance is read, as CUDA uses it. nvml: the module, for tests.
    """

    def __init__(self, device: int | str | None = None, nvml: ModuleType | None = None) -> None:
        self.device = visible_device() if device is None else device
        self.name: str | None = None
        self.driver: str | None = None
        self._given = self._nvml = nvml
        self._handle: Any = None
        self._gpm: _Counters | None = None
        self._no_gpm = ""
        self._reason = "not opened yet"
        self._retry_at = -math.inf

    def read(self, now: float) -> Reading:
        """All of GPU_FIELDS. now: seconds of a monotonic clock."""
        reading = Reading()
        if self._handle is None and now >= self._retry_at:
            self._open()
            self._retry_at = now + REOPEN_S
        if self._handle is None:
            return Reading(missing=dict.fromkeys(GPU_FIELDS, self._reason))
        nvml, handle = self._nvml, self._handle
        calls: tuple[tuple[tuple[str, ...], Callable[[], None]], ...] = (
            (("gpu_busy",), lambda: reading.put(
                "gpu_busy", _part(nvml.nvmlDeviceGetUtilizationRates(handle), "gpu"))),
            (("gpu_memory", "gpu_memory_total"), lambda: self._read_memory(reading)),
            (("gpu_power",), lambda: reading.put(
                "gpu_power", nvml.nvmlDeviceGetPowerUsage(handle), 1e-3)),
            (("gpu_power_limit",), lambda: reading.put(
                "gpu_power_limit", nvml.nvmlDeviceGetEnforcedPowerLimit(handle), 1e-3)),
            (tuple(GPM_FIELDS), lambda: self._read_counters(reading, now)),
        )  # fmt: skip
        for names, call in calls:
            try:
                call()
            except Exception as error:  # a sensor never breaks a run
                reason = _why(error)
                if self._is_lost(error):
                    self.close(reason)
                    return Reading(missing=dict.fromkeys(GPU_FIELDS, reason))
                reading.missing |= dict.fromkeys(names, reason)
        return reading

    def close(self, reason: str = "closed") -> None:
        """Let NVML go. Safe to call twice; a later read opens it again."""
        self._reason = reason
        if self._handle is None:
            return
        self._handle = None
        if self._gpm is not None:
            self._gpm.close()
            self._gpm = None
        _quietly(self._nvml.nvmlShutdown)

    def _open(self) -> None:
        if self.device is None:
            self._reason = "CUDA_VISIBLE_DEVICES hides every GPU"
            return
        nvml, self._reason = _opened(self._given)
        if nvml is None:
            return
        self._nvml = nvml
        try:
            self._handle = self._find()
        except Exception as error:
            self._reason = _why(error)
        if self._handle is None:
            _quietly(self._nvml.nvmlShutdown)
            return
        self.name = _text(_quietly(self._nvml.nvmlDeviceGetName, self._handle))
        self.driver = _text(_quietly(self._nvml.nvmlSystemGetDriverVersion))
        try:
            self._gpm = _Counters(self._nvml, self._handle)
        except Exception as error:
            self._no_gpm = _why(error)

    def _find(self) -> Any:
        nvml = self._nvml
        if isinstance(self.device, str):
            handle = nvml.nvmlDeviceGetHandleByUUID(self.device)
        else:
            handle = nvml.nvmlDeviceGetHandleByIndex(self.device)
        mode = _quietly(nvml.nvmlDeviceGetMigMode, handle)
        if isinstance(mode, (list, tuple)) and mode and mode[0] == 1:
            return _quietly(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, 0) or handle
        return handle

    def _read_memory(self, reading: Reading) -> None:
        info = self._nvml.nvmlDeviceGetMemoryInfo(self._handle)
        reading.put("gpu_memory", _part(info, "used"))
        reading.put("gpu_memory_total", _part(info, "total"))

    def _read_counters(self, reading: Reading, now: float) -> None:
        if self._gpm is None:
            reading.missing |= dict.fromkeys(GPM_FIELDS, self._no_gpm)
        else:
            found = self._gpm.read(now)
            reading.values |= found.values
            reading.missing |= found.missing

    def _is_lost(self, error: Exception) -> bool:
        codes = {getattr(self._nvml, f"NVML_ERROR_{name}", None) for name in LOST}
        return getattr(error, "value", None) in codes - {None}


class _Counters:
    """GPM: hardware counters of Hopper and newer GPUs, read as differences of two samples."""

    def __init__(self, nvml: ModuleType, handle: Any) -> None:
        self._nvml, self._device, self._instance = nvml, handle, None
        if _quietly(nvml.nvmlDeviceIsMigDeviceHandle, handle):
            self._device = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            self._instance = nvml.nvmlDeviceGetGpuInstanceId(handle)
        support = nvml.nvmlGpmQueryDeviceSupport(self._device)
        if not _part(support, "isSupportedDevice"):
            raise LookupError("this GPU has no GPM counters (Hopper and newer ones have)")
        self._samples: list[Any] = []
        self._last: Reading | None = None
        self._read_at = -math.inf
        self._filled = 0
        try:
            for _ in range(2):
                self._samples.append(nvml.nvmlGpmSampleAlloc())
        except Exception:
            self.close()
            raise

    def read(self, now: float) -> Reading:
        """The figures since the reading before; at most every GPM_S a new one."""
        if self._last is not None and now - self._read_at < GPM_S:
            return self._last
        old, new = self._samples
        if self._instance is None:
            self._nvml.nvmlGpmSampleGet(self._device, new)
        else:
            self._nvml.nvmlGpmMigSampleGet(self._device, self._instance, new)
        self._samples = [new, old]
        self._read_at = now
        self._filled = min(self._filled + 1, 2)
        self._last = self._difference(old, new)
        return self._last

    def _difference(self, old: Any, new: Any) -> Reading:
        if self._filled < 2:
            return Reading(missing=dict.fromkeys(GPM_FIELDS, "needs a second reading"))
        nvml, reading = self._nvml, Reading()
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM_FIELDS)
        asked.sample1, asked.sample2 = old, new
        for i, constant in enumerate(GPM_FIELDS.values()):
            asked.metrics[i].metricId = getattr(nvml, constant)
            asked.metrics[i].value = math.nan  # what is not filled in is not 0
        nvml.nvmlGpmMetricsGet(asked)
        for i, name in enumerate(GPM_FIELDS):
            code = asked.metrics[i].nvmlReturn
            if code:
                reading.missing[name] = _why(nvml.NVMLError(code))
            else:
                reading.put(name, asked.metrics[i].value)
        return reading

    def close(self) -> None:
        for sample in self._samples:
            _quietly(self._nvml.nvmlGpmSampleFree, sample)
        self._samples = []


class GPU(NamedTuple):
    """name: "GPU 0" where the driver tells none. Memory in bytes, None where it can't be read."""

    name: str
    memory_total: float | None
    memory_used: float | None


def installed_gpus(nvml: ModuleType | None = None) -> tuple[list[GPU], str]:
    """(every GPU, those that CUDA_VISIBLE_DEVICES hides too; the state of NVML in words).

    Of a GPU in MIG mode it is the first instance. nvml: the module, for tests.
    """
    module, reason = _opened(nvml)
    if module is None:
        return [], f"n/a ({reason})"
    try:
        found = [_look(GPUReader(index, module)) for index in range(module.nvmlDeviceGetCount())]
    except Exception as error:
        return [], f"n/a ({_why(error)})"
    else:
        return found, f"driver {_text(_quietly(module.nvmlSystemGetDriverVersion)) or 'n/a'}"
    finally:
        _quietly(module.nvmlShutdown)


def _look(reader: GPUReader) -> GPU:
    values = reader.read(0.0).values
    reader.close()
    name = reader.name or f"GPU {reader.device}"
    return GPU(name, values.get("gpu_memory_total"), values.get("gpu_memory"))


def _opened(given: ModuleType | None) -> tuple[ModuleType | None, str]:
    """(NVML, ready to be asked; "") or (None, why not)."""
    try:
        if given is None:
            import pynvml  # of nvidia-ml-py; the distribution called pynvml is a retired one

            given = pynvml
        given.nvmlInit()
    except ImportError:
        return None, "nvidia-ml-py is not installed"
    except Exception as error:
        return None, _why(error)
    return given, ""


def _part(value: object, name: str) -> object:
    return None if value is None else getattr(value, name)


def _text(value: object) -> str | None:
    return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else None


def _why(error: Exception) -> str:
    if hasattr(error, "value"):  # NVMLError
        return str(error).rstrip(".")
    return str(error) if isinstance(error, LookupError) else f"{type(error).__name__}: {error}"


def _quietly(call: Callable, *args: Any) -> Any:
    """What a call that may fail gives, None if it does."""
    try:
        return call(*args)
    except Exception:
        return None
