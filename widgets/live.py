"""Drives an engine live: arrivals in their time, commands from outside, paced, stoppable.

`serve` is the one loop that touches the engine. Buttons, cells and other threads only set flags
and enqueue commands in a `Control`; the loop takes them up between two steps. It is a job for
`widgets.background`: it yields naps and holds no lock while it computes.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from minillm.core import Arrival, LLMEngine, QueueFullError, RequestOutput
from widgets.endless import EndlessLoopError

IDLE_NAP_S = 0.05  # how soon a new request is noticed where a wake-up got lost
BEHIND_S = 0.25  # a simulation further behind its pace than this starts counting anew
MIN_PACE, MAX_PACE = 0.01, 1000.0
MAX_ERRORS = 20  # kept of one run; a broken scheduler may raise at every step

Command = Callable[[LLMEngine], object]


class Control:
    """What others may say to the loop. Every method may be called from any thread.

    keep_open: go on waiting for requests when all arrivals are served, until `stop`.
    pace: simulated seconds per second of wall time (0.1 to 1000); None as fast as it goes.
    """

    def __init__(self, *, keep_open: bool = False, pace: float | None = None) -> None:
        self.keep_open = keep_open
        self.stopping = threading.Event()
        self.errors: list[Exception] = []  # what schedule() or the runner did wrong, by step
        self.num_errors = 0
        self.refused: list[str] = []
        self.on_output: Callable[[RequestOutput], None] | None = None
        self.in_step_since: float | None = None  # perf_counter; None between steps
        self._commands: deque[Command] = deque()
        self.pace = pace

    @property
    def pace(self) -> float | None:
        return self._pace

    @pace.setter
    def pace(self, pace: float | None) -> None:
        if pace is not None and not MIN_PACE <= pace <= MAX_PACE:
            raise ValueError(f"pace must lie between {MIN_PACE} and {MAX_PACE:g}, got {pace!r}.")
        self._pace = pace

    def tell(self, command: Command) -> None:
        """Have the loop call `command(engine)` before its next step."""
        self._commands.append(command)

    def run_commands(self, engine: LLMEngine) -> None:
        while self._commands:
            command = self._commands.popleft()
            self.attempt(functools.partial(command, engine))

    def attempt(self, action: Callable[[], object]) -> None:
        """Do something that the engine may refuse; the reason is kept for the report."""
        try:
            action()
        except (ValueError, QueueFullError) as error:
            self.refused.append(str(error))


class Pacer:
    """How far a virtual clock runs ahead of its pace."""

    def __init__(self, control: Control, engine: LLMEngine) -> None:
        self.control, self.clock = control, engine.clock
        self._anchor(None)

    def _anchor(self, pace: float | None) -> None:
        self.pace, self.wall, self.virtual = pace, time.perf_counter(), self.clock.now()

    def now(self) -> float:
        """The virtual time that the pace has reached."""
        return self.virtual + (time.perf_counter() - self.wall) * self.pace

    def ahead(self) -> float:
        """Seconds of wall time to wait until the pace has caught up; 0 where there is none."""
        if not self.clock.virtual or self.control.pace is None:
            return 0.0
        if self.control.pace != self.pace:
            self._anchor(self.control.pace)
        ahead = (self.clock.now() - self.now()) / self.pace
        if ahead < -BEHIND_S:
            self._anchor(self.pace)
        return max(ahead, 0.0)


def own_pace(engine: LLMEngine) -> float | None:
    """The pace of a recorded machine (minillm.bench.recorded_machine), None for all others."""
    return getattr(engine.runner, "pace", None)


def serve(engine: LLMEngine, arrivals: Iterable[Arrival], control: Control) -> Iterator[float]:
    """Serve the arrivals (their times count from now) until all are done or `stopping` is set.

    Yields naps. Whatever is left when it ends, stopped or closed, is aborted: the engine is
    free again, its blocks are back, and it can be driven anew.
    """
    pending = deque(sorted(arrivals, key=lambda arrival: arrival.time))
    start, clock = engine.clock.now(), engine.clock
    if control.pace is None:
        control.pace = own_pace(engine)
    engine.scheduler.input_closed = False
    pacer = Pacer(control, engine)
    try:
        while not control.stopping.is_set():
            control.run_commands(engine)
            if (nap := pacer.ahead()) > 0:
                yield nap
                continue
            while pending and start + pending[0].time <= clock.now():
                _add(engine, pending.popleft(), start, control)
            if not pending and not control.keep_open:
                engine.close_input()
            if engine.has_unfinished:
                _step(engine, control)
                if not engine.idle:
                    yield 0.0
                    continue
            times = [start + pending[0].time] if pending else []
            if engine.has_unfinished and (wakeup := engine.next_wakeup()) is not None:
                times.append(wakeup)
            if not times and not engine.has_unfinished and not control.keep_open:
                return
            yield from _wait(engine, min(times, default=None), pacer)
    finally:
        for request_id in list(engine.requests):
            engine.abort(request_id)


def _wait(engine: LLMEngine, until: float | None, pacer: Pacer) -> Iterator[float]:
    """Let time pass until `until` (None: until something is said), a short nap at a time."""
    clock = engine.clock
    if not clock.virtual:
        yield IDLE_NAP_S if until is None else min(max(until - clock.now(), 0.0), IDLE_NAP_S)
    elif until is not None and pacer.control.pace is None:
        clock.advance_to(until)
        yield 0.0
    else:
        pace = pacer.control.pace
        soon = until is not None and pace is not None
        yield min((until - clock.now()) / pace, IDLE_NAP_S) if soon else IDLE_NAP_S
        if pacer.control.pace is not None and pacer.ahead() == 0.0:
            reached = pacer.now()
            clock.advance_to(reached if until is None else min(reached, until))


def _step(engine: LLMEngine, control: Control) -> None:
    before = engine.last_error
    control.in_step_since = time.perf_counter()
    try:
        outputs = engine.step()
    finally:
        control.in_step_since = None
    if engine.last_error is not before and engine.last_error is not None:
        control.num_errors += 1
        if len(control.errors) < MAX_ERRORS:
            control.errors.append(engine.last_error)
        if isinstance(engine.last_error.__cause__, EndlessLoopError):
            control.stopping.set()  # the next step would take as long
    if control.on_output is not None:
        for output in outputs:
            control.on_output(output)


def _add(engine: LLMEngine, arrival: Arrival, start: float, control: Control) -> None:
    deadline = None if arrival.deadline is None else start + arrival.deadline
    add = functools.partial(
        engine.add_request, arrival.request_id, arrival.prompt_token_ids, arrival.params,
        arrival_time=start + arrival.time, priority=arrival.priority, deadline=deadline,
        prompt_preview=arrival.prompt_preview,
    )  # fmt: skip
    control.attempt(add)
