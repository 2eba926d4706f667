"""The claims that need an engine run: static batching, the dynamic window, means over stalls."""

from __future__ import annotations

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    drive,
)
from minillm.core.trace import DEAD
from minillm.sim import CostModel, SimulatedRunner

OUTSIDE = "outside the model"


def judge(*facts: bool) -> str:
    """The verdict on a claim from the facts that it states."""
    if all(facts):
        return "holds"
    return "in part" if any(facts) else "does not hold"


def _engine(policy: str, limits: SchedulerConfig, cost: CostModel | None = None) -> LLMEngine:
    config = EngineConfig(CacheConfig(4000), limits, policy)
    return LLMEngine(config, SimulatedRunner(cost))


def static_waste() -> tuple[str, str, str]:
    engine = _engine("static", SchedulerConfig(max_num_seqs=4))
    lengths = (100, 50, 150, 30)
    arrivals = [
        Arrival(f"r{i}", (i + 1,) * 16, SamplingParams(max_tokens=n, ignore_eos=True))
        for i, n in enumerate(lengths)
    ]
    for _ in drive(engine, arrivals):
        pass
    rows = [row for step in engine.trace.steps for row in step.rows]
    dead = sum(row.kind == DEAD for row in rows)
    return (
        "A static batch of outputs 100/50/150/30: all wait for 150, the padding is wasted",
        judge(len(rows) == 150 * 4, dead == sum(150 - n for n in lengths)),
        (
            f"the engine computed {dead} dead of {len(rows)} rows: {100 * dead / len(rows):.0f} %. "
            "Padding of prompts is another waste"
        ),
    )


def window() -> tuple[str, str, str]:
    limits = SchedulerConfig(max_num_seqs=8, max_queue_delay_s=0.05)
    engine = _engine("dynamic", limits, CostModel(1e-4, 0.0, 0.0))
    once = SamplingParams(max_tokens=1, ignore_eos=True)
    times = {"A": 0.0, "B": 0.015, "C": 0.035, "D": 0.051, "E": 0.070}
    for _ in drive(engine, [Arrival(name, (5,), once, when) for name, when in times.items()]):
        pass
    names = list(times)
    batches = [
        f"{''.join(names[row.req_idx] for row in step.rows)} at {1e3 * step.t_start:.0f} ms"
        for step in engine.trace.steps
    ]
    return (
        "A dynamic window of 50 ms: A at 0, B 15, C 35 go at 50; D 51, E 70 go …",
        judge(batches[0] == "ABC at 50 ms", batches[1:] == ["DE at 101 ms"]),
        f"{', '.join(batches)}. In front of a continuous engine a window only adds to the TTFT",
    )


def means() -> tuple[str, str, str]:
    limits = SchedulerConfig(max_num_seqs=33, max_num_batched_tokens=8192 + 64)
    config = EngineConfig(CacheConfig(4000), limits)
    engine = LLMEngine(config, SimulatedRunner.for_gpu("A100-80GB-SXM"))
    arrivals = [
        Arrival(f"u{i}", (i + 1,) * 512, SamplingParams(max_tokens=200, ignore_eos=True))
        for i in range(32)
    ]
    arrivals.append(Arrival("long", tuple(range(100, 8000)), SamplingParams(max_tokens=1), 4.0))
    for _ in drive(engine, arrivals):
        pass
    gaps = sorted(
        1e3 * (step.t_end - step.t_start)
        for step in engine.trace.steps
        if any(row.req_idx == 0 and row.start >= 512 for row in step.rows)
    )
    mean = sum(gaps) / len(gaps)
    return (
        "TTFT < 500 ms, ITL < 50 ms … as means",
        judge(mean < 50, gaps[-1] < 50),
        (
            f"one long prompt among 32 users: their mean ITL is {mean:.0f} ms, the median "
            f"{gaps[len(gaps) // 2]:.0f}, the longest {gaps[-1]:.0f}: look at p99 and the maximum"
        ),
    )
