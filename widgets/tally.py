"""A run's figures while it runs: kept up step by step, so that a live view never reads it all."""

from __future__ import annotations

from minillm.core.trace import DEAD, StepRecord


class RunningFigures:
    """A run's figures so far, kept up step by step; definitions as in minillm.core.metrics."""

    def __init__(self) -> None:
        self.output_tokens = self.steps = self.rows = self.dead_rows = 0
        self.first_arrival: float | None = None
        self.last_end = self.last_event = 0.0

    def add_step(self, record: StepRecord) -> None:
        self.steps += 1
        self.last_end = max(self.last_end, record.t_end)
        for row in record.rows:
            self.rows += 1
            self.dead_rows += row.kind == DEAD
            self.output_tokens += row.token_id is not None
        if self.first_arrival is None:
            self.first_arrival = record.t_start

    def add_event(self, t: float) -> None:
        self.last_event = max(self.last_event, t)

    def add_arrival(self, t: float) -> None:
        if self.first_arrival is None or t < self.first_arrival:
            self.first_arrival = t

    @property
    def now(self) -> float:
        """The last time that a record tells of."""
        return max(self.last_end, self.last_event)

    def as_dict(self) -> dict:
        """tok_s and the rest; None where nothing was computed yet."""
        elapsed = self.last_end - (self.first_arrival or 0.0) if self.steps else 0.0
        return {
            "tok_s": self.output_tokens / elapsed if elapsed > 0 else None,
            "elapsed_s": elapsed if self.steps else None,
            "row_padding_fraction": self.dead_rows / self.rows if self.rows else None,
            "useful_rows": (self.rows - self.dead_rows) / self.steps if self.steps else None,
            "steps": self.steps,
            "output_tokens": self.output_tokens,
        }
