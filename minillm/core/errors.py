"""What can go wrong at the door or in a step, as types that callers can tell apart."""

from __future__ import annotations


class QueueFullError(RuntimeError):
    """The waiting queue is full: try again later (a server answers 503)."""


class SchedulerContractError(RuntimeError):
    """A scheduler's plan for a step broke a rule. That step's requests fail; the engine goes on.

    step: number of the step. request_id: whose row, None where no single request is meant.
    rule: the rule in words. expected, got: what the rule asks for and what the plan said.
    """

    def __init__(
        self, step: int, request_id: str | None, rule: str, expected: object, got: object
    ) -> None:
        self.step, self.request_id, self.rule = step, request_id, rule
        self.expected, self.got = expected, got
        where = f"Step {step}" + (f", request {request_id}" if request_id else "")
        super().__init__(f"{where}: {rule}. Expected {expected}, got {got}.")


class RunnerLostError(RuntimeError):
    """What the runner computes with is gone: no further step can run, here or later."""
