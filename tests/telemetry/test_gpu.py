"""One GPU through NVML: every error in every call is a reason in words, and never a 0."""

from __future__ import annotations

import math
import re
import sys
from importlib import metadata
from types import SimpleNamespace

import pynvml
import pytest

from minillm.telemetry import (
    FIELDS,
    GPM_FIELDS,
    GPU_FIELDS,
    GPUReader,
    installed_gpus,
    visible_device,
)
from tests.telemetry.fake_nvml import CALLS, ERRORS, FakeNvml


def twice(reader: GPUReader):
    """The second reading, when the counters have something to compare with."""
    reader.read(100.0)
    return reader.read(101.0)


def test_a_gpu_that_tells_everything():
    nvml = FakeNvml()
    reader = GPUReader(0, nvml)
    reading = twice(reader)
    assert reading.missing == {}
    assert reading.values == {
        "gpu_busy": 98, "gpu_memory": 126.9e9, "gpu_memory_total": 141e9, "gpu_power": 512.0,
        "gpu_power_limit": 700.0, "gpu_tensor": 31.5, "gpu_dram": 76.25,
    }  # fmt: skip
    assert (reader.name, reader.driver) == ("NVIDIA H200", "570.00")
    reader.close()
    reader.close()
    assert (nvml.opened, nvml.samples) == (0, 0)


@pytest.mark.parametrize("mig", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_every_error_in_every_call_leaves_a_reason(call, mig):
    for name, code in ERRORS.items():
        nvml = FakeNvml(mig=mig)
        nvml.fail[call] = code
        reader = GPUReader(0, nvml)
        for now in (100.0, 100.1, 100.5, 120.0):
            reading = reader.read(now)
            seen = set(reading.values) | set(reading.missing)
            assert seen == set(GPU_FIELDS), name
            assert not set(reading.values) & set(reading.missing), name
            assert all(reason.strip() for reason in reading.missing.values()), name
            assert all(value > 0 for value in reading.values.values()), name
        reader.close()
        if call not in ("nvmlShutdown", "nvmlInit"):
            assert nvml.opened == 0, name
        if call != "nvmlGpmSampleFree":
            assert nvml.samples == 0, name


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("value", [None, -1, math.nan, math.inf, "?", object()], ids=str)
def test_nonsense_is_not_taken_for_a_figure(call, value):
    nvml = FakeNvml()
    nvml.give[call] = value
    reading = twice(GPUReader(0, nvml))
    assert set(reading.values) | set(reading.missing) == set(GPU_FIELDS)
    assert all(math.isfinite(each) and each > 0 for each in reading.values.values())


def test_nonsense_inside_an_answer():
    nvml = FakeNvml()
    nvml.give["nvmlDeviceGetUtilizationRates"] = SimpleNamespace(gpu=None)
    nvml.give["nvmlDeviceGetMemoryInfo"] = SimpleNamespace(used=math.nan, total=10)
    reading = twice(GPUReader(0, nvml))
    assert reading.missing["gpu_busy"] == "the driver gave no value"
    assert reading.missing["gpu_memory"] == "the driver gave nan"
    assert reading.values["gpu_memory_total"] == 10


def test_no_driver_is_said_once_for_all_fields_and_looked_for_again_later():
    nvml = FakeNvml()
    nvml.fail["nvmlInit"] = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    reader = GPUReader(0, nvml)
    assert set(reader.read(100.0).missing.values()) == {"NVML Shared Library Not Found"}
    for i in range(40):
        reader.read(100.1 + i / 10)
    assert nvml.calls.count("nvmlInit") == 1
    nvml.fail.clear()
    assert reader.read(106.0).values["gpu_busy"] == 98


@pytest.mark.parametrize("lost", ["NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_UNINITIALIZED"])
def test_a_lost_gpu_loses_all_fields_and_may_come_back(lost):
    nvml = FakeNvml()
    reader = GPUReader(0, nvml)
    twice(reader)
    nvml.fail["nvmlDeviceGetPowerUsage"] = ERRORS[lost]
    reading = reader.read(102.0)
    assert reading.values == {}
    assert len(set(reading.missing.values())) == 1
    assert (nvml.opened, nvml.samples) == (0, 0)
    calls = len(nvml.calls)
    assert reader.read(102.1).missing == reading.missing
    assert len(nvml.calls) == calls  # it is left alone for a while
    nvml.fail.clear()
    assert reader.read(110.0).values["gpu_power"] == 512.0


def test_no_permission_for_one_field_leaves_the_others():
    nvml = FakeNvml()
    nvml.fail["nvmlGpmSampleGet"] = pynvml.NVML_ERROR_NO_PERMISSION
    reading = twice(GPUReader(0, nvml))
    assert reading.missing == dict.fromkeys(GPM_FIELDS, "Insufficient Permissions")
    assert len(reading.values) == 5


def test_an_older_gpu_has_no_counters():
    reading = twice(GPUReader(0, FakeNvml(gpm=False)))
    assert set(reading.missing) == set(GPM_FIELDS)
    assert "no GPM counters" in reading.missing["gpu_tensor"]


def test_an_old_module_has_no_counters_either():
    nvml = FakeNvml()
    del nvml.nvmlGpmQueryDeviceSupport
    reading = twice(GPUReader(0, nvml))
    assert set(reading.missing) == set(GPM_FIELDS)


def test_a_counter_of_its_own_can_be_missing():
    nvml = FakeNvml()
    nvml.metric_errors[nvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL] = pynvml.NVML_ERROR_NOT_SUPPORTED
    reading = twice(GPUReader(0, nvml))
    assert reading.missing == {"gpu_tensor": "Not Supported"}
    assert reading.values["gpu_dram"] == 76.25


def test_counters_are_read_at_their_own_pace():
    nvml = FakeNvml()
    reader = GPUReader(0, nvml)
    first = reader.read(100.0)
    assert first.missing == dict.fromkeys(GPM_FIELDS, "needs a second reading")
    for i in range(1, 11):
        reader.read(100.0 + i / 10)
    assert nvml.calls.count("nvmlGpmSampleGet") == 6


@pytest.mark.parametrize("device", [0, "MIG-1234", "GPU-1234"])
def test_a_mig_instance_has_its_own_memory_and_no_utilisation(device):
    reading = twice(GPUReader(device, FakeNvml(mig=True)))
    assert reading.values["gpu_memory_total"] == 18e9
    assert reading.missing == {"gpu_busy": "Not Supported", "gpu_power": "Not Supported"}
    assert reading.values["gpu_tensor"] == 31.5


@pytest.mark.parametrize(
    ("text", "device"),
    [(None, 0), ("2,3", 2), ("MIG-ab,GPU-cd", "MIG-ab"), ("", None), ("-1", None), (" 1 ", 1)],
)
def test_which_gpu_is_read(monkeypatch, text, device):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if text is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert visible_device() == device


def test_hidden_gpus_are_said_to_be_hidden(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    nvml = FakeNvml()
    reading = GPUReader(None, nvml).read(100.0)
    assert set(reading.missing.values()) == {"CUDA_VISIBLE_DEVICES hides every GPU"}
    assert nvml.calls == []


def test_every_field_has_a_unit_and_a_meaning():
    for name, field in FIELDS.items():
        assert field.unit in ("%", "W", "B"), name
        assert field.meaning, name


def test_the_retired_distribution_is_not_installed():
    """`import pynvml` comes from nvidia-ml-py; the distribution named pynvml only warns."""
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("pynvml")
    assert metadata.version("nvidia-ml-py")


# ── which GPUs there are ────────────────────────────────────────────────────────────────────


def test_the_gpus_of_a_machine():
    nvml = FakeNvml()
    assert installed_gpus(nvml) == ([("NVIDIA H200", 141e9, 126.9e9)], "driver 570.00")
    assert (nvml.opened, nvml.samples) == (0, 0)
    assert installed_gpus(FakeNvml(mig=True))[0] == [("NVIDIA H200", 18e9, 16.2e9)]


@pytest.mark.parametrize("call", CALLS)
def test_every_error_leaves_a_gpu_or_the_reason_why_there_is_none(call):
    for name, code in ERRORS.items():
        nvml = FakeNvml()
        nvml.fail[call] = code
        found, state = installed_gpus(nvml)
        if call in ("nvmlInit", "nvmlDeviceGetCount"):
            assert found == [], name
            assert re.fullmatch(r"n/a \(.+\)", state), name
        else:
            (gpu,) = found
            assert gpu.name in ("NVIDIA H200", "GPU 0"), name
            assert gpu.memory_total in (141e9, None), name
        if call not in ("nvmlShutdown", "nvmlInit"):
            assert nvml.opened == 0, name


def test_without_the_module_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert installed_gpus() == ([], "n/a (nvidia-ml-py is not installed)")
