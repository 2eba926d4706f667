"""The contract that the real and the simulated device fulfil alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from minillm.core.batch import SchedulerOutput, StepResult


@dataclass(frozen=True, slots=True)
class RunnerInfo:
    """Where the figures of a run come from. provenance: measured, simulated or published."""

    provenance: str
    device: str
    model: str
    dtype: str


class Runner(ABC):
    """Computes steps. It keeps KV by block id and knows nothing of queues or policies."""

    info: RunnerInfo

    @abstractmethod
    def execute(self, output: SchedulerOutput) -> StepResult:
        """Compute every row (padding too) and return a token id for each row that samples."""

    def close(self) -> None:  # noqa: B027 (most runners hold nothing)
        """Give back what the runner holds (memory, processes). Safe to call twice."""
