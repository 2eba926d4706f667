"""Predicts one published figure: which set-up a row means, and what the model says of it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from minillm.sim.gpu_cost_model import GPUCostModel
from minillm.sim.measured_rows import (
    CannotModel,
    MeasuredRow,
    arrival_rate,
    concurrency,
    gpu_and_tp,
    lengths,
    model_spec,
    number_format,
    preset_of,
)
from minillm.sim.pipeline import Load
from minillm.sim.presets import EnginePreset
from minillm.sim.steady_state import (
    Steady,
    burst,
    closed_loop,
    decode_s,
    first_wave_s,
    open_loop,
    prefill_s,
)

DECODE_METRICS = ("tpot_mean", "decode_step", "itl_median", "decode_speed")
ALL_AT_ONCE = 100  # prompts, where the metric's name says only "at once"
WAVES = 8  # requests per user in a closed-loop benchmark, where its source does not tell
UNLIMITED = 4096  # users, where the load is "as much as it takes"


class Predictor:
    """Keeps the cost models that it has made. presets: replace those of these names (fitting)."""

    def __init__(self, presets: dict[str, EnginePreset] | None = None) -> None:
        self.presets = presets or {}
        self._costs: dict[tuple, GPUCostModel] = {}

    def cost(self, row: MeasuredRow) -> GPUCostModel:
        """The set-up that the row names. Raises CannotModel."""
        names = (row.hardware, row.model, row.dtype, row.engine)
        if names not in self._costs:
            gpu, tp = gpu_and_tp(row.hardware)
            preset = preset_of(row, tp)
            preset = self.presets.get(preset.name, preset)
            dtype = number_format(row, preset)
            try:
                cost = GPUCostModel(gpu, model_spec(row.model), preset=preset, dtype=dtype, tp=tp)
                cost.kv_tokens()
            except CannotModel:
                raise
            except ValueError as error:
                raise CannotModel(str(error)) from error
            self._costs[names] = cost
        return self._costs[names]

    def predict(self, row: MeasuredRow) -> float:
        """The row's figure in the row's unit. Raises CannotModel with the reason."""
        if math.isnan(row.value) or row.value <= 0:
            raise CannotModel("the value is not a positive number")
        if "trace" in row.input_len.lower():
            raise CannotModel("it replays a trace: needs the engine, not a formula")
        case = _Case(row, self.cost(row), *lengths(row))
        for pattern, rule in _RULES:
            if re.match(pattern, row.metric):
                return _in_unit(rule(case), case)
        raise CannotModel(f"no rule for the metric {row.metric!r}")


@dataclass(frozen=True, slots=True)
class _Case:
    row: MeasuredRow
    cost: GPUCostModel
    input_len: int
    output_len: float
    longest: float

    @property
    def lengths(self) -> tuple[int, float]:
        return self.input_len, self.output_len

    def users(self) -> int:
        return concurrency(self.row) or UNLIMITED


def _in_unit(value: float, case: _Case) -> float:
    """Seconds → ms; tokens per second as they are, or per GPU."""
    unit = case.row.unit.lower()
    if unit == "ms":
        return value * 1e3
    if unit in ("s", "tok/s"):
        return value
    if unit in ("tok/s/gpu", "tok/s per gpu"):
        return value / case.cost.tp
    raise CannotModel(f"unknown unit {case.row.unit!r}")


def _tpot(case: _Case) -> float:
    return closed_loop(case.cost, case.users(), *case.lengths).tpot_s


def _decode_step(case: _Case) -> float:
    return decode_s(case.cost, case.users(), case.input_len + case.output_len / 2)


def _ttft(case: _Case) -> float:
    return _steady_first(case).ttft_s


def _steady_first(case: _Case) -> Steady:
    """The steady state, where it says something of the time to first token."""
    users = case.users()
    steady = closed_loop(case.cost, users, *case.lengths)
    preset = case.cost.preset
    if steady.running < min(users, preset.max_num_seqs) and not preset.reserves_output:
        raise CannotModel("more users than the KV cache holds: preemption decides who waits")
    return steady


def _ttft_mean(case: _Case) -> float:
    """The mean over a whole run, whose first wave of users came all at once."""
    steady = _steady_first(case)
    first = first_wave_s(case.cost, round(steady.running), case.input_len)
    return steady.ttft_s + max(first - steady.ttft_s + steady.wait_s, 0.0) / WAVES


def _prefill(case: _Case) -> float:
    return prefill_s(case.cost, case.input_len, case.users())


def _whole_prefill(case: _Case) -> float:
    """All prompts of a batch in one step."""
    chunks = [(0, case.input_len)] * case.users()
    return case.cost.seconds(Load(0, 0, chunks, len(chunks)))


def _closed_throughput(case: _Case) -> float:
    return closed_loop(case.cost, case.users(), *case.lengths).output_tok_s


def _static_throughput(case: _Case) -> float:
    """A batch that starts and ends together."""
    users = case.users()
    step = _decode_step(case)
    return users * case.output_len / (_whole_prefill(case) + (case.output_len - 1) * step)


def _burst_throughput(case: _Case) -> float:
    prompts = concurrency(case.row) or ALL_AT_ONCE
    return burst(case.cost, prompts, *case.lengths, case.longest)


def _rate_tpot(case: _Case) -> float:
    steady = open_loop(case.cost, arrival_rate(case.row), *case.lengths)
    if steady is None:  # overloaded: as many as can run do
        steady = closed_loop(case.cost, UNLIMITED, *case.lengths)
    return steady.tpot_s


def _rate_ttft(case: _Case) -> float:
    steady = open_loop(case.cost, arrival_rate(case.row), *case.lengths)
    if steady is None:
        raise CannotModel(
            "more requests arrive than are answered: the queue grows for as long as the run lasts"
        )
    return steady.ttft_s


def _speed(case: _Case) -> float:
    return 1.0 / _tpot(case)


_RULES = (
    (r"tpot_\w+_at_", _rate_tpot),
    (r"ttft_\w+_at_", _rate_ttft),
    (r"(tpot|itl)(_mean|_median|_p50)?$", _tpot),
    (r"decode_step$", _decode_step),
    (r"decode_speed$", _speed),
    (r"ttft_avg_static$", _whole_prefill),
    (r"ttft_mean$", _ttft_mean),
    (r"ttft(_median|_p50)?$", _ttft),
    (r"first_token_latency$", _prefill),
    (r"prefill_latency$", _whole_prefill),
    (r"output_throughput_static$", _static_throughput),
    (r"output_throughput_\w*at_once$", _burst_throughput),
    (r"output_throughput_\d+_prompts$", _burst_throughput),
    (r"output_throughput(_\w+)?$", _closed_throughput),
)
