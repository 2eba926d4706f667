"""Rooflines as small multiples: this machine's, measured dot by dot, beside simulated GPUs'.

roofs = Roofline("[B × 8192]·[8192 × 8192] in bf16")
roofs.add_gpu("A100-80GB-SXM", "A100")          # data sheet and simulated products
await roofs.measure("This machine", size=1536)  # its limits, then a dot a batch; or:
for batch in roofs.measuring("This machine", size=1536): ...
roofs.freeze()
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from minillm.sim.hardware import get_gpu
from widgets import assets
from widgets.plot_widget import PlotWidget
from widgets.roofline_drawing import draw
from widgets.roofline_model import BATCHES, RooflineModel, product_cost

if TYPE_CHECKING:
    from minillm.bench.roofline import Product
    from minillm.llm import LLM

SOURCES = (
    *assets.FIGURE,
    "shared/save.js",
    "shared/scale.js",
    "shared/plot.js",
    "roofline/layout.js",
    "roofline/view.js",
)
HERE = "here"


class Roofline(PlotWidget):
    """product: what the dots multiply, in words."""

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css")
    _what = "roofline"
    _picture = staticmethod(draw)

    def __init__(self, product: str = "") -> None:
        super().__init__(RooflineModel(product))

    def add_gpu(
        self, gpu: str, name: str | None = None, *, size: int = 8192,
        batches: Iterable[int] = BATCHES, focus: bool = False,
    ) -> None:  # fmt: skip
        """A GPU's data sheet, and products [B × size]·[size × size] in bf16 as simulated."""
        spec = get_gpu(gpu)
        with self._guard:
            self.model.add_device(
                spec.name, name or spec.name, "simulated", peak_flops=spec.peak_flops,
                bandwidth=spec.bandwidth, focus=focus, detail=f"{size} × {size}, bf16",
            )  # fmt: skip
            for batch in batches:
                seconds = spec.gemm_s(batch, size, size, 2.0)
                self.model.add_dot(spec.name, batch, *product_cost(batch, size, size), seconds)
            self.publish()

    def add_device(self, key: str, name: str, provenance: str, **settings: object) -> None:
        """Any device, as RooflineModel.add_device."""
        with self._guard:
            self.model.add_device(key, name, provenance, **settings)
            self.publish()

    def set_roof(self, key: str, peak_flops: float, bandwidth: float) -> None:
        """A device's limits, FLOP/s and bytes/s."""
        with self._guard:
            self.model.set_roof(key, peak_flops, bandwidth)
            self.publish()

    def add_dot(self, key: str, batch: int, flop: float, num_bytes: float, seconds: float) -> None:
        """What a batch took: FLOP computed, bytes moved, seconds."""
        with self._guard:
            self.model.add_dot(key, batch, flop, num_bytes, seconds)
            self.publish()

    def open_here(
        self, llm: LLM, *, name: str = "This machine", size: int = 1536, focus: bool = False
    ) -> Product:
        """Measure the limits of the LLM's device; gives the product that measure_batch times.

        Raises ValueError for a simulated LLM.
        """
        from minillm.bench import roofline

        with self._guard:
            self.model.add_device(HERE, name, "measured", focus=focus)
            self.publish()
        roof = roofline.measure_roof(llm)
        with self._guard:
            self.model.devices[HERE].detail = f"{roof.device}, {size} × {size}, {roof.dtype}"
        self.set_roof(HERE, roof.peak_flops, roof.bandwidth)
        return roofline.open_product(llm, size, size)

    def measure_batch(self, product: Product, batch: int) -> None:
        """Measure one batch on this machine, and show it."""
        with self._guard:
            self.model.begin(HERE, batch)
            self.publish()
        seconds = product.seconds(batch)
        cost = product_cost(batch, product.n, product.k, product.element_bytes)
        with self._guard:
            self.model.add_dot(HERE, batch, *cost, seconds)
            self.model.lift_roof(HERE)
            self.publish()

    def measuring(
        self, llm: LLM, *, batches: Iterable[int] = BATCHES, **settings: object
    ) -> Iterator[int]:
        """Measure the LLM's device: its limits first, then each batch; yields it once it is shown.

        settings: as open_here. Raises ValueError for a simulated LLM.
        """
        product = self.open_here(llm, **settings)
        for batch in batches:
            self.measure_batch(product, batch)
            yield batch

    async def measure(self, llm: LLM, **settings: object) -> None:
        """The same, giving the kernel's loop its turn after each dot."""
        for _ in self.measuring(llm, **settings):
            await asyncio.sleep(0)
