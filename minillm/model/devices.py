"""Which device and number format a model runs in, and why: decided by what the machine has.

Everything here is a fact of the machine or a choice made from it, in words that `minillm doctor`
can print. Errors are ValueError, in one sentence.
"""

from __future__ import annotations

import functools
import math
import os
import platform
from collections.abc import Sequence

import numpy
import torch

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
ALIASES = {"bf16": "bfloat16", "fp32": "float32", "fp16": "float16", "half": "float16"}


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Feature flags of this processor as Linux names them; empty where they can't be read."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.split(":", 1)[1].split())
    except OSError:
        pass
    return frozenset()


@functools.cache
def cpu_name() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown CPU"


def cpu_matrix_unit() -> str | None:
    """What makes bfloat16 fast on this CPU: "AMX bf16", "AVX512 bf16", or None."""
    flags = cpu_flags()
    if "amx_bf16" in flags:
        return "AMX bf16"
    return "AVX512 bf16" if "avx512_bf16" in flags else None


def usable_cores() -> int:
    """Physical cores that this process may use (hyper-threads don't help matrix products)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        import psutil

        physical = psutil.cpu_count(logical=False)
    except ImportError:
        physical = None
    return max(1, min(allowed or 1, physical or allowed or 1))


def choose_threads(threads: int | None) -> int:
    """How many CPU threads to use. None: OMP_NUM_THREADS if set, else the cores."""
    if threads is not None and (isinstance(threads, bool) or threads < 1):
        raise ValueError(f"threads must be an integer ≥ 1, got {threads!r}.")
    if threads is None and os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return threads or usable_cores()


def set_threads(threads: int | None) -> int:
    """Set torch's threads as choose_threads says, and return their number.

    Two busy processes that share the cores slow each other down far more than by half: with
    anything else running, fewer threads are faster.
    """
    wanted = choose_threads(threads)
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)
    return wanted


def choose_device(name: str = "auto") -> torch.device:
    """The device of that name; auto: the GPU if torch has CUDA and finds one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ValueError(f"Unknown device {name!r}: choose auto, cpu, cuda or mps.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("The device cuda was asked for, but torch finds no CUDA GPU here.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("The device mps was asked for, but torch finds no Apple GPU here.")
    return device


def auto_dtype(device: torch.device) -> tuple[torch.dtype, str]:
    """The number format for a device, and the sentence that says why."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        if major >= 8:
            return torch.bfloat16, f"bfloat16: this GPU (SM{major}{minor}) computes it natively."
        return torch.float16, f"float16: this GPU (SM{major}{minor}) has no bfloat16 units."
    if device.type == "mps":
        return torch.float16, "float16: half the memory traffic of float32 on an Apple GPU."
    unit = cpu_matrix_unit()
    if unit:
        return torch.bfloat16, f"bfloat16: this CPU has units for it ({unit})."
    return torch.float32, (
        "float32: this CPU has neither AMX nor AVX512-BF16, and bfloat16 would be slower without."
    )


def choose_dtype(name: str | torch.dtype, device: torch.device) -> torch.dtype:
    """The torch dtype of that name; auto: see auto_dtype."""
    if isinstance(name, torch.dtype):
        name = str(name).removeprefix("torch.")
    name = ALIASES.get(name, name)
    if name == "auto":
        return auto_dtype(device)[0]
    if name not in DTYPES:
        raise ValueError(f"Unknown dtype {name!r}: choose auto, {', '.join(DTYPES)}.")
    if name == "float64" and device.type == "mps":
        raise ValueError("float64 does not exist on an Apple GPU; use the CPU for it.")
    return DTYPES[name]


def why_dtype(device: str = "auto") -> str:
    """One sentence for `minillm doctor`: what dtype="auto" chooses here, and why."""
    return auto_dtype(choose_device(device))[1]


def to_device(values: Sequence, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of numbers from Python, on the device, without waiting for what runs there.

    On CUDA the copy starts from page-locked memory, which torch keeps until the copy is done.
    """
    if device.type == "cuda":
        return torch.tensor(values, dtype=dtype, pin_memory=True).to(device, non_blocking=True)
    return torch.tensor(values, dtype=dtype, device=device)


def zeros(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros that on a CPU take memory only where they're written to.

    torch.zeros writes them all: a KV cache of 1 GiB would be 1 GiB from the start.
    """
    size = math.prod(shape)
    if device.type != "cpu" or not size:
        return torch.zeros(shape, dtype=dtype, device=device)
    bytes_ = numpy.zeros(size * dtype.itemsize, dtype=numpy.uint8)  # calloc, huge pages on Linux
    return torch.from_numpy(bytes_).view(dtype).view(*shape)


def device_text(device: torch.device, threads: int) -> str:
    """The device in words, as a trace's header names it: "CPU, 2 threads (AMX bf16)"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "mps":
        return f"Apple GPU ({platform.machine()})"
    unit = cpu_matrix_unit()
    plural = "s" if threads != 1 else ""
    return f"CPU, {threads} thread{plural}" + (f" ({unit})" if unit else "")
