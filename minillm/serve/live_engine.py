"""An engine as a server needs it: on the wall clock or paced by it; its trace is passed on."""

from __future__ import annotations

from typing import Any

from minillm.core import LLMEngine, StaticScheduler
from minillm.core.trace import Record, Trace
from minillm.llm import LLM
from minillm.serve.paced_clock import PacedClock, PacedRunner

STATIC_MAX_WAIT_S = 1.0  # a server can't know that no more requests will come


class LiveTrace(Trace):
    """A trace that keeps nothing: each step's records are taken out by the engine thread."""

    def add(self, record: Record) -> None:
        self.records.append(record)

    def take(self) -> list[Record]:
        records, self.records = self.records, []
        return records


def serving_engine(llm: LLM, policy: Any = None, **settings: Any) -> LLMEngine:
    """An engine for a server: as llm.new_engine, on the wall clock or paced by it.

    Raises ValueError, in one sentence, for settings that can't be.
    """
    engine = llm.new_engine(policy, **settings)
    if isinstance(engine.scheduler, StaticScheduler) and engine.scheduler.config.max_wait_s is None:
        engine = llm.new_engine(policy, **{**settings, "max_wait_s": STATIC_MAX_WAIT_S})
    if engine.clock.virtual:
        clock = PacedClock()
        runner = PacedRunner(engine.runner, clock)
        engine = LLMEngine(engine.config, runner, clock=clock, scheduler=type(engine.scheduler))
    engine.trace = LiveTrace(engine.trace.header)
    return engine
