"""Replays: a recorded run through the engine again, and two real vLLM runs through the simulator.

`replay` feeds an engine the token ids and the times that a trace holds. If the engine then takes
the same decisions, the simulator's scheduler *is* the one that served: nothing is modelled twice.
`replay_measured` simulates the requests of a real run and compares the mean latencies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import fmean

from minillm.core import Arrival, EngineConfig, LLMEngine, QueueFullError, Runner, RunnerInfo
from minillm.core.batch import SchedulerOutput, StepResult
from minillm.core.metrics import RequestMetrics
from minillm.core.scheduler import Scheduler
from minillm.core.trace import RequestEvent, StepRecord, Trace
from minillm.sim.cluster_spec import ReplicaSpec
from minillm.sim.simulate import EngineOptions, run_cluster
from minillm.sim.traces import TraceRow, named_trace, trace_workload


class RecordedClock:
    """Stands at whatever time the recording says. `advance` is void: the recording knows."""

    virtual = True
    t0_unix: float | None = None

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        """The runner has set the time already, to the last bit."""


class ReplayRunner(Runner):
    """Answers each step with the token ids and the duration of the same step of a recorded run.

    Raises RuntimeError when the engine asks for a step that the recording does not have.
    """

    def __init__(self, trace: Trace) -> None:
        header = trace.header
        self.info = RunnerInfo(header.provenance, header.device, header.model, header.dtype)
        self.clock = RecordedClock()
        self._ids = trace.request_ids()
        self._steps = iter(trace.steps)

    def execute(self, output: SchedulerOutput) -> StepResult:
        step = next(self._steps, None)
        if step is None:
            raise RuntimeError(f"The recording has no step {output.step_id}.")
        self.clock.time = step.t_end
        tokens = {
            self._ids[row.req_idx]: row.token_id for row in step.rows if row.token_id is not None
        }
        duration = step.t_end - step.t_start
        return StepResult(tokens, duration, step.terms, graph_pad_rows=step.graph_pad_rows)


def replay(
    trace: Trace,
    arrivals: Mapping[str, Arrival],
    config: EngineConfig,
    scheduler: type[Scheduler] | None = None,
) -> LLMEngine:
    """Serve a recorded run's requests again, on its times; the engine, with a trace of its own.

    arrivals: the requests of the run by id (a trace does not keep prompts). What came from
    outside is taken from the trace in its order: arrivals, aborts, the time each step began.
    """
    runner = ReplayRunner(trace)
    engine = LLMEngine(config, runner, clock=runner.clock, scheduler=scheduler)
    to_come = sum(
        isinstance(record, RequestEvent) and record.event == "arrive" for record in trace.records
    )
    for record in trace.records:
        if isinstance(record, StepRecord):
            runner.clock.time = record.t_start
            engine.step()
            if engine.last_error is not None:
                raise RuntimeError(f"Step {record.step} went otherwise: {engine.last_error}")
        elif record.event == "arrive":
            runner.clock.time = max(runner.clock.time, record.t)
            _add(engine, arrivals[record.id], record.t)
            to_come -= 1
            if not to_come:
                engine.close_input()
        elif record.event == "abort":
            runner.clock.time = record.t
            engine.abort(record.id)
    return engine


def _add(engine: LLMEngine, arrival: Arrival, when: float) -> None:
    with suppress(ValueError, QueueFullError):  # it was refused then too, and the trace says so
        engine.add_request(
            arrival.request_id, arrival.prompt_token_ids, arrival.params, arrival_time=when,
            priority=arrival.priority, deadline=arrival.deadline,
            prompt_preview=arrival.prompt_preview,
        )  # fmt: skip


# ── two real runs of vLLM ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A real run whose requests' times are in the package. None: what fits, the preset's limit."""

    trace: str
    gpu: str
    max_num_seqs: int
    kv_tokens: int | None = None
    max_num_batched_tokens: int = 2048
    engine: str = "vLLM 0.19.0"


MEASURED_RUNS = {
    run.trace: run
    for run in (
        MeasuredRun("vllm019-rtx4090", "RTX4090", 256, kv_tokens=41_408),
        MeasuredRun("vllm019-rtxpro6000", "RTXPRO6000", 128),
    )
}


def replay_measured(name: str, preset: str = "vllm-v1") -> dict:
    """Simulate a real run's requests: means of TTFT, TPOT and E2E, measured and simulated.

    error: (simulated − measured) ÷ measured, in percent. ValueError for an unknown run.
    """
    if name not in MEASURED_RUNS:
        raise ValueError(
            f"Unknown measured run {name!r}: choose one of {', '.join(MEASURED_RUNS)}."
        )
    run = MEASURED_RUNS[name]
    rows = named_trace(name)
    options = EngineOptions(
        preset=preset, max_num_seqs=run.max_num_seqs,
        max_num_batched_tokens=run.max_num_batched_tokens,
        num_blocks=None if run.kv_tokens is None else run.kv_tokens // 16,
    )  # fmt: skip
    cluster, result, _ = run_cluster([ReplicaSpec(run.gpu)], trace_workload(rows), options)
    measured, simulated = _measured_means(rows), _simulated_means(result.requests)
    return {
        "run": name, "engine": run.engine, "gpu": run.gpu, "model": options.model,
        "preset": preset, "requests": len(rows),
        "completed": sum(request.completed for request in result.requests),
        "preemptions": sum(request.num_preemptions for request in result.requests),
        "kv_tokens": cluster.replicas[0].engine.config.cache.num_tokens,
        "metrics": {
            metric: {
                "measured_ms": measured[metric] * 1e3,
                "simulated_ms": simulated[metric] * 1e3,
                "error": 100 * (simulated[metric] / measured[metric] - 1),
            }
            for metric in ("ttft", "tpot", "e2e")
        },
    }  # fmt: skip


def _measured_means(rows: Sequence[TraceRow]) -> dict[str, float]:
    return {
        "ttft": fmean(row.measured_ttft_s for row in rows),
        "tpot": fmean(
            (row.measured_e2e_s - row.measured_ttft_s) / (row.output_len - 1)
            for row in rows
            if row.output_len > 1
        ),
        "e2e": fmean(row.measured_e2e_s for row in rows),
    }


def _simulated_means(requests: Sequence[RequestMetrics]) -> dict[str, float]:
    done = [request for request in requests if request.completed]
    return {
        "ttft": fmean(request.ttft for request in done),
        "tpot": fmean(request.tpot for request in done if request.tpot is not None),
        "e2e": fmean(request.e2e for request in done),
    }
