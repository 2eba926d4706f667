"""A machine that was measured once, to be simulated where nothing can be measured.

    llm = recorded_llm()                # LLM's interface, no torch; the step times of that machine
    llm.runner.limits, llm.runner.product(1536).seconds(32)

A browser tab has no PyTorch. What a lesson does with the real engine runs there on this machine's
cost model, fitted to the recorded steps: marked simulated, as any simulated GPU. Its memory
bandwidth, its peak and the times of its products are not simulated: they are what was measured.
minillm/data/recorded/lessons.json has it; `python -m benchmarks.record_lessons` makes it.
"""

from __future__ import annotations

import functools
import json
from types import SimpleNamespace
from typing import Any, NamedTuple

from minillm import data
from minillm.llm import LLM
from minillm.llm.settings import CPU_BUDGET
from minillm.sim import GPUCostModel, ModelSpec, SimulatedRunner
from minillm.sim.hardware import GPUSpec
from minillm.sim.presets import EnginePreset

FILE = "recorded/lessons.json"
NUM_BLOCKS = 2912  # what 1 GiB of KV gives the default model
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class Limits(NamedTuple):
    """What the machine reached: FLOP/s and bytes/s."""

    peak_flops: float
    bandwidth: float


class RecordedProduct:
    """[m, n] · [n, n]: seconds as they were measured. element_bytes: of one number."""

    def __init__(self, side: int, seconds: dict[str, float], element_bytes: int) -> None:
        self.n = self.k = side
        self.element_bytes = element_bytes
        self._seconds = seconds

    def seconds(self, m: int) -> float:
        """Raises ValueError for a number of rows that was not measured."""
        if str(m) not in self._seconds:
            raise ValueError(f"{m} rows were not measured, only {', '.join(self._seconds)}.")
        return self._seconds[str(m)]


class RecordedMachine(SimulatedRunner):
    """The machine of lessons.json behind the runner's contract. device: as the real one names it.

    pace: simulated seconds per second in a live view, so that a run lasts as long as it did there.
    """

    pace = 1.0

    def __init__(self, recorded: dict[str, Any]) -> None:
        cost = GPUCostModel(
            GPUSpec(**recorded["gpu"]), ModelSpec(**recorded["sizes"]),
            preset=EnginePreset(**recorded["engine"]), dtype=recorded["dtype"],
        )  # fmt: skip
        super().__init__(
            cost, device=f"recorded {recorded['device']}", model=recorded["model"],
            dtype=recorded["dtype"], vocab_size=cost.model.vocab_size,
        )  # fmt: skip
        self.recorded = recorded
        self.model_config = cost.model
        self.dtype = SimpleNamespace(itemsize=ITEM_BYTES[recorded["dtype"]])

    @property
    def limits(self) -> Limits:
        return Limits(**self.recorded["limits"])

    def product(self, side: int) -> RecordedProduct:
        """Raises ValueError for a side that was not measured."""
        products = self.recorded["products"]
        if str(side) not in products:
            raise ValueError(f"A side of {side} was not measured, only {', '.join(products)}.")
        return RecordedProduct(side, products[str(side)], self.dtype.itemsize)


@functools.cache
def read_recorded() -> dict[str, Any]:
    """lessons.json: "machine", and "cells": what cells of the lessons showed on it."""
    return json.loads(data.read_text(FILE))


def recorded_llm(**settings: Any) -> LLM:
    """An LLM on the recorded machine. settings: as LLM.simulated's."""
    runner = RecordedMachine(read_recorded()["machine"])
    defaults = {"num_blocks": NUM_BLOCKS, "max_num_batched_tokens": CPU_BUDGET}
    return LLM.simulated(runner=runner, **{**defaults, **settings})
