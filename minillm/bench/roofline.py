"""What this machine reaches: its memory bandwidth, its peak, and products in between.

    roof = measure_roof(llm)                             # seconds
    product = open_product(llm, 1536, 1536)
    for batch in (1, 8, 32, 128, 512):
        seconds = product.seconds(batch)

A roofline's two limits (Williams et al. 2009) measured, not read off a data sheet: reading a buffer
that no cache holds, and square products, on the device and in the number format of a loaded model.
Best of several tries, since others may use the machine too.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from minillm.bench.calibrate import ColdProduct
from minillm.bench.recorded_machine import RecordedMachine, RecordedProduct
from minillm.llm import LLM

READ_BYTES = 256e6  # of the buffer that is read
SQUARE = {"cpu": 2048, "cuda": 8192}  # side of the products that give the peak
TRIES = 5  # of reading the buffer
ROUNDS = 4  # of timing a product: more chances to be left alone


class Roof(NamedTuple):
    """Limits as reached here: FLOP/s and bytes/s; the device, number format and its bytes."""

    peak_flops: float
    bandwidth: float
    device: str
    dtype: str
    element_bytes: int


def measure_roof(llm: LLM) -> Roof:
    """Both limits of the LLM's device: measured, or as recorded (recorded_machine.py).

    Raises ValueError for a simulated one.
    """
    if isinstance(llm.runner, RecordedMachine):
        info, limits = llm.info, llm.runner.limits
        return Roof(*limits, info.device, info.dtype, llm.runner.dtype.itemsize)
    device, dtype = _device(llm)
    side = SQUARE.get(device.type, 2048)
    square = ColdProduct(side, side, device, dtype)
    seconds = min(square.times(side))
    peak, bandwidth = 2 * side**3 / seconds, _read_bandwidth(device)
    return Roof(peak, bandwidth, llm.info.device, llm.info.dtype, dtype.itemsize)


class Product:
    """[m, k] · [k, n] on a device: the best of several tries. element_bytes: of one number."""

    def __init__(self, n: int, k: int, device: Any, dtype: Any) -> None:
        self.n, self.k, self.element_bytes = n, k, dtype.itemsize
        self._cold = ColdProduct(n, k, device, dtype)

    def seconds(self, m: int) -> float:
        """Raises ValueError unless m is an integer ≥ 1."""
        _size("m", m)
        return min(t for _ in range(ROUNDS) for t in self._cold.times(m))


def open_product(llm: LLM, n: int, k: int) -> Product | RecordedProduct:
    """Weights [k, n] on the LLM's device. Raises ValueError for a simulated one and for no size.

    Of a recorded machine there are some square products.
    """
    _size("n", n)
    _size("k", k)
    if isinstance(llm.runner, RecordedMachine) and n == k:
        return llm.runner.product(n)
    return Product(n, k, *_device(llm))


def _size(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be an integer ≥ 1, got {value!r}.")


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
