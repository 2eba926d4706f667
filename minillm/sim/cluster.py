"""Replicas behind a router, on virtual time. Every replica is a whole LLMEngine: the engine's own
scheduler, block manager, prefix cache and preemption run in it.

One loop over events in order of time: a replica fails or returns, a request arrives and is routed,
it reaches its replica's queue, a replica begins its next step. An engine step is computed when it
begins; what it gives is known when it ends. At equal times arrivals come before steps.

When a replica fails, everything on it is lost, its caches too. "retry": the router sends each lost
request again, from the start, to a replica that is up (none up: it waits for one); its TTFT counts
from its first arrival to the first token of the attempt that succeeds. "fail": it ends with
reason "error", as does one that finds no replica up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from operator import itemgetter

from minillm.core import LLMEngine, QueueFullError, RequestOutput
from minillm.core.metrics import RequestMetrics, Tally
from minillm.sim.cluster_spec import Failure, check_failures
from minillm.sim.load_board import LoadBoard
from minillm.sim.replica import Replica, Sent
from minillm.sim.routers import Router
from minillm.sim.workload import SimRequest

ON_FAILURE = ("retry", "fail")
_REQUEST_ID, _FINISH_REASON = (  # by number, in C: this runs for each token
    itemgetter(RequestOutput._fields.index(name)) for name in ("request_id", "finish_reason")
)
FAIL, RETURN, ARRIVE, QUEUE, STEP = range(5)  # kinds of events, in their order at equal times


@dataclass(slots=True)
class ClusterRun:
    """What came of a run. requests: the figures of each, of the attempt that counted last.

    by_replica: the same requests, by the replica that had them last (None: none was up).
    """

    requests: list[RequestMetrics]
    by_replica: dict[int | None, list[RequestMetrics]]
    tallies: dict[int, list[Tally]]  # by replica: one of each engine it had
    num_retries: int = 0
    num_lost: int = 0  # attempts that a failure ended
    sent: dict[int, int] = field(default_factory=dict)  # attempts by replica


class Cluster:
    """Replicas, a router, and what may go wrong.

    request_s: from the router's choice until the request stands in its replica's queue (HTTP,
    tokenizer); it counts in TTFT. keep_traces False: step records are added up and forgotten.
    """

    def __init__(
        self,
        make_engines: Sequence[Callable[[], LLMEngine]],
        router: Router,
        *,
        request_s: Sequence[float] | None = None,
        load_info_age: float = 0.0,
        keep_traces: bool = True,
        failures: Iterable[Failure] = (),
        on_failure: str = "retry",
    ) -> None:
        if not (math.isfinite(load_info_age) and load_info_age >= 0):
            raise ValueError(f"load_info_age must be seconds ≥ 0, got {load_info_age!r}.")
        if on_failure not in ON_FAILURE:
            raise ValueError(f"on_failure must be retry or fail, got {on_failure!r}.")
        self.replicas = [Replica(i, make) for i, make in enumerate(make_engines)]
        self.router = router
        self.request_s = request_s or [0.0] * len(self.replicas)
        self.failures = check_failures(list(failures), len(self.replicas))
        self.on_failure = on_failure
        self.keep_traces = keep_traces
        self._board = LoadBoard(len(self.replicas), load_info_age)
        self._events: list[tuple] = []
        self._order = count()
        self._last: dict[str, tuple[Sent | None, bool]] = {}  # by request id: attempt, lost?
        self._stranded: list[SimRequest] = []  # they wait for a replica to return
        self._outside = 0  # attempts that have not reached a queue yet
        self._retries = self._lost = 0
        self._sent = dict.fromkeys(range(len(self.replicas)), 0)

    def run(self, requests: Sequence[SimRequest]) -> ClusterRun:
        """Serve them all and say what came of it."""
        self.serve(requests)
        return self.collect(requests)

    def serve(self, requests: Sequence[SimRequest]) -> None:
        """Ends when no request is left; then the replicas' engines hold the traces."""
        if not requests:
            raise ValueError("There is no request to serve: the workload is empty.")
        self._outside = len(requests)
        events = [(r.time, ARRIVE, next(self._order), r) for r in requests]
        for failure in self.failures:
            events.append((failure.start, FAIL, next(self._order), failure.replica))
            if failure.end is not None:
                events.append((failure.end, RETURN, next(self._order), failure.replica))
        heapify(events)
        self._events = events
        handlers = (self._fail, self._return, self._arrive, self._queue, self._step)
        while events:
            now, kind, _, what = heappop(events)
            handlers[kind](now, what)
        for request in self._stranded:
            self._last[request.request_id] = (None, True)

    # ── events ──────────────────────────────────────────────────────────────────────────────

    def _push(self, when: float, kind: int, what: object) -> None:
        heappush(self._events, (when, kind, next(self._order), what))

    def _arrive(self, now: float, request: SimRequest) -> None:
        """Route a request, or its next attempt."""
        up = [replica.index for replica in self.replicas if replica.up]
        if not up:
            if self.on_failure == "retry":
                self._stranded.append(request)
            else:
                self._last[request.request_id] = (None, True)
                self._one_less_outside(now)
            return
        prompt = request.prompt_token_ids()
        index = self.router.choose(prompt, self._board.view(now, up))
        replica = self.replicas[index]
        sent = Sent(request, replica, replica.engine)
        replica.sent[request.request_id] = sent
        replica.fresh.add(request.request_id)
        self._last[request.request_id] = (sent, False)
        self._sent[index] += 1
        self._board.change(now, index, 1, len(prompt), len(prompt))
        self._push(now + self.request_s[index], QUEUE, (sent, prompt))

    def _queue(self, now: float, what: tuple[Sent, tuple[int, ...]]) -> None:
        """The request reaches its replica's queue, unless that has failed meanwhile."""
        sent, prompt = what
        replica, request = sent.replica, sent.request
        if replica.engine is sent.engine and replica.up:
            try:
                sent.served = replica.engine.add_request(
                    request.request_id, prompt, request.params(), arrival_time=request.time
                )
            except (ValueError, QueueFullError):  # the engine's trace keeps the reason
                self._done(now, sent)
            else:
                self._wake(now, replica)
        self._one_less_outside(now)

    def _step(self, now: float, what: tuple[Replica, int]) -> None:
        """The replica's last step ends and the next one begins."""
        replica, turn = what
        if turn != replica.turn:
            return
        self._deliver(now, replica)
        engine = replica.engine
        engine.clock.advance_to(now)
        replica.busy = False
        if not engine.has_unfinished:
            return
        replica.outputs = engine.step()
        if not self.keep_traces:  # while its rows are still in the processor's cache
            replica.engines[engine].drain(engine.trace)
        if not engine.idle:
            replica.busy = True
            self._schedule(engine.clock.now(), replica)
            return
        self._deliver(now, replica)
        wakeup = engine.next_wakeup() if engine.has_unfinished else None
        if wakeup is not None:
            self._schedule(max(wakeup, now), replica)

    def _fail(self, now: float, index: int) -> None:
        replica = self.replicas[index]
        replica.up = replica.busy = False
        replica.turn += 1  # the step under way ends unheard
        lost = list(replica.sent.values())
        replica.sent.clear()
        replica.fresh.clear()
        replica.outputs = []
        self._board.clear(now, index)
        self.router.forget(index)
        self._lost += len(lost)
        for sent in lost:
            sent.engine.abort(sent.request.request_id)
            if self.on_failure == "retry":
                self._retries += 1
                self._outside += 1
                self._push(now, ARRIVE, sent.request)
            else:
                self._last[sent.request.request_id] = (sent, True)

    def _return(self, now: float, index: int) -> None:
        replica = self.replicas[index]
        replica.restart(now)
        if not self._outside:
            replica.engine.close_input()
        stranded, self._stranded = self._stranded, []
        for request in stranded:
            self._push(now, ARRIVE, request)

    # ── helpers ─────────────────────────────────────────────────────────────────────────────

    def _schedule(self, when: float, replica: Replica) -> None:
        replica.turn += 1
        self._push(when, STEP, (replica, replica.turn))

    def _wake(self, now: float, replica: Replica) -> None:
        """A replica that does nothing, or holds requests back, begins a step."""
        if not replica.busy:
            replica.busy = True
            self._schedule(now, replica)

    def _one_less_outside(self, now: float) -> None:
        """After the last request all engines learn that no more will come."""
        self._outside -= 1
        if self._outside:
            return
        for replica in self.replicas:
            if replica.up:
                replica.engine.close_input()
                if replica.engine.has_unfinished:
                    self._wake(now, replica)

    def _deliver(self, now: float, replica: Replica) -> None:
        """Hand a step's tokens to the router's books."""
        outputs, replica.outputs = replica.outputs, []
        if not outputs:
            return
        prefill = 0
        tokens = len(outputs)
        if replica.fresh:
            for name in replica.fresh.intersection(map(_REQUEST_ID, outputs)):
                replica.fresh.remove(name)
                prefill += replica.sent[name].request.input_len
        for output in filter(_FINISH_REASON, outputs):
            tokens -= not output.new_token_ids
            self._done(now, replica.sent[output.request_id])
        self._board.change(now, replica.index, 0, -prefill, tokens)

    def _done(self, now: float, sent: Sent) -> None:
        """An attempt ended: take it off the books."""
        replica, name = sent.replica, sent.request.request_id
        del replica.sent[name]
        prefill = 0
        if name in replica.fresh:
            replica.fresh.remove(name)
            prefill = sent.request.input_len
        held = sent.request.input_len + sent.num_output
        self._board.change(now, replica.index, -1, -prefill, -held)
        sent.served = None  # its tokens are not needed any more

    def collect(self, requests: Sequence[SimRequest]) -> ClusterRun:
        """The figures of the requests that were served."""
        figures = {}
        tallies: dict[int, list[Tally]] = {}
        for replica in self.replicas:
            tallies[replica.index] = []
            for engine, tally in replica.engines.items():
                tally.take(engine.trace)
                tallies[replica.index].append(tally)
                figures[engine] = {m.request_id: m for m in tally.requests.values()}
        by_replica: dict[int | None, list[RequestMetrics]] = {None: []}
        by_replica |= {replica.index: [] for replica in self.replicas}
        everyone = []
        for index, request in enumerate(requests):
            sent, lost = self._last[request.request_id]
            metrics = figures[sent.engine].get(request.request_id) if sent else None
            if metrics is None:  # it never reached an engine
                metrics = RequestMetrics(
                    index, request.request_id, request.time, request.input_len, reason="error"
                )
            elif lost:
                metrics.reason = "error"
            everyone.append(metrics)
            by_replica[sent.replica.index if sent else None].append(metrics)
        return ClusterRun(everyone, by_replica, tallies, self._retries, self._lost, self._sent)
