"""One workload under several policies: the same requests, the same weights, one after another.

Each policy starts from an empty KV cache on the same runner, right after the same warm-up, so
that none profits from its place in the order. All outputs must be the same: batching changes when
a token comes, never which one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from minillm.core import (
    Arrival,
    FinishReason,
    LLMEngine,
    SamplingParams,
    Summary,
    Trace,
    drive,
    summarize,
)
from minillm.llm import LLM

NEAR_TIE = 1e-4  # a top-2 logit gap up to this is float noise: either token is right
WARM_UP_TOKENS = 8

Progress = Callable[[str, LLMEngine, int], None]  # (policy, engine, requests done), each step


@dataclass(frozen=True, slots=True)
class PolicyRun:
    """What one policy did: its trace, its figures, each request's output ids."""

    policy: str
    trace: Trace
    summary: Summary
    outputs: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a request's outputs under two policies part. gap: between the two likeliest logits."""

    request_id: str
    policies: tuple[str, str]
    position: int
    gap: float | None

    @property
    def near_tie(self) -> bool:
        return self.gap is not None and self.gap <= NEAR_TIE


def run_policy(
    llm: LLM, policy: str, arrivals: Sequence[Arrival], progress: Progress | None = None
) -> PolicyRun:
    """Serve all arrivals under one policy. Raises ValueError if a request fails."""
    engine = llm.new_engine(policy)
    outputs: dict[str, list[int]] = {arrival.request_id: [] for arrival in arrivals}
    done = 0
    for step in drive(engine, arrivals, time.sleep):
        for output in step:
            if output.finish_reason is FinishReason.ERROR:
                raise ValueError(f"{output.request_id} under {policy}: {output.error}")
            outputs[output.request_id].extend(output.new_token_ids)
            done += output.finished
        if progress is not None:
            progress(policy, engine, done)
    ids = {request_id: tuple(tokens) for request_id, tokens in outputs.items()}
    return PolicyRun(policy, engine.trace, summarize(engine.trace), ids)


def compare_policies(
    llm: LLM,
    policies: Sequence[str],
    arrivals: Sequence[Arrival],
    progress: Progress | None = None,
    rounds: int = 1,
    warm_up: bool = True,
) -> list[PolicyRun]:
    """Run the policies in the order given, in every second round in reverse.

    Returns each policy's run of median makespan, in the order given.
    """
    runs: dict[str, list[PolicyRun]] = {policy: [] for policy in policies}
    for number in range(rounds):
        for policy in policies if number % 2 == 0 else reversed(policies):
            if warm_up and llm.info.provenance == "measured":
                run_policy(llm, policy, _short(arrivals))
            runs[policy].append(run_policy(llm, policy, arrivals, progress))
    return [_median(runs[policy]) for policy in policies]


def _median(runs: list[PolicyRun]) -> PolicyRun:
    return sorted(runs, key=lambda run: run.summary.makespan_s)[len(runs) // 2]


def find_differences(
    llm: LLM, runs: Sequence[PolicyRun], arrivals: Sequence[Arrival]
) -> list[Difference]:
    """The requests whose outputs differ from those of the first run, where they first do.

    The gap is computed with this llm: prompt and common tokens once more, on their own.
    """
    prompts = {arrival.request_id: arrival.prompt_token_ids for arrival in arrivals}
    differences = []
    for run in runs[1:]:
        for request_id, expected in runs[0].outputs.items():
            got = run.outputs[request_id]
            if got == expected:
                continue
            pairs = enumerate(zip_longest(expected, got))
            position = next(i for i, (a, b) in pairs if a != b)
            context = [*prompts[request_id], *expected[:position]]
            names = (runs[0].policy, run.policy)
            gap = _top2_gap(llm, context)
            differences.append(Difference(request_id, names, position, gap))
    return differences


def _top2_gap(llm: LLM, context: list[int]) -> float | None:
    """The gap between the two likeliest next tokens; None where the runner gives no logprobs."""
    params = SamplingParams(max_tokens=1, logprobs=2, ignore_eos=True)
    steps = llm.generate([context], params)[0].logprobs
    if not steps:
        return None
    first, second = sorted(steps[0].values(), reverse=True)[:2]
    return first - second


def _short(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """The warm-up: the same prompts at once, a few tokens each."""
    return [
        replace(a, time=0.0, params=replace(a.params, max_tokens=WARM_UP_TOKENS))
        for a in arrivals
    ]
