"""Several engines on one runner, one after the other: whose KV is in the memory now?

A runner's KV memory belongs to one engine at a time. Another engine's first step takes it over:
an idle owner only forgets its prefix cache; one that still runs requests is retired for good,
unless it is the newer of the two. So a notebook can make engine after engine on one loaded model,
and no engine ever reads KV that another has overwritten.
"""

from __future__ import annotations

import threading
import weakref

from minillm.core import EngineConfig, LLMEngine, Runner, Scheduler, SchedulerOutput, StepResult


class SharedRunner:
    """Makes engines on one runner and keeps track of who owns its KV memory."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._owner: Turn | None = None
        self._num_engines = 0
        self._lock = threading.Lock()  # engines may be driven by different threads

    def new_engine(
        self, config: EngineConfig, scheduler: type[Scheduler] | None = None
    ) -> LLMEngine:
        turn = Turn(self, self._num_engines)
        self._num_engines += 1
        engine = LLMEngine(config, turn, scheduler=scheduler)
        turn.engine = weakref.ref(engine)
        return engine

    def execute(self, turn: Turn, output: SchedulerOutput) -> StepResult:
        """Compute a step for that engine; RuntimeError where the KV memory can't be its."""
        with self._lock:
            if turn is not self._owner:
                self._hand_over(turn)
            return self.runner.execute(output)

    def _hand_over(self, turn: Turn) -> None:
        if turn.retired:
            raise RuntimeError(
                "A newer engine took the model's KV cache while this one was running requests; "
                "make a new engine."
            )
        owner = self._owner
        engine = owner.engine() if owner else None
        if engine is not None and engine.kv.num_used_blocks:
            if owner.number > turn.number:
                raise RuntimeError(
                    f"A newer engine of this model has {len(engine.requests)} unfinished "
                    "requests; finish or stop them first, or make a new engine."
                )
            owner.retired = True
        elif engine is not None:
            engine.kv.reset_prefix_cache()
        self._owner = turn


class Turn(Runner):
    """The runner as one engine sees it."""

    def __init__(self, shared: SharedRunner, number: int) -> None:
        self.info = shared.runner.info
        self.number = number
        self.engine: weakref.ref[LLMEngine] = lambda: None
        self.retired = False
        self._shared = shared

    def execute(self, output: SchedulerOutput) -> StepResult:
        return self._shared.execute(self, output)
