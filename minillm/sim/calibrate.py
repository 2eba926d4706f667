"""Fits the cost model's constants to measurements: pure arithmetic, no clock and no device.

`minimise` is a coordinate search: it tries each constant a step up and down and keeps what helps,
with smaller steps every round. Losses are means of |log(predicted/measured)|, so that a short step
weighs as much as a long one and an outlier counts no more than its factor.

For a machine of one's own: `fit_device` from the times of matrix products, then `fit_steps` from
the times of an engine's steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from minillm.sim.gpu_cost_model import GPUCostModel
from minillm.sim.hardware import GPUSpec
from minillm.sim.models import DType, ModelSpec
from minillm.sim.pipeline import Load
from minillm.sim.presets import EnginePreset

Constants = dict[str, float]


def minimise(
    loss: Callable[[Constants], float],
    start: Constants,
    steps: Constants,
    *,
    rounds: int = 8,
    shrink: float = 0.6,
    low: float = 0.0,
) -> Constants:
    """The constants of least loss near `start`, none below `low`. Those without a step stay."""
    best, least = dict(start), loss(start)
    for turn in range(rounds):
        for name, step in steps.items():
            for factor in (1.0, -1.0, 2.0, -2.0, 0.5, -0.5):
                value = max(best[name] + factor * step * shrink**turn, low)
                got = loss({**best, name: value})
                if got < least - 1e-9:
                    best, least = {**best, name: value}, got
    return best


def log_error(predicted: float, measured: float) -> float:
    """|log(predicted/measured)|: 0.05 is 5 % off."""
    return abs(math.log(predicted / measured))


class GemmSample(NamedTuple):
    """A measured product [m, k] · [k, n] with weights of that many bytes each."""

    m: int
    n: int
    k: int
    weight_bytes: float
    seconds: float


class StepSample(NamedTuple):
    """A measured engine step."""

    load: Load
    seconds: float


@dataclass(frozen=True, slots=True)
class StepFit:
    """The cost model of this machine, and how far off it is (means of |predicted/measured − 1|).

    held_out_error is on the samples that the fit did not see: every second one.
    """

    cost: GPUCostModel
    fit_error: float
    held_out_error: float


def fit_device(name: str, memory: float, samples: Sequence[GemmSample]) -> GPUSpec:
    """A GPUSpec whose GEMMs take as long as the samples (at least 4, of several sizes).

    peak_flops and bandwidth are those reached, so the efficiencies are 1. The attention's constants
    start out from the GEMM's: fit_steps corrects them.
    """
    if len(samples) < 4:
        raise ValueError(f"A device is fitted on at least 4 matrix products, got {len(samples)}.")
    if any(not sample.seconds > 0 for sample in samples):
        raise ValueError("A matrix product took no time: measure it again with a longer run.")
    flops = max(2.0 * s.m * s.n * s.k / s.seconds for s in samples)
    moved = max((s.weight_bytes * s.n * s.k) / s.seconds for s in samples)
    launch = min(s.seconds for s in samples)
    # Searched as logarithms: the constants differ by 15 orders of magnitude.
    start = {"flops": math.log(flops), "bandwidth": math.log(moved), "launch": math.log(launch)}
    steps = {"flops": 0.4, "bandwidth": 0.4, "launch": 0.6}

    def spec(at: Constants) -> GPUSpec:
        t0 = math.exp(at["launch"])
        return GPUSpec(
            name, math.exp(at["flops"]), math.exp(at["bandwidth"]), memory,
            gemm_compute=1.0, gemm_memory=1.0, gemm_launch_s=t0, gemm_norm=4.0,
            kv_memory=0.5, attention_launch_s=2 * t0, sequence_s=t0 / 4,
            attention_compute=0.5, attention_half_len=64, small_kernel_s=t0 / 2,
            source="fitted on this machine",
        )  # fmt: skip

    def loss(at: Constants) -> float:
        gpu = spec(at)
        errors = [log_error(gpu.gemm_s(s.m, s.n, s.k, s.weight_bytes), s.seconds) for s in samples]
        return sum(errors) / len(errors)

    found = [
        minimise(loss, {**start, "launch": start["launch"] - less}, steps, rounds=15, shrink=0.8,
                 low=-math.inf)
        for less in (0.2, 1.0, 2.5)
    ]  # fmt: skip
    return spec(min(found, key=loss))


def fit_steps(
    gpu: GPUSpec, model: ModelSpec, dtype: DType, samples: Sequence[StepSample]
) -> StepFit:
    """Fit what an engine adds to the GEMMs: CPU per step, attention's constants, the GEMMs' pace.

    Every second sample is held out. Raises ValueError for fewer than 6 samples.
    """
    if len(samples) < 6:
        raise ValueError(f"Steps are fitted on at least 6 measured steps, got {len(samples)}.")
    shortest = min(sample.seconds for sample in samples)
    start = {"step": shortest / 10, "kv": 0.5, "share": 0.3, "each": gpu.sequence_s, "gemm": 1.0}
    start = {name: math.log(value) for name, value in start.items()}
    steps = {"step": 1.0, "kv": 1.0, "share": 1.0, "each": 2.0, "gemm": 0.3}

    def cost(at: Constants) -> GPUCostModel:
        found = {name: math.exp(value) for name, value in at.items()}
        fitted = replace(
            gpu, kv_memory=found["kv"], attention_compute=found["share"],
            sequence_s=found["each"], gemm_compute=found["gemm"], gemm_memory=found["gemm"],
        )  # fmt: skip
        preset = EnginePreset(
            "this machine", found["step"], 0.0, graph=1.0, source="fitted on this machine"
        )
        return GPUCostModel(fitted, model, preset=preset, dtype=dtype)

    def loss(at: Constants) -> float:
        made = cost(at)
        return sum(log_error(made.seconds(s.load), s.seconds) for s in samples[::2])

    made = cost(minimise(loss, start, steps, rounds=16, shrink=0.8, low=-math.inf))
    return StepFit(made, _mean_error(made, samples[::2]), _mean_error(made, samples[1::2]))


def _mean_error(cost: GPUCostModel, samples: Sequence[StepSample]) -> float:
    return sum(abs(cost.seconds(s.load) / s.seconds - 1) for s in samples) / len(samples)
