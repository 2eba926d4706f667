"""A pretended NVML: an H200-like GPU whose calls can be made to fail with any of NVML's errors."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml  # the real module's constants and error classes

ERRORS = {name: getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")}
CALLS = (
    "nvmlInit", "nvmlShutdown", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetMigMode", "nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetName",
    "nvmlSystemGetDriverVersion", "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit", "nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
)  # fmt: skip


class FakeNvml:
    """Stands in for the module pynvml. fail: call → error code; give: call → value instead.

    metric_errors: GPM metric id → its own error code. mig: the GPU is split.
    """

    NVMLError = pynvml.NVMLError
    NVML_GPM_METRICS_GET_VERSION = pynvml.NVML_GPM_METRICS_GET_VERSION
    NVML_GPM_METRIC_ANY_TENSOR_UTIL = pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
    NVML_GPM_METRIC_DRAM_BW_UTIL = pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL

    def __init__(self, *, gpm: bool = True, mig: bool = False) -> None:
        self.fail: dict[str, int] = {}
        self.give: dict[str, object] = {}
        self.metric_errors: dict[int, int] = {}
        self.gpm, self.mig = gpm, mig
        self.calls: list[str] = []
        self.opened = 0  # nvmlInit less nvmlShutdown
        self.samples = 0  # allocated less freed
        for name, code in ERRORS.items():
            setattr(self, name, code)
        for name in CALLS:
            setattr(self, name, self._wrapped(name))

    def _wrapped(self, name: str):
        def call(*args: object) -> object:
            self.calls.append(name)
            if name in self.fail:
                raise self.NVMLError(self.fail[name])
            if name in self.give:
                return self.give[name]
            return getattr(self, f"_{name}")(*args)

        return call

    def _nvmlInit(self):
        self.opened += 1

    def _nvmlShutdown(self):
        self.opened -= 1

    def _nvmlDeviceGetCount(self):
        return 1

    def _nvmlDeviceGetHandleByIndex(self, index):
        if index != 0:
            raise self.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return "gpu-0"

    def _nvmlDeviceGetHandleByUUID(self, uuid):
        return "mig-0" if uuid.startswith("MIG-") else "gpu-0"

    def _nvmlDeviceGetMigMode(self, handle):
        if handle == "mig-0":
            raise self.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return [int(self.mig), int(self.mig)]

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle, index):
        return "mig-0"

    def _nvmlDeviceIsMigDeviceHandle(self, handle):
        return int(handle == "mig-0")

    def _nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):
        return "gpu-0"

    def _nvmlDeviceGetGpuInstanceId(self, handle):
        return 7

    def _nvmlDeviceGetName(self, handle):
        return "NVIDIA H200"

    def _nvmlSystemGetDriverVersion(self):
        return "570.00"

    def _nvmlDeviceGetUtilizationRates(self, handle):
        if handle == "mig-0":
            raise self.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=98, memory=61)

    def _nvmlDeviceGetMemoryInfo(self, handle):
        total = 18_000_000_000 if handle == "mig-0" else 141_000_000_000
        return SimpleNamespace(used=total // 10 * 9, total=total)

    def _nvmlDeviceGetPowerUsage(self, handle):
        if handle == "mig-0":
            raise self.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 512_000

    def _nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def _nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=int(self.gpm))

    def _nvmlGpmSampleAlloc(self):
        self.samples += 1
        return SimpleNamespace(taken=0)

    def _nvmlGpmSampleFree(self, sample):
        self.samples -= 1

    def _nvmlGpmSampleGet(self, handle, sample):
        sample.taken += 1

    def _nvmlGpmMigSampleGet(self, handle, instance, sample):
        if (handle, instance) != ("gpu-0", 7):
            raise self.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        sample.taken += 1

    def c_nvmlGpmMetricsGet_t(self):
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(4)]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def _nvmlGpmMetricsGet(self, asked):
        if not (asked.sample1.taken and asked.sample2.taken and asked.version == 1):
            raise self.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        for metric in asked.metrics[: asked.numMetrics]:
            tensor = metric.metricId == pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL
            metric.nvmlReturn = self.metric_errors.get(metric.metricId, 0)
            metric.value = 31.5 if tensor else 76.25
        return asked
