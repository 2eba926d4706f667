"""The same load on an engine of this process: a real model's, or a simulated GPU's in no time.

Open and closed loop as in load.py, on the engine's own clock. A virtual clock jumps from event to
event, so a simulated hour takes seconds. Here every token has its own time: icl is itl.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from minillm.bench.load import Run, check_limit
from minillm.bench.plan import PlannedRequest
from minillm.bench.record import ClientRequest
from minillm.core import LLMEngine, QueueFullError, RequestOutput, SamplingParams, request_metrics

MAX_NAP_S = 0.05

Encode = Callable[[PlannedRequest], Sequence[int]]


def measure_engine(
    engine: LLMEngine,
    plan: Sequence[PlannedRequest],
    encode: Encode,
    *,
    max_concurrency: int | None = None,
    closed: bool = False,
    ignore_eos: bool = True,
    progress: Callable[[Run], None] | None = None,
) -> Run:
    """Serve the plan; on Ctrl-C what there is, `interrupted`, and nothing left in the engine.

    encode: a planned request → its prompt's token ids. Raises ValueError if the scheduler waits
    for more requests than the concurrency lets in.
    """
    run = Run(len(plan))
    turns = run_engine(run, engine, plan, encode, max_concurrency, closed, ignore_eos)
    try:
        for _ in turns:
            if progress is not None:
                progress(run)
    except KeyboardInterrupt:
        pass
    finally:
        turns.close()
    return run


def run_engine(
    run: Run,
    engine: LLMEngine,
    plan: Sequence[PlannedRequest],
    encode: Encode,
    max_concurrency: int | None = None,
    closed: bool = False,
    ignore_eos: bool = True,
) -> Iterator[None]:
    """The same a turn of the engine at a time. Closed before its end, the run is `interrupted`."""
    check_limit(max_concurrency, closed)
    server = _Server(run, engine, plan, encode, max_concurrency, closed, ignore_eos)
    try:
        while server.busy:
            server.turn()
            run.wall_s = engine.clock.now() - server.start
            yield
    except (KeyboardInterrupt, GeneratorExit):
        run.interrupted = True
        raise
    finally:
        server.close()


class _Server:
    """One run: what is still to come, what waits in the client, what the engine has."""

    def __init__(
        self,
        run: Run,
        engine: LLMEngine,
        plan: Sequence[PlannedRequest],
        encode: Encode,
        limit: int | None,
        closed: bool,
        ignore_eos: bool,
    ) -> None:
        self.run, self.engine, self.encode, self.closed = run, engine, encode, closed
        self.limit = limit or len(plan)
        self.slots = deque([0.0] * self.limit)  # since when each free one is free
        self.ignore_eos = ignore_eos
        self.start = engine.clock.now()
        self.pending = deque(sorted(plan, key=lambda planned: planned.time))
        self.held: deque[tuple[PlannedRequest, ClientRequest]] = deque()
        self.live: dict[str, ClientRequest] = {}
        self.by_id: dict[str, ClientRequest] = {}

    @property
    def busy(self) -> bool:
        return bool(self.pending or self.held or self.live)

    def turn(self) -> None:
        """Let in what is due, compute a step, or wait for the next event."""
        self._collect_due()
        while self.held and self.slots:
            self._send(*self.held.popleft())
        if not (self.pending or self.held):
            self.engine.close_input()
        if self.engine.has_unfinished:
            for output in self.engine.step():
                self._take(output)
            if not self.engine.idle:
                return
        self._wait()

    def _collect_due(self) -> None:
        now = self.engine.clock.now() - self.start
        while self.pending:
            if self.closed:
                if len(self.held) >= len(self.slots):
                    return
                due = now
            else:
                due = self.pending[0].time
                if due > now:
                    return
            planned = self.pending.popleft()
            record = ClientRequest(planned.index, due, planned.output_len)
            self.run.requests.append(record)
            self.held.append((planned, record))

    def _send(self, planned: PlannedRequest, record: ClientRequest) -> None:
        """Add it as sent when it was due, or when its slot became free if that was later."""
        now = self.engine.clock.now() - self.start
        record.sent = max(record.scheduled, self.slots.popleft())
        ids = tuple(self.encode(planned))
        record.prompt_tokens = len(ids)
        params = SamplingParams(max_tokens=planned.output_len, ignore_eos=self.ignore_eos)
        try:
            self.engine.add_request(
                planned.request_id, ids, params, arrival_time=self.start + record.sent,
                prompt_preview="" if planned.text is None else planned.text,
            )  # fmt: skip
        except (ValueError, QueueFullError) as error:
            record.fail("refused", str(error))
            record.finished = now
            self.slots.append(now)
            return
        self.live[planned.request_id] = self.by_id[planned.request_id] = record

    def _take(self, output: RequestOutput) -> None:
        if not output.finished:
            return
        record = self.live.pop(output.request_id)
        record.finished = self.engine.clock.now() - self.start
        record.finish_reason = str(output.finish_reason)
        self.slots.append(record.finished)
        if output.error is not None:
            record.fail("engine error", output.error)

    def _wait(self) -> None:
        """Until the next request is due or the scheduler wants to be asked again."""
        if not self.busy or (self.slots and (self.held or (self.closed and self.pending))):
            return
        clock, times = self.engine.clock, []
        if self.pending and not self.closed:
            times.append(self.start + self.pending[0].time)
        if self.live and (wakeup := self.engine.next_wakeup()) is not None:
            times.append(wakeup)
        if times and clock.virtual:
            clock.advance_to(min(times))
        elif times:
            time.sleep(min(max(min(times) - clock.now(), 0.0), MAX_NAP_S))
        elif self.live and self.engine.idle:
            raise ValueError(
                f"The scheduler waits for more than the {self.limit} requests that the "
                f"concurrency lets in: raise it, or give static batching a longest wait."
            )

    def close(self) -> None:
        """End what still runs; then each token's time goes from the trace to its record."""
        for request_id, record in self.live.items():
            self.engine.abort(request_id)
            record.cancelled = True
        self.run.wall_s = self.engine.clock.now() - self.start
        for metrics in request_metrics(self.engine.trace).values():
            record = self.by_id.get(metrics.request_id)
            if record is not None:
                record.chunk_times = [when - self.start for when in metrics.token_times or ()]
                record.usage_tokens = len(record.chunk_times)
