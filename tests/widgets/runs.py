"""Runs for the widget tests: 14 requests under two policies, simulated by the real engine."""

from __future__ import annotations

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
    Trace,
    drive,
)
from minillm.sim.runner import SimulatedRunner

# (arrival in seconds, prompt tokens, output tokens)
FOURTEEN = [
    (0.0, 60, 22), (0.01, 50, 8), (0.025, 134, 84), (0.04, 50, 13), (0.07, 40, 9),
    (0.13, 92, 28), (0.16, 62, 11), (0.19, 180, 70), (0.24, 58, 9), (0.3, 60, 21),
    (0.35, 84, 15), (0.42, 260, 39), (0.48, 34, 12), (0.56, 36, 25),
]  # fmt: skip
PROMPTS = [
    "Name three rivers in Europe and the seas they reach.",
    "Why is the sky blue?",
    "Explain to a ten-year-old how a lock on a canal works.",
    "Draft a polite refusal to the supplier who wants to raise prices by a third.",
    "Translate: good morning, where is the station?",
]


def run(
    policy: str,
    requests=FOURTEEN,
    *,
    slots: int = 6,
    budget: int = 128,
    num_blocks: int = 1024,
    prefix_caching: bool = False,
    sharing: tuple[int, ...] | None = None,
    runner: SimulatedRunner | None = None,
) -> Trace:
    """The trace of one policy on these requests, all served.

    sharing: the requests whose prompts begin with the same 48 tokens; None: all begin alike.
    runner: None for the one of three constants.
    """
    config = EngineConfig(
        CacheConfig(num_blocks, 16, prefix_caching),
        SchedulerConfig(max_num_seqs=slots, max_num_batched_tokens=budget),
        policy,
    )
    engine = LLMEngine(config, runner or SimulatedRunner())
    arrivals = [
        Arrival(
            f"req-{i}",
            _prompt(i, prompt, sharing),
            SamplingParams(max_tokens=output, ignore_eos=True),
            time=time,
            prompt_preview=PROMPTS[i % len(PROMPTS)],
        )
        for i, (time, prompt, output) in enumerate(requests)
    ]
    for _ in drive(engine, arrivals):
        pass
    return engine.trace


def _prompt(index: int, length: int, sharing: tuple[int, ...] | None) -> tuple[int, ...]:
    if sharing is None:
        return tuple(range(3, 3 + length))
    common = list(range(3, 51)) if index in sharing and length > 48 else []
    own = 1000 + 400 * index
    return (*common, *range(own, own + length - len(common)))


def shared_run(num_blocks: int = 46) -> Trace:
    """Five of the fourteen share a prefix; in 46 blocks one request is preempted."""
    return run("continuous", num_blocks=num_blocks, prefix_caching=True, sharing=(2, 5, 7, 9, 11))
