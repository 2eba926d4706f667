"""Inputs of a check: one a Case, the call that shows it again, and the ones just smaller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grading.replay import Replay, Requests, replay
from minillm.core import Scheduler


@dataclass(frozen=True)
class Case:
    """One input of the check."""

    requests: Requests
    max_num_seqs: int
    max_num_batched_tokens: int = 512

    @property
    def size(self) -> tuple[int, int]:
        return len(self.requests), sum(prompt + output for _, prompt, output in self.requests)

    def run(self, scheduler: type[Scheduler] | str) -> Replay:
        return replay(scheduler, self.requests, self.max_num_seqs, self.max_num_batched_tokens)

    def to_plain(self) -> dict:
        return {
            "requests": [list(request) for request in self.requests],
            "max_num_seqs": self.max_num_seqs,
            "max_num_batched_tokens": self.max_num_batched_tokens,
        }

    @classmethod
    def from_plain(cls, data: dict) -> Case:
        """What to_plain made."""
        requests = tuple(tuple(request) for request in data["requests"])
        return cls(requests, data["max_num_seqs"], data["max_num_batched_tokens"])

    def call(self, name: str) -> str:
        requests = ", ".join(f"({t:g}, {prompt}, {output})" for t, prompt, output in self.requests)
        budget = self.max_num_batched_tokens
        return (
            f"replay({name}, [{requests}], max_num_seqs={self.max_num_seqs}"
            + (f", max_num_batched_tokens={budget}" if budget != 512 else "")
            + ")"
        )


def smaller(case: Case) -> Iterator[Case]:
    """Inputs with a request less, or with one of them shorter."""
    requests = list(case.requests)
    seqs, budget = case.max_num_seqs, case.max_num_batched_tokens
    for i in range(len(requests)):
        if len(requests) > 1:
            yield Case((*requests[:i], *requests[i + 1 :]), seqs, budget)
    for i, (arrival, prompt, output) in enumerate(requests):
        shorter = [(0.0, prompt, output)] if arrival and i == 0 else []
        shorter += [(arrival, p, output) for p in (1, prompt // 2) if 0 < p < prompt]
        shorter += [(arrival, prompt, o) for o in (1, output // 2, output - 1) if 0 < o < output]
        for request in shorter:
            yield Case((*requests[:i], request, *requests[i + 1 :]), seqs, budget)
