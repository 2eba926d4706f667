"""How busy a simulated GPU is in a step: from the cost model's terms and the model's sizes.

    busy    the step's time without the term `cpu`, in which the GPU waits for the host
    tensor  FLOPs / (time · peak): 2 a weight and token, 4·heads·head_dim a layer, token and key
    dram    bytes that the step must read / (time · bandwidth): weights once, each row's KV once

Shares between 0 and 1, of one GPU. They are simulated; a real GPU's counters see other traffic too.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from minillm.core.trace import StepRecord, TraceHeader
from minillm.sim.hardware import GPUSpec, get_gpu
from minillm.sim.measured_rows import CannotModel, model_spec
from minillm.sim.models import DType, ModelSpec, get_dtype, get_model

_SPLIT = re.compile(r"\d+ × (?P<gpu>.+) \(TP(?P<tp>\d+) PP(?P<pp>\d+)\)")  # SimulatedRunner.for_gpu


class Activity(NamedTuple):
    """Shares of a step's time and of the GPU's limits."""

    busy: float
    tensor: float
    dram: float


def step_bytes(model: ModelSpec, dtype: DType) -> tuple[float, float]:
    """(bytes of weights that a step reads, bytes of KV of one token of context)."""
    layers = model.num_layers * model.layer_params * dtype.weight_bytes
    return layers + model.vocab_size * model.hidden * dtype.head_bytes, model.kv_bytes(dtype)


def step_work(step: StepRecord, model: ModelSpec, dtype: DType) -> tuple[float, float]:
    """(FLOPs, bytes that must be read) of a recorded step, real or simulated; padding counts."""
    weights, kv = step_bytes(model, dtype)
    tokens = context = pairs = sampled = 0
    for _, _, real, padding, start, token_id in step.raw_rows:
        count = real + padding
        tokens += count
        context += start + count
        pairs += count * start + count * (count + 1) // 2
        sampled += token_id is not None
    flops = 2.0 * model.num_layers * model.layer_params * tokens
    flops += 2.0 * model.hidden * model.vocab_size * sampled
    flops += 4.0 * model.num_layers * model.num_heads * model.head_dim * pairs
    return flops, weights + kv * context


def sizes_of(header: TraceHeader) -> tuple[ModelSpec, DType] | None:
    """The model and number format that a trace names; None where their sizes are not known."""
    try:
        return _model(header.model), get_dtype(header.dtype)
    except ValueError:
        return None


def _model(name: str) -> ModelSpec:
    try:
        return get_model(name)
    except ValueError:
        try:
            return model_spec(name)
        except CannotModel as error:
            raise ValueError(str(error)) from error


class GPUActivity:
    """A GPU (one of tp) with a model. `of` gives a step's shares."""

    def __init__(self, gpu: GPUSpec, model: ModelSpec, dtype: DType, tp: int = 1) -> None:
        self.gpu, self.model, self.dtype, self.tp = gpu, model, dtype, tp
        self.peak = gpu.peak_flops_fp8 if dtype.fp8 else gpu.peak_flops

    @classmethod
    def of_run(cls, header: TraceHeader) -> GPUActivity | None:
        """For a simulated run; None for a device without a data sheet, or one in a pipeline."""
        sizes = sizes_of(header)
        split = _SPLIT.fullmatch(header.device)
        name, tp = (split["gpu"], int(split["tp"])) if split else (header.device, 1)
        if header.provenance != "simulated" or sizes is None or (split and split["pp"] != "1"):
            return None
        try:
            return cls(get_gpu(name), *sizes, tp)
        except ValueError:
            return None

    def of(self, step: StepRecord) -> Activity | None:
        """None for a step without terms."""
        seconds = step.t_end - step.t_start
        if not step.terms or seconds <= 0:
            return None
        flops, moved = step_work(step, self.model, self.dtype)
        return Activity(
            max(0.0, 1.0 - step.terms.get("cpu", 0.0) / seconds),
            flops / (self.tp * self.peak * seconds),
            moved / (self.tp * self.gpu.bandwidth * seconds),
        )
