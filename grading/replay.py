"""Replays a scheduler on the simulated runner and virtual time: what the checks look at.

A request is (arrival in s, prompt tokens, output tokens); the requests are called A, B, C … in
the order given. Blocks are plentiful, so that only slots and the token budget limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from minillm.core import (
    Arrival,
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    Scheduler,
    SchedulerConfig,
    Trace,
    drive,
)
from minillm.core.errors import SchedulerContractError
from minillm.core.trace import DEAD, PREFILL, letter
from minillm.sim import SimulatedRunner

Requests = Sequence[tuple[float, int, int]]
BLOCK_SIZE = 16
SHOWN_STEPS = 48  # in a text diagram


@dataclass
class Replay:
    """One scheduler on one input. failed: request → message. gave_up: it made no progress."""

    requests: Requests
    max_num_seqs: int
    max_num_batched_tokens: int
    trace: Trace
    error: Exception | None = None
    failed: dict[str, str] = field(default_factory=dict)
    gave_up: bool = False

    @property
    def letters(self) -> list[str]:
        return [letter(i) for i in range(len(self.requests))]

    @property
    def outputs(self) -> dict[str, list[int]]:
        """Token ids by request, in order."""
        tokens: dict[str, list[int]] = {name: [] for name in self.letters}
        for step in self.trace.steps:
            for row in step.rows:
                if row.token_id is not None:
                    tokens[letter(row.req_idx)].append(row.token_id)
        return tokens

    @property
    def admitted(self) -> list[str]:
        """Requests in the order in which they were let in, each once."""
        order = [event.id for event in self.trace.events if event.event == "admit"]
        return list(dict.fromkeys(order))

    @property
    def makespan(self) -> float:
        """Seconds (simulated) from the first arrival to the last token."""
        first = min((arrival for arrival, _, _ in self.requests), default=0.0)
        return self.trace.steps[-1].t_end - first if self.trace.steps else 0.0

    def to_plain(self) -> dict:
        """The run as JSON data: what leaves the process in which a student's scheduler ran."""
        error = self.error
        rule = vars(error) if isinstance(error, SchedulerContractError) else None
        return {
            "requests": [list(request) for request in self.requests],
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
            "trace": list(self.trace.to_jsonl()),
            "error": None if error is None else str(error),
            "rule": rule and {**rule, "expected": str(error.expected), "got": str(error.got)},
            "failed": self.failed,
            "gave_up": self.gave_up,
        }

    @classmethod
    def from_plain(cls, data: dict) -> Replay:
        """What to_plain made."""
        error = None
        if data["rule"] is not None:
            error = SchedulerContractError(**data["rule"])
        elif data["error"] is not None:
            error = RuntimeError(data["error"])
        requests = tuple(tuple(request) for request in data["requests"])
        trace = Trace.from_jsonl(data["trace"])
        limits = data["max_num_seqs"], data["max_num_batched_tokens"]
        return cls(requests, *limits, trace, error, data["failed"], data["gave_up"])

    def __repr__(self) -> str:
        head = f"{len(self.trace.steps)} steps, {self.makespan * 1e3:.1f} ms (simulated)"
        legend = "p reads its prompt, d one more token, x finished but carried, · queued"
        lines = [head, *self.diagram(), legend]
        if self.gave_up:
            lines.append("Given up: it made no progress any more.")
        return "\n".join(lines + ([str(self.error)] if self.error else []))

    def diagram(self) -> list[str]:
        """A line a request, a character a step."""
        steps = self.trace.steps[:SHOWN_STEPS]
        more = " …" if len(self.trace.steps) > SHOWN_STEPS else ""
        lines = []
        for index, name in enumerate(self.letters):
            cells = "".join(mark(self, index, position) for position in range(len(steps)))
            lines.append(f"{name:>2} {cells.rstrip()}{more}")
        return lines


def mark(run: Replay, index: int, position: int) -> str:
    """What a request does in a step: p, d, x, "·" while it waits, a blank before and after."""
    step = run.trace.steps[position]
    for row in step.rows:
        if row.req_idx == index:
            return "x" if row.kind == DEAD else "p" if row.kind == PREFILL else "d"
    later = any(row.req_idx == index for after in run.trace.steps[position:] for row in after.rows)
    unserved = letter(index) not in run.admitted
    arrived = run.requests[index][0] <= step.t_start
    return "·" if arrived and (later or unserved) else " "


def replay(
    scheduler: type[Scheduler] | str,
    requests: Requests,
    max_num_seqs: int = 3,
    max_num_batched_tokens: int = 512,
) -> Replay:
    """Run these requests under a scheduler (a class, or a policy's name) and keep the trace.

    Raises ValueError for requests that make no sense; what the scheduler does wrong is kept.
    """
    for arrival, prompt, output in requests:
        if not (arrival >= 0 and prompt >= 1 and output >= 1):
            raise ValueError(
                "A request is (arrival ≥ 0 s, prompt ≥ 1 tokens, output ≥ 1 tokens), "
                f"got {(arrival, prompt, output)!r}."
            )
    tokens = sum(prompt + output for _, prompt, output in requests)
    named = scheduler if isinstance(scheduler, str) else "continuous"
    custom = None if isinstance(scheduler, str) else scheduler
    config = EngineConfig(
        CacheConfig(tokens // BLOCK_SIZE + len(requests) + 1, BLOCK_SIZE, False),
        SchedulerConfig(max_num_seqs, max_num_batched_tokens),
        policy=named,
    )
    engine = LLMEngine(config, SimulatedRunner(), scheduler=custom)
    run = Replay(tuple(requests), max_num_seqs, max_num_batched_tokens, engine.trace)
    arrivals = [
        Arrival(
            letter(i), tuple(_prompt(i, prompt)), SamplingParams(output, ignore_eos=True), arrival
        )
        for i, (arrival, prompt, output) in enumerate(requests)
    ]
    # Every token alone in a step, and as many idle looks again: no sane scheduler needs more.
    patience = 2 * tokens + 50
    for outputs in drive(engine, arrivals):
        for output in outputs:
            if output.error is not None:
                run.failed[output.request_id] = output.error
        patience -= 1
        if patience < 0:
            run.gave_up = True
            break
    run.error = engine.last_error
    return run


def _prompt(index: int, length: int) -> list[int]:
    """Token ids that differ from request to request, so that a mix-up shows in the output."""
    return [3 + (index * 7919 + position * 104729) % 30_000 for position in range(length)]


def computed_positions(run: Replay) -> dict[str, list[tuple[int, int]]]:
    """For each request the spans of tokens it computed, (start, end), in order of time."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in run.letters}
    for step in run.trace.steps:
        for row in step.rows:
            if row.kind != DEAD:
                spans[letter(row.req_idx)].append((row.start, row.start + row.n_tokens))
    return spans


def is_seamless(spans: list[tuple[int, int]], end: int) -> bool:
    """Whether the spans cover 0…end once, in order, without gap or repeat."""
    joined = all(before[1] == after[0] for before, after in pairwise(spans))
    return bool(spans) and joined and spans[0][0] == 0 and spans[-1][1] == end
