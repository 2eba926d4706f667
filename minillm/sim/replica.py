"""One replica of a simulated cluster: an engine, and what is in flight on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minillm.core import LLMEngine, Request, RequestOutput
from minillm.core.metrics import Tally
from minillm.sim.workload import SimRequest


@dataclass(slots=True, eq=False)
class Sent:
    """One attempt at a request, and where it went."""

    request: SimRequest
    replica: Replica
    engine: LLMEngine
    served: Request | None = None  # as its engine knows it, from the queue on

    @property
    def num_output(self) -> int:
        return self.served.num_output_tokens if self.served else 0


class Replica:
    """One engine at a time; after a failure a new one. `engines`: all of them, and their sums."""

    def __init__(self, index: int, make_engine: Callable[[], LLMEngine]) -> None:
        self.index = index
        self.make_engine = make_engine
        self.engine = make_engine()
        self.engines = {self.engine: Tally()}
        self.up = True
        self.sent: dict[str, Sent] = {}  # in flight
        self.fresh: set[str] = set()  # of those, the ones without a token yet
        self.outputs: list[RequestOutput] = []  # of the step under way
        self.busy = False  # a step is under way or about to begin
        self.turn = 0  # number of the STEP event that counts; older ones are void

    def restart(self, now: float) -> None:
        """Begin anew with an empty engine."""
        self.up = True
        self.engine = self.make_engine()
        self.engine.clock.advance_to(now)
        self.engines[self.engine] = Tally()
