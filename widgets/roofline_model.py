"""Rooflines: what a device can compute and move, and the products that were measured on it.

x is FLOP per byte moved, y FLOP per second reached; the roof is min(peak, x · bandwidth), its
corner the ridge (Williams et al. 2009). A product [m, k] · [k, n] computes 2mnk FLOP and moves the
weights n·k and the activations m·k + m·n once. No ipywidgets, no numpy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from widgets.numbers import THIN, fixed, number3
from widgets.still import Cell, Table

PROVENANCES = ("measured", "simulated")
BATCHES = (1, 8, 32, 128, 512)


class Dot(NamedTuple):
    """A product at a batch size: FLOP per byte, FLOP/s reached, the seconds it took."""

    batch: int
    intensity: float
    flops: float
    seconds: float


@dataclass(slots=True)
class Device:
    """A device's roof (None: not known yet) and its dots, by batch."""

    key: str
    name: str
    provenance: str
    detail: str = ""
    peak_flops: float | None = None
    bandwidth: float | None = None
    dots: dict[int, Dot] = field(default_factory=dict)
    running: int | None = None

    @property
    def ridge(self) -> float | None:
        """FLOP per byte at which both limits meet."""
        return self.peak_flops / self.bandwidth if self.peak_flops and self.bandwidth else None

    def share(self, dot: Dot) -> float | None:
        """The share of the peak that a dot reaches."""
        return dot.flops / self.peak_flops if self.peak_flops else None


def product_cost(m: int, n: int, k: int, element_bytes: float = 2.0) -> tuple[float, float]:
    """(FLOP, bytes moved) of [m, k] · [k, n]."""
    return 2.0 * m * n * k, element_bytes * (n * k + m * k + m * n)


class RooflineModel:
    """Devices in the order in which they were added. product: what is multiplied, in words."""

    def __init__(self, product: str = "") -> None:
        self.product = product
        self.version = 0
        self.devices: dict[str, Device] = {}
        self.focus: str | None = None

    @property
    def empty(self) -> bool:
        return not any(device.dots or device.peak_flops for device in self.devices.values())

    def add_device(
        self, key: str, name: str, provenance: str, *, detail: str = "",
        peak_flops: float | None = None, bandwidth: float | None = None, focus: bool = False,
    ) -> Device:  # fmt: skip
        """A device; the same key again starts it anew. Its roof may come later (set_roof)."""
        if provenance not in PROVENANCES:
            raise ValueError(f"A device is measured or simulated, got {provenance!r}.")
        self.devices[key] = Device(key, name, provenance, detail)
        if focus or self.focus is None:
            self.focus = key
        self.version += 1
        if peak_flops is not None and bandwidth is not None:
            self.set_roof(key, peak_flops, bandwidth)
        return self.devices[key]

    def set_roof(self, key: str, peak_flops: float, bandwidth: float) -> None:
        """The device's limits: FLOP/s and bytes/s."""
        device = self._device(key)
        _positive("peak_flops", peak_flops)
        _positive("bandwidth", bandwidth)
        device.peak_flops, device.bandwidth = peak_flops, bandwidth
        self.version += 1

    def lift_roof(self, key: str) -> None:
        """Raise the limits to what a dot has reached: a measured roof is the best that was seen."""
        device = self._device(key)
        if device.peak_flops and device.bandwidth:
            flops = [dot.flops for dot in device.dots.values()]
            moved = [dot.flops / dot.intensity for dot in device.dots.values()]
            peak, bandwidth = max(flops, default=0.0), max(moved, default=0.0)
            self.set_roof(key, max(device.peak_flops, peak), max(device.bandwidth, bandwidth))

    def begin(self, key: str, batch: int) -> None:
        """This batch is being measured."""
        self._device(key).running = batch
        self.version += 1

    def add_dot(self, key: str, batch: int, flop: float, num_bytes: float, seconds: float) -> Dot:
        """What a batch took: FLOP computed, bytes moved, seconds."""
        device = self._device(key)
        for name, value in (("batch", batch), ("flop", flop), ("num_bytes", num_bytes),
                            ("seconds", seconds)):  # fmt: skip
            _positive(name, value)
        dot = device.dots[batch] = Dot(batch, flop / num_bytes, flop / seconds, seconds)
        device.running = None
        self.version += 1
        return dot

    def _device(self, key: str) -> Device:
        if key not in self.devices:
            known = ", ".join(self.devices) or "none"
            raise ValueError(f"There is no device {key!r}: add_device() first; there are {known}.")
        return self.devices[key]

    def as_dict(self) -> dict:
        return {
            "product": self.product,
            "devices": [
                {
                    "key": device.key, "name": device.name, "provenance": device.provenance,
                    "detail": device.detail, "peak_flops": device.peak_flops,
                    "bandwidth": device.bandwidth, "running": device.running,
                    "dots": [device.dots[batch]._asdict() for batch in sorted(device.dots)],
                }
                for device in self.devices.values()
            ],
        }  # fmt: skip

    # ── words ───────────────────────────────────────────────────────────────────────────────

    def headline(self) -> str:
        """What the smallest batch reaches on the device in focus, and what it waits for."""
        device = self.devices.get(self.focus or "")
        if device is None or not device.dots or device.ridge is None:
            return ""
        dot = device.dots[min(device.dots)]
        bound = dot.intensity < device.ridge
        waits = "it waits for memory" if bound else "memory does not hold it up"
        reached = share_text(device.share(dot))
        return (
            f"At batch {dot.batch} {_inside(device.name)} reaches {reached} of its peak: {waits}."
        )

    def subtitle(self) -> str:
        text = "" if self.empty else "Left of the ridge, more rows are almost free."
        return f"{text} {self.product}".strip()

    def describe(self) -> str:
        parts = ["Rooflines: FLOP per second against FLOP per byte."]
        for device in self.devices.values():
            words = f"{device.name}, {device.provenance}"
            if device.ridge is not None:
                words += (
                    f": at most {flops_text(device.peak_flops)} and "
                    f"{number3(device.bandwidth / 1e9)} GB/s, ridge at {number3(device.ridge)}"
                )
            for batch in sorted(device.dots):
                dot = device.dots[batch]
                words += f"; batch {batch} reaches {flops_text(dot.flops)}"
                words += f" ({share_text(device.share(dot))})" if device.peak_flops else ""
            parts.append(words + ".")
        return " ".join(parts)

    def table(self) -> Table:
        columns = ("device", "batch", "FLOP/byte", "GFLOP/s", "of peak", "GB/s", "ms", "source")
        rows: list[list[Cell]] = []
        for device in self.devices.values():
            source = f"{device.provenance} {device.detail}".strip()
            for batch in sorted(device.dots):
                dot = device.dots[batch]
                moved = dot.flops / dot.intensity / 1e9
                rows.append([
                    device.name, batch, _round(dot.intensity), _round(dot.flops / 1e9),
                    share_text(device.share(dot)), _round(moved), _round(dot.seconds * 1e3), source,
                ])  # fmt: skip
        return columns, rows


def _inside(name: str) -> str:
    """A name in the middle of a sentence."""
    return name[:1].lower() + name[1:] if name.endswith(" machine") else name


def share_text(share: float | None) -> str:
    """0.6 %, 19 %, never rounded up to 100; n/a for None."""
    if share is None:
        return "n/a"
    percent = share * 100
    if percent >= 10:
        return f"{99 if 99 < percent < 100 else fixed(percent)}{THIN}%"
    return f"{fixed(percent, 1) if percent >= 0.1 else number3(percent)}{THIN}%"


def flops_text(flops: float) -> str:
    """312 TFLOP/s, 2.20 TFLOP/s, 21.0 GFLOP/s."""
    if flops >= 1e12:
        return f"{number3(flops / 1e12)}{THIN}TFLOP/s"
    return f"{number3(flops / 1e9)}{THIN}GFLOP/s"


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a number above 0, got {value!r}.")


def _round(value: float) -> float:
    return float(f"{value:.4g}")
