"""What a session runs, one engine after the other, and which sessions there are.

Sessions are remembered weakly, for two ends: a cell that is run again takes the model over from
the run before, and no thread outlives the kernel.
"""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from minillm.core import Arrival, LLMEngine, RunnerInfo, SamplingParams, Scheduler, Trace, drive

if TYPE_CHECKING:
    from minillm.llm import LLM

EXIT_LIMIT_S = 1.0

Policy = str | type[Scheduler]  # a name, or a student's class


class Session(Protocol):
    """What legs know of a session (widgets.session.EngineSession): its engines, and how it ends."""

    @property
    def engines(self) -> list[LLMEngine]: ...

    def stop(self) -> None: ...

    def join(self, timeout_s: float = ...) -> bool: ...


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@dataclass(slots=True)
class Leg:
    """One part of a run: an engine (or how to make it, on the driver), its arrivals, its lane.

    trace: this leg's own, from when it has begun.
    """

    engine: LLMEngine | Callable[[], LLMEngine]
    arrivals: tuple[Arrival, ...] = ()
    lane: int = 0
    trace: Trace | None = None

    def begin(self) -> None:
        """Give the engine a new trace: a view shows one run, not all there ever were."""
        scheduler = self.engine.scheduler
        header = replace(
            self.engine.trace.header,
            policy=policy_name(self.engine),
            config=asdict(scheduler.config),
        )
        self.trace = self.engine.trace = Trace(header)


def name_of(policy: Policy) -> str:
    """A policy's name: itself, or the name of the student's class."""
    return policy if isinstance(policy, str) else policy.__name__


def policy_name(engine: LLMEngine) -> str:
    """static, dynamic, continuous, or the name of the student's class."""
    scheduler = engine.scheduler
    return type(scheduler).__name__ if scheduler.name == "custom" else scheduler.name


def remember(session: Session) -> None:
    """Know this session as long as somebody uses it."""
    _sessions.add(session)


def stop_others(session: Session, info: RunnerInfo, limit_s: float) -> None:
    """End other sessions on the same model: a cell that is run again takes it over."""
    if info.provenance == "simulated":  # nothing is shared there
        return
    for other in list(_sessions):
        if other is not session and any(one.runner.info is info for one in other.engines):
            other.stop()
            other.join(limit_s)


def warm_up(llm: LLM, prompt: Sequence[int]) -> None:
    """Have the model compute a little, so that the first run is no slower than the next ones."""
    params = SamplingParams(max_tokens=4, ignore_eos=True)
    arrivals = [Arrival(f"warm-up-{i}", tuple(prompt), params) for i in range(2)]
    for _ in drive(llm.new_engine("continuous"), arrivals, time.sleep):
        pass


@atexit.register
def _stop_all() -> None:
    for session in list(_sessions):
        session.stop()
        session.join(EXIT_LIMIT_S)
