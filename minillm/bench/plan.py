"""What a benchmark will send: prompts, output lengths and times, all drawn before the run.

The lengths and shared prefixes are the simulator's workloads, the real prompts minillm's own. The
same seed gives the same plan on every machine; another seed (or another `first`) gives prompts
that share nothing with it, so that a server's prefix cache can't answer them from an earlier run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from minillm import data
from minillm.bench.prompts import segment_text
from minillm.bench.workload import output_lengths, read_prompts
from minillm.sim.traces import TraceRow, named_trace, parse_trace, trace_workload
from minillm.sim.workload import (
    OWN,
    Fixed,
    Lengths,
    Lognormal,
    SimRequest,
    check_rate,
    scale_rate,
    synthetic,
    with_tenants,
)

DATASETS = ("fixed", "lognormal", "prompts", "trace")
LONGEST = 1_000_000  # tokens; what a model can't hold its server refuses
SEED_SPAN = 1_000_000  # numbers of segments that one seed may use
SEEDS = 800


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request to send. time: seconds after the start. prompt: text, else from `source`."""

    index: int
    time: float
    output_len: int
    text: str | None = None
    source: SimRequest | None = None

    @property
    def prompt(self) -> str:
        if self.text is not None:
            return self.text
        return "".join(segment_text(segment) for segment in self.source.segments)

    @property
    def request_id(self) -> str:
        return f"r{self.index}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Which prompts and output lengths (tokens).

    dataset: fixed; lognormal (medians and sigma); prompts (64 real ones, outputs lognormal with
    median 24); trace (a recorded trace's lengths). tenants, prefix_len: each prompt stands behind
    one of so many shared prefixes. max_input_len, max_output_len: longer ones are cut.
    """

    dataset: str = "fixed"
    input_len: int = 128
    output_len: int = 64
    sigma: float = 0.8
    trace: str = "azure2023-conv"
    tenants: int = 0
    prefix_len: int = 0
    max_input_len: int | None = None
    max_output_len: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            names = ", ".join(DATASETS)
            raise ValueError(f"Unknown dataset {self.dataset!r}: choose one of {names}.")
        if bool(self.tenants) != bool(self.prefix_len):
            raise ValueError(
                f"Shared prefixes need both a number of tenants (got {self.tenants}) and a length "
                f"in tokens (got {self.prefix_len})."
            )

    @property
    def described(self) -> dict[str, Any]:
        """Its settings, None for those that don't count for this dataset."""
        settings = asdict(self)
        unused = {
            "fixed": ("sigma", "trace"), "lognormal": ("trace",),
            "trace": ("sigma", "input_len", "output_len"),
            "prompts": ("sigma", "trace", "input_len", "output_len"),
        }  # fmt: skip
        return {**settings, **dict.fromkeys(unused[self.dataset])}

    def plan(self, times: Sequence[float], first: int = 0) -> list[PlannedRequest]:
        """One request a time. first: number of the first one's prompt within this seed."""
        if self.dataset == "prompts":
            return self._real_prompts(times)
        requests = self._lengths(len(times))
        return plan_requests(self, requests, times, first)

    def _lengths(self, count: int) -> list[SimRequest]:
        if self.dataset == "trace":
            return trace_workload(
                read_trace(self.trace), rate=1.0, count=count, arrivals="constant"
            )
        lengths = (self.input_len, self.output_len)
        inputs, outputs = (self._distribution(length) for length in lengths)
        return synthetic(count, 1.0, self.seed, inputs=inputs, outputs=outputs)

    def _distribution(self, length: int) -> Lengths:
        if self.dataset == "fixed":
            return Fixed(length)
        return Lognormal(length, self.sigma, 1, LONGEST)

    def _real_prompts(self, times: Sequence[float]) -> list[PlannedRequest]:
        prompts = read_prompts()
        random.Random(f"{self.seed}/prompts").shuffle(prompts)
        lengths = output_lengths(len(times), self.seed)
        most = self.max_output_len or LONGEST
        return [
            PlannedRequest(i, when, min(length, most), prompts[i % len(prompts)])
            for i, (when, length) in enumerate(zip(times, lengths, strict=True))
        ]


def plan_requests(
    workload: Workload, requests: Sequence[SimRequest], times: Sequence[float], first: int = 0
) -> list[PlannedRequest]:
    """Simulated requests as a plan: cut to the longest lengths, prefixed, numbered by the seed."""
    if not 0 <= workload.seed < SEEDS:
        raise ValueError(f"The seed must lie in 0 … {SEEDS - 1}, got {workload.seed}.")
    if first + len(requests) > SEED_SPAN:
        raise ValueError(f"One seed has {SEED_SPAN} prompts, fewer than {first + len(requests)}.")
    offset = workload.seed * SEED_SPAN + first
    cut = [_cut(_renumber(request, offset), workload) for request in requests]
    if workload.tenants:
        cut = with_tenants(cut, workload.tenants, workload.prefix_len, workload.seed)
    return [
        PlannedRequest(i, when, request.output_len, source=request)
        for i, (when, request) in enumerate(zip(times, cut, strict=True))
    ]


def replay_plan(
    workload: Workload,
    *,
    count: int | None = None,
    rate_scale: float | None = None,
    rate: float | None = None,
) -> list[PlannedRequest]:
    """A recorded trace at its own times: gaps ÷ rate_scale, or all alike to a mean `rate`.

    The first request comes at 0. Raises ValueError for a trace that has no times.
    """
    rows = read_trace(workload.trace)
    if rows[0].arrival_s is None:
        raise ValueError(
            f"The trace {workload.trace} has lengths but no times: use it as "
            f"`run --dataset trace` with a rate."
        )
    requests = trace_workload(rows, count=min(count or len(rows), len(rows)))
    if rate is not None:
        requests = scale_rate(requests, rate)
    start, factor = requests[0].time, check_rate(1.0 if rate_scale is None else rate_scale)
    times = [(request.time - start) / factor for request in requests]
    return plan_requests(workload, requests, times)


def read_trace(name: str) -> list[TraceRow]:
    """A trace of the package by name, or a CSV file of the same columns."""
    if name not in data.trace_names() and Path(name).suffix == ".csv":
        with open(name, encoding="utf-8") as lines:
            return parse_trace(lines, name)
    return named_trace(name)


def _renumber(request: SimRequest, offset: int) -> SimRequest:
    """Own text gets a number of this seed; a trace's shared blocks stay what they are."""
    segments = tuple(
        segment._replace(number=segment.number + offset) if segment.kind == OWN else segment
        for segment in request.segments
    )
    return replace(request, segments=segments)


def _cut(request: SimRequest, workload: Workload) -> SimRequest:
    room = workload.max_input_len or LONGEST
    segments = []
    for segment in request.segments:
        if room > 0:
            segments.append(segment._replace(length=min(segment.length, room)))
        room -= segment.length
    most = workload.max_output_len or LONGEST
    return replace(request, segments=tuple(segments), output_len=min(request.output_len, most))
