"""A slider for the batch: what a product with so many rows takes, and where it lies on a roofline.

    bench = BatchSlider(llm, side=1536)                 # your machine, measured as the slider moves
    bench                                               # slider, figures, roofline
    table = await bench.measure()                       # each batch in turn; afterwards all of them
    BatchSlider(gpus={"A100": "A100-80GB-SXM"}, side=8192)   # simulated GPUs: figures at once

The slider only says which batch is wanted; a thread (an asyncio task where there is none) measures.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from widgets import cards
from widgets.background import Background
from widgets.numbers import THIN, number3
from widgets.real import is_machine, machine_name
from widgets.roofline import BATCHES, HERE, Roofline
from widgets.roofline_model import Device, Dot, flops_text, share_text

if TYPE_CHECKING:
    from minillm.bench.roofline import Product
    from minillm.llm import LLM

FIGURES = ("time", "× the first's", "compute", "of its peak", "memory", "of its bandwidth")


class BatchSlider:
    """See the module's docstring. Weights are [side × side]; gpus: name → GPU of minillm.sim.

    batches: what can be chosen, rising. Raises ValueError without a device, or for a simulated LLM.
    """

    def __init__(
        self,
        llm: LLM | None = None,
        *,
        gpus: Mapping[str, str] | None = None,
        side: int = 1536,
        batches: Iterable[int] = BATCHES,
        threads: bool | None = None,
    ) -> None:
        if llm is None and not gpus:
            raise ValueError("Give an LLM to measure on its device, or GPUs to simulate.")
        if llm is not None and not is_machine(llm):
            raise ValueError("A simulated LLM cannot be measured: name its GPU in gpus.")
        self._name = "Your machine" if llm is None else machine_name(llm)
        self.llm, self.side, self.batches = llm, side, tuple(batches)
        self.roofs = Roofline(f"[B × {side:,}] · [{side:,} × {side:,}]")
        for name, gpu in (gpus or {}).items():
            self.roofs.add_gpu(gpu, name, size=side, batches=self.batches)
        self._product: Product | None = None
        self._todo: deque[int] = deque()
        self._guard = threading.Lock()
        self._background = Background(threads=threads)
        self._measuring = False
        self._panel()
        self._show(self.batches[0])

    # ── what a cell asks ────────────────────────────────────────────────────────────────────

    async def measure(self) -> cards.Html:
        """Measure every batch, the slider moving along; returns all figures as a table."""
        self._want(*self.batches)
        await self._background.wait()
        for error in self._background.errors:
            raise error
        return self.table()

    def ratio(self, batch: int, name: str | None = None) -> float:
        """How many times as long as the first batch it takes; on the first device, or that one."""
        dots = self._device(name).dots
        return dots[batch].seconds / dots[self.batches[0]].seconds

    def share(self, batch: int, name: str | None = None) -> float:
        """The share of the device's peak FLOP/s that a batch reaches, 0 to 1."""
        device = self._device(name)
        return device.share(device.dots[batch])

    def table(self, batches: Iterable[int] | None = None) -> cards.Html:
        """Figures of these batches (all), a row each, on each device; it stays in a saved page."""
        devices = list(self.roofs.model.devices.values())
        rows = [
            (_row_name(devices, device, batch), *self._figures(device, device.dots[batch]))
            for device in devices
            for batch in (self.batches if batches is None else batches)
            if batch in device.dots
        ]
        where = _origins(devices)
        title = self.sentence(devices[0]) if rows else "Nothing has been measured yet."
        html = cards.card(cards.head(title, where), cards.table(("", *FIGURES), rows))
        return cards.Html(html, f"{title}\n{cards.text_table(('', *FIGURES), rows)}\n{where}")

    def against(self, step_time: Callable[..., float]) -> cards.Html:
        """A student's step_time beside what was measured, with the roof that was measured."""
        device = self._device(None)
        size, columns = (
            self._product.element_bytes,
            ("batch", "measured", "your step_time", "ratio"),
        )
        rows = []
        for batch, dot in sorted(device.dots.items()):
            said = step_time(batch, self.side, self.side, size, device.peak_flops, device.bandwidth)
            ratio = said / dot.seconds if isinstance(said, int | float) else None
            rows.append((f"{batch:,}", _ms(dot.seconds),
                         "n/a" if ratio is None else _ms(said), cards.number(ratio)))  # fmt: skip
        title = f"Your step_time beside {self._name[:1].lower()}{self._name[1:]}"
        html = cards.card(cards.head(title, _origins([device])), cards.table(columns, rows))
        return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{_origins([device])}")

    def sentence(self, device: Device) -> str:
        """What the first device's batches come to."""
        last = max((batch for batch in device.dots if batch <= 32), default=None)
        first = self.batches[0]
        if last is None or last == first or first not in device.dots:
            return f"{device.name}: one row at a time."
        times = number3(self.ratio(last, device.name))
        return f"{device.name}: {last // first}× the rows take {times}× the time."

    # ── measuring ───────────────────────────────────────────────────────────────────────────

    def _want(self, *batches: int) -> None:
        with self._guard:
            self._todo.extend(batches)
            if self._measuring:
                return
            self._measuring = True
        self._background.join(1.0)  # the last job has nothing left to do
        self._background.start(self._job)

    def _next(self) -> int | None:
        with self._guard:
            if self._todo:
                return self._todo.popleft()
            self._measuring = False
            return None

    def _job(self) -> Iterator[float]:
        try:
            if self._product is None:
                self._product = self.roofs.open_here(self.llm, name=self._name, size=self.side)
            while (batch := self._next()) is not None:
                self._at = batch  # the slider's move is ours: not a wish
                self.slider.value = batch
                self.roofs.measure_batch(self._product, batch)
                self._show(batch)
                yield 0
        except BaseException:
            with self._guard:
                self._todo.clear()
                self._measuring = False
            raise

    # ── what is seen ────────────────────────────────────────────────────────────────────────

    def _panel(self) -> None:
        import ipywidgets

        self._at = self.batches[0]
        self.slider = ipywidgets.SelectionSlider(
            options=[(f"{batch:,}", batch) for batch in self.batches], value=self._at,
            description="Batch (rows)", style={"description_width": "92px"},
            continuous_update=False,
            layout={"width": "min(560px, 100%)"},
        )  # fmt: skip
        self.readout = ipywidgets.HTML()
        self.slider.observe(self._moved, "value")
        self.panel = ipywidgets.VBox([self.slider, self.readout, self.roofs])

    def _moved(self, change: dict) -> None:
        batch = change["new"]
        if batch == self._at:
            return
        self._at = batch
        self._show(batch)
        if self.llm is not None:
            self._want(batch)

    def _show(self, batch: int) -> None:
        """The figures of one batch; dashes while it has none."""
        rows = []
        devices = list(self.roofs.model.devices.values()) or [Device("", self._name, "measured")]
        for device in devices:
            dot = device.dots.get(batch)
            figures = self._figures(device, dot) if dot else ("…",) * len(FIGURES)
            rows.append((f"{cards.GLYPHS[device.provenance]} {device.name}", *figures))
        title = f"Batch {batch:,}: [{batch:,} × {self.side:,}] · [{self.side:,} × {self.side:,}]"
        kinds = dict.fromkeys(device.provenance for device in devices)
        note = "  ".join(f"{cards.GLYPHS[kind]} {kind}" for kind in kinds)
        self.readout.value = cards.card(
            cards.head(title, note), cards.table(("", *FIGURES), rows)
        )  # fmt: skip

    def _figures(self, device: Device, dot: Dot) -> tuple[str, ...]:
        first = device.dots.get(self.batches[0])
        moved = dot.flops / dot.intensity
        times = "n/a" if first is None else f"{number3(dot.seconds / first.seconds)}×"
        of_bandwidth = moved / device.bandwidth if device.bandwidth else None
        return (
            _ms(dot.seconds), times, flops_text(dot.flops), share_text(device.share(dot)),
            f"{number3(moved / 1e9)}{THIN}GB/s", share_text(of_bandwidth),
        )  # fmt: skip

    def _device(self, name: str | None) -> Device:
        devices = self.roofs.model.devices
        if name is None and devices:
            return devices.get(HERE) or next(iter(devices.values()))
        for device in devices.values():
            if device.name == name:
                return device
        known = ", ".join(device.name for device in devices.values()) or "none yet"
        raise ValueError(f"There is no device {name!r}: there are {known}.")

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


def _row_name(devices: list[Device], device: Device, batch: int) -> str:
    return f"batch {batch:,}" if len(devices) == 1 else f"{device.name}, batch {batch:,}"


def _origins(devices: list[Device]) -> str:
    """◐ simulated: A100, H100, 8192 × 8192, bf16: devices that agree, in one."""
    groups: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        groups.setdefault((device.provenance, device.detail), []).append(device.name)
    return "; ".join(
        f"{cards.GLYPHS[provenance]} {provenance}: {', '.join(names)}, {detail}"
        for (provenance, detail), names in groups.items()
    )


def _ms(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{number3(seconds * 1e3)}{THIN}ms"
    return f"{number3(seconds * 1e6)}{THIN}µs"
