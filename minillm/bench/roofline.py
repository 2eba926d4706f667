"""What this machine reaches: its memory bandwidth, its peak, and products in between.

    roof = measure_roof(llm)                             # seconds
    for batch in (1, 8, 32, 128, 512):
        seconds = measure_product(llm, batch, 1536, 1536)

A roofline's two limits (Williams et al. 2009) measured, not read off a data sheet: reading a buffer
that no cache holds, and square products, on the device and in the number format of a loaded model.
Best of several tries, since others may use the machine too.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from minillm.bench.calibrate import time_product
from minillm.llm import LLM

READ_BYTES = 256e6  # of the buffer that is read
SQUARE = {"cpu": 2048, "cuda": 8192}  # side of the products that give the peak
TRIES = 5


class Roof(NamedTuple):
    """Limits as reached here: FLOP/s and bytes/s; the device, number format and its bytes."""

    peak_flops: float
    bandwidth: float
    device: str
    dtype: str
    element_bytes: int


def measure_roof(llm: LLM) -> Roof:
    """Both limits of the LLM's device. Raises ValueError for a simulated one."""
    device, dtype = _device(llm)
    side = SQUARE.get(device.type, 2048)
    seconds = min(time_product(side, side, side, device, dtype) for _ in range(2))
    peak, bandwidth = 2 * side**3 / seconds, _read_bandwidth(device)
    return Roof(peak, bandwidth, llm.info.device, llm.info.dtype, dtype.itemsize)


def measure_product(llm: LLM, m: int, n: int, k: int) -> float:
    """Seconds of [m, k] · [k, n], weights in no cache: the better of two medians."""
    for name, value in (("m", m), ("n", n), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer ≥ 1, got {value!r}.")
    return min(time_product(m, n, k, *_device(llm)) for _ in range(2))


def _device(llm: LLM) -> tuple[Any, Any]:
    if llm.info.provenance != "measured":
        raise ValueError("A roofline is measured on a real device; this LLM is simulated.")
    return llm.runner.device, llm.runner.dtype


def _read_bandwidth(device: Any) -> float:
    import torch

    buffer = torch.ones(int(READ_BYTES / 4), dtype=torch.float32, device=device)
    best = float("inf")
    with torch.inference_mode():
        for _ in range(TRIES):
            start = time.perf_counter()
            buffer.sum().item()  # waits for the device
            best = min(best, time.perf_counter() - start)
    return buffer.numel() * 4 / best
