"""EngineSession: an engine that runs beside the notebook's cells, and the views that follow it.

    session = EngineSession(engine).watch(timeline)
    session.start(arrivals)            # returns at once
    session.stop()                     # ends within a step (< 1 s); cells, buttons, any thread
    report = await session.finished()  # in a later cell: the figures, and what went wrong
    session.close()                    # stop and join; `with EngineSession(engine) as session:`

One driver owns the engine; one publisher reads its trace some times a second and feeds the views.
Both are threads where threads exist, else asyncio tasks (widgets.background). Everything else
only sets flags and enqueues commands. Errors of the engine do not end the run: they are in the
report, and `finished()` shows them once.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

from minillm.core import (
    Arrival,
    LLMEngine,
    RequestOutput,
    SamplingParams,
    Scheduler,
    SchedulerConfig,
)
from widgets import legs, patience
from widgets.background import Background
from widgets.legs import Leg
from widgets.live import Control, serve
from widgets.report import RunReport, show_errors
from widgets.views import View, Views

PUBLISH_HZ, TASK_HZ = 15, 40  # as a task the page is beside the kernel: no network between them
HEARTBEAT_S = 1.0  # a view that hears nothing for 5 s says that it is stale
STOP_LIMIT_S = 10.0  # close() waits this long for the step in hand


class EngineSession:
    """See the module's docstring. `encode`: prompt → token ids, for `submit` with text.

    threads: None chooses by capability. publish_hz: None is 15, or 40 for tasks.
    on_output: called by the driver with each RequestOutput.
    """

    def __init__(
        self,
        engine: LLMEngine | None,
        *,
        encode: Callable[[str], list[int]] | None = None,
        threads: bool | None = None,
        publish_hz: float | None = None,
        on_output: Callable[[RequestOutput], None] | None = None,
    ) -> None:
        if publish_hz is not None and not 1 <= publish_hz <= 60:
            raise ValueError(f"publish_hz must lie between 1 and 60, got {publish_hz!r}.")
        self.engine = engine
        self.encode = encode
        self.on_output = on_output
        self.on_start: list[Callable[[], None]] = []  # called by whoever starts a run
        self.on_end: list[Callable[[RunReport], None]] = []  # called by the publisher, at the end
        self._views = Views()
        self._background = Background(threads=threads)
        self.publish_hz = publish_hz or (PUBLISH_HZ if self._background.threads else TASK_HZ)
        self._guard = threading.RLock()  # start, stop and close may come from any thread
        self._control: Control | None = None
        self._legs: list[Leg] = []
        self._driving = False
        self._shown = False
        self._ids = itertools.count(1)
        self._closed = False
        legs.remember(self)

    # ── views ───────────────────────────────────────────────────────────────────────────────

    def watch(self, view: View, lane: int = 0) -> EngineSession:
        """Feed this view (widgets.timeline.Timeline or alike) while running; returns self."""
        self._views.add(view, lane)
        return self

    # ── a run ───────────────────────────────────────────────────────────────────────────────

    def start(
        self,
        arrivals: Iterable[Arrival] = (),
        *,
        keep_open: bool = False,
        pace: float | None = None,
    ) -> EngineSession:
        """Serve these arrivals, their times counted from now, and return at once.

        keep_open: when they are done go on waiting for `submit`, until `stop`.
        pace: a simulation's seconds per second of wall time; None as fast as it goes.
        Raises RuntimeError while a run is on, or after close().
        """
        if self.engine is None:
            raise RuntimeError("This session has no engine of its own: use start_legs().")
        return self.start_legs(
            [Leg(self.engine, tuple(arrivals))], Control(keep_open=keep_open, pace=pace)
        )

    def start_legs(self, plan: Iterable[Leg], control: Control | None = None) -> EngineSession:
        """Run several engines one after the other, each into the lane of its leg."""
        with self._guard:
            if self._closed:
                raise RuntimeError("This session is closed: make a new one.")
            if self.running:
                raise RuntimeError("A run is on: stop() it first, or wait for finished().")
            self._legs = list(plan)
            self._control = control or Control()
            self._control.on_output = self.on_output
            self._driving, self._shown = True, False
            for leg in self._legs:
                self._begin(leg)
            for callback in self.on_start:  # before the run: a short one ends before this returns
                callback()
            try:
                self._background.start(self._drive, self._publish)
            except BaseException:
                self._driving = False
                raise
        return self

    def stop(self) -> None:
        """End the run after the step in hand. Returns at once; harmless when nothing runs."""
        control = self._control
        if control is not None:
            control.stopping.set()
            self._background.wake()

    async def finished(self) -> RunReport:
        """Wait for the run to end, without holding up the kernel, and report it.

        What the engine found wrong is shown above the cell's result. An interrupt stops the run.
        """
        if self._control is None:
            raise RuntimeError("Nothing has been started: call start() first.")
        try:
            await self._background.wait()
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.stop()
            self._background.join(STOP_LIMIT_S)
            raise
        report = self.report()
        for error in self._background.errors:
            raise error
        if report.errors and not self._shown:
            self._shown = True
            show_errors(report)
        return report

    def report(self) -> RunReport:
        """The run so far: traces by lane, errors, whether it was stopped."""
        control = self._control or Control()
        traces = {leg.lane: leg.trace for leg in self._legs if leg.trace is not None}
        errors, refused = tuple(control.errors), tuple(control.refused)
        return RunReport(traces, errors, control.num_errors, refused, control.stopping.is_set())

    def close(self) -> None:
        """Stop, wait for the step in hand, let go of the views. Safe to call twice.

        Raises RuntimeError when schedule() or the runner does not come back.
        """
        self.stop()
        ended = self._background.join(STOP_LIMIT_S)
        self._closed = True
        self._views.clear()
        if not ended and self._background.threads:
            limit = f"within {STOP_LIMIT_S:g} s"
            raise RuntimeError(f"The step in hand did not end {limit}: restart the kernel.")

    def __enter__(self) -> EngineSession:  # and close() on leaving
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def join(self, timeout_s: float = STOP_LIMIT_S) -> bool:
        """Wait for the run to end (threads only; tasks: `await finished()`); whether it has."""
        return self._background.join(timeout_s)

    @property
    def engines(self) -> list[LLMEngine]:
        """The engines of this run that exist by now."""
        return [leg.engine for leg in self._legs if isinstance(leg.engine, LLMEngine)]

    @property
    def running(self) -> bool:
        """Whether a run is on."""
        return self._background.running

    # ── while it runs: commands ─────────────────────────────────────────────────────────────

    def submit(
        self,
        prompt: str | Iterable[int],
        params: SamplingParams | None = None,
        *,
        nickname: str | None = None,
        preview: str = "",
        before: Callable[[str], None] | None = None,
    ) -> str:
        """Send one request now, text or token ids; returns its id. RuntimeError when not running.

        preview: shown for token ids. before: told the id before the engine gets the request.
        What the engine refuses is in the report and in the trace.
        """
        if isinstance(prompt, str):
            if self.encode is None:
                raise ValueError("This session has no `encode`: submit token ids, not text.")
            prompt, preview = self.encode(prompt), prompt
        token_ids, request_id = list(prompt), f"live-{next(self._ids)}"
        if before is not None:
            before(request_id)
        add = functools.partial(
            LLMEngine.add_request, request_id=request_id, prompt_token_ids=token_ids,
            params=params, nickname=nickname, prompt_preview=preview[:80],
        )  # fmt: skip
        self._tell(add)
        return request_id

    def burst(self, arrivals: Iterable[Arrival]) -> None:
        """Send all these requests at this instant (their own times do not count)."""
        for arrival in arrivals:
            self.submit(arrival.prompt_token_ids, arrival.params, preview=arrival.prompt_preview)

    def abort(self, request_id: str) -> None:
        """End one request; an unknown id does nothing."""
        self._tell(lambda engine: engine.abort(request_id))

    def swap_scheduler(
        self, policy: str | type[Scheduler], config: SchedulerConfig | None = None
    ) -> None:
        """Change the policy: while running after this step, otherwise at once."""
        if self.running:
            self._tell(lambda engine: engine.swap_scheduler(policy, config))
        elif self.engine is not None:
            self.engine.swap_scheduler(policy, config)

    def set_pace(self, pace: float | None) -> None:
        """Simulated seconds per second of wall time, from now on."""
        if self._control is not None:
            self._control.pace = pace

    def _tell(self, command: Callable[[LLMEngine], object]) -> None:
        control = self._control
        if control is None or not self.running:
            raise RuntimeError("The session is not running: start it with keep_open=True.")
        control.tell(command)
        self._background.wake()

    # ── the two jobs ────────────────────────────────────────────────────────────────────────

    def _begin(self, leg: Leg) -> None:
        if isinstance(leg.engine, LLMEngine):
            legs.stop_others(self, leg.engine.runner.info, STOP_LIMIT_S)
            leg.begin()

    def _drive(self) -> Iterator[float]:
        try:
            for leg in self._legs:
                if leg.trace is None:
                    leg.engine = leg.engine()
                    self._begin(leg)
                yield from serve(leg.engine, leg.arrivals, self._control)
                if self._control.stopping.is_set():
                    return
        finally:
            self._driving = False

    def _publish(self) -> Iterator[float]:
        control, beats = self._control, 0.0
        while self._driving:
            traces = {leg.lane: leg.trace for leg in self._legs if leg.trace is not None}
            self._views.publish(traces, heartbeat=beats >= HEARTBEAT_S)
            beats = 0.0 if beats >= HEARTBEAT_S else beats + 1 / self.publish_hz
            if control.stopping.is_set():
                patience.interrupt_schedule(control, self._background)
            yield 1 / self.publish_hz
        report = self.report()
        self._views.conclude(report)
        for callback in self.on_end:
            callback(report)
