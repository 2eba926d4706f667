"""The contract of a batching policy. To write one, subclass `Scheduler` and write `schedule`.

    class OneAtATime(Scheduler):
        def schedule(self, now):
            rows = [self.continue_(request, request.num_remaining) for request in self.running]
            if not rows and self.waiting:
                rows = [self.admit(self.waiting[0], self.waiting[0].num_tokens)]
            return self.output(rows)

Everything else (queue, stop checks, freeing, preemption) is concrete and the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from minillm.core.batch import ScheduledRow, SchedulerOutput, StepResult
from minillm.core.config import SchedulerConfig
from minillm.core.errors import QueueFullError
from minillm.core.kv_cache import KVCacheManager
from minillm.core.request import FinishReason, Request, RequestOutput, RequestStatus

Note = tuple[str, Request, dict]  # (event, request, its data): the engine adds the time

_new = tuple.__new__  # a NamedTuple's own constructor takes twice as long, and a step makes many


class Scheduler(ABC):
    """Decides each step's rows. Sees requests, a KV-cache manager and `now`; does no I/O."""

    name = "custom"
    has_budget = True  # whether a step is held to config.max_num_batched_tokens

    def __init__(self, config: SchedulerConfig, kv: KVCacheManager) -> None:
        self.config = config
        self.kv = kv
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.input_closed = False
        self.step_id = 0  # of the next step; the engine sets it
        self.decoded: list[ScheduledRow] = []  # the rows that decode() made in this step
        self._has_deadlines = False  # whether a request with one was ever queued
        self._preempted: list[str] = []
        self._finished: list[str] = []
        self._notes: list[Note] = []

    @abstractmethod
    def schedule(self, now: float) -> SchedulerOutput:
        """The rows of the next step, as `self.output(rows)`. `now` in seconds."""

    # ── what schedule() may call ────────────────────────────────────────────────────────────

    def admit(self, request: Request, num_tokens: int) -> ScheduledRow | None:
        """Waiting → running, with blocks for all its tokens; a row of ≤ num_tokens of them.

        Tokens that the prefix cache holds are not computed again. None, and nothing changed, when
        there is no slot or there are not enough blocks.
        """
        return self._admit(request, num_tokens)

    def continue_(self, request: Request, num_tokens: int) -> ScheduledRow | None:
        """num_tokens more tokens of a running request; None when no block is free for them."""
        start = request.num_computed_tokens
        end = start + num_tokens
        if end > request.num_slots and not self.kv.allocate_slots(request, end):
            return None
        samples = end == request.num_tokens
        fields = (request, start, num_tokens, 0, samples, request.block_ids, False)
        return _new(ScheduledRow, fields)

    def decode(self) -> tuple[list[ScheduledRow], list[Request]]:
        """A row of one token for each decode-ready request, in order, and the requests left over.

        Those left over are the unfinished prefills; before them, if a decode finds no free block,
        it and all decodes behind it. Nearly all rows of a run are made here, in this one place
        that is written to be quick.
        """
        rows: list[ScheduledRow] = []
        short: list[Request] = []
        prefills: list[Request] = []
        for request in self.running:
            start = request.num_computed_tokens
            if request.num_tokens - start > 1:
                prefills.append(request)
            elif short or not (
                start < request.num_slots or self.kv.allocate_slots(request, start + 1)
            ):
                short.append(request)
            else:
                fields = (request, start, 1, 0, True, request.block_ids, False)
                rows.append(_new(ScheduledRow, fields))
        self.decoded = rows.copy()
        return rows, short + prefills

    def preempt(self, request: Request) -> None:
        """Running → front of the queue. Its blocks are freed; its KV is recomputed later."""
        if request.status is not RequestStatus.RUNNING:
            raise ValueError(f"{request.request_id} is {request.status.value}: nothing to preempt.")
        lost = request.num_computed_tokens
        self.running.remove(request)
        self.kv.free(request)
        self.decoded = []  # its row is no longer right
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self.requeue(request, front=True)
        self._preempted.append(request.request_id)
        cached = len(self.kv.get_computed_blocks(request)) * self.kv.block_size
        data = {"tokens_lost": lost, "tokens_cached": cached}
        self._notes.append(("preempt", request, data))

    def output(self, rows: Iterable[ScheduledRow | None]) -> SchedulerOutput:
        """The step's plan. Rows that are None, or of a request preempted since, are left out."""
        kept = list(rows)
        if not all(kept):
            kept = [row for row in kept if row is not None]
        preempted = finished = ()
        if self._preempted:
            preempted, self._preempted = tuple(self._preempted), []
            kept = [row for row in kept if row.request.request_id not in preempted]
        if kept:  # a plan without rows reaches no runner, and it has to learn of every end
            finished, self._finished = tuple(self._finished), []
        return SchedulerOutput(self.step_id, kept, preempted, finished)

    # ── what the engine calls ───────────────────────────────────────────────────────────────

    def add(self, request: Request) -> None:
        """Queue a request. Raises QueueFullError when the queue has its max_queue_size."""
        limit = self.config.max_queue_size
        if limit is not None and len(self.waiting) >= limit:
            raise QueueFullError(f"The queue is full: {limit} requests wait already.")
        self.requeue(request)

    def close_input(self) -> None:
        """No more requests will come: a policy that waits for company may stop waiting."""
        self.input_closed = True

    def next_wakeup(self, now: float) -> float | None:
        """When a policy that holds requests back wants to be asked again; None: on arrival."""
        deadlines = [r.deadline for r in self.waiting if r.deadline is not None]
        return min(deadlines, default=None)

    def expire(self, now: float) -> list[RequestOutput]:
        """Finish the waiting requests whose deadline has passed, with reason "error"."""
        if not self._has_deadlines:
            return []
        late = [r for r in self.waiting if r.deadline is not None and r.deadline <= now]
        return [
            self.finish(r, FinishReason.ERROR, "Its deadline passed while it waited.") for r in late
        ]

    def abort(self, request_id: str) -> RequestOutput | None:
        """End a request in any state and free its blocks; None if it is unknown or done."""
        for request in (*self.waiting, *self.running):
            if request.request_id == request_id:
                return self.finish(request, FinishReason.ABORT)
        return None

    def update(self, plan: SchedulerOutput, result: StepResult) -> list[RequestOutput]:
        """Take in a step's tokens: append, check for the end, free what is done."""
        outputs: list[RequestOutput] = []
        tokens, logprobs = result.token_ids, result.logprobs or {}
        size, running = self.kv.block_size, RequestStatus.RUNNING
        for request, start, num_tokens, _, samples, _, _ in plan.rows:
            if request.status is not running:  # a dead row, or ended while the step was computed
                continue
            computed = request.num_computed_tokens = start + num_tokens
            if computed % size < num_tokens:  # a block has become full
                self.kv.cache_blocks(request)
            if not samples:
                continue
            name = request.request_id
            token_id = tokens[name]
            request.token_ids.append(token_id)
            request.num_tokens += 1
            num_output = request.num_tokens - request.num_prompt_tokens
            if num_output == 1:
                self._notes.append(("first_token", request, {}))
            reason = None
            if num_output >= request.max_tokens or token_id in request.stop_ids:
                reason = stop_reason(request, token_id)
                if reason is not None:
                    self.finish(request, reason)
            likely = logprobs.get(name) if logprobs else None
            fields = (name, request.index, (token_id,), reason, None, likely)
            outputs.append(_new(RequestOutput, fields))
        return outputs

    def finish(
        self, request: Request, reason: FinishReason, error: str | None = None
    ) -> RequestOutput:
        """End a request from any state; no token comes after it."""
        for queue in (self.running, self.waiting):
            if request in queue:  # a subclass may have taken it out by hand
                queue.remove(request)
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        request.error = error
        self._release(request)
        self._finished.append(request.request_id)
        event = "abort" if reason is FinishReason.ABORT else "finish"
        data = {"reason": str(reason)} if error is None else {"reason": str(reason), "error": error}
        self._notes.append((event, request, data))
        return RequestOutput(request.request_id, request.index, (), reason, error)

    def drain_notes(self) -> list[Note]:
        """What happened to requests since the last call, in order (for the trace)."""
        if not self._notes:
            return []
        notes, self._notes = self._notes, []
        return notes

    def drain_waiting(self) -> list[Request]:
        """Give up the queue, in order: another scheduler takes it over."""
        moved = list(self.waiting)
        self.waiting.clear()
        return moved

    @property
    def has_unfinished(self) -> bool:
        return bool(self.waiting or self.running)

    def dead_rows(self) -> list[Request]:
        """Finished requests that the policy still carries (static and dynamic batches)."""
        return []

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _admit(
        self,
        request: Request,
        num_tokens: int,
        num_padding: int = 0,
        reserve: int | None = None,
        use_cache: bool = True,
    ) -> ScheduledRow | None:
        if request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
            raise ValueError(f"{request.request_id} is {request.status.value}, not waiting.")
        if len(self.running) >= self.config.max_num_seqs:
            return None
        if not self.kv.admit(request, reserve or request.num_tokens, use_cache):
            return None
        if self.waiting[0] is request:
            self.waiting.popleft()
        else:
            self.waiting.remove(request)
        request.status = RequestStatus.RUNNING
        self.running.append(request)
        cached = request.num_computed_tokens
        if request.num_preemptions == 0:
            request.num_cached_tokens = cached
        self._notes.append(("admit", request, {"tokens_cached": cached}))
        num_tokens = min(num_tokens, request.num_tokens - cached)
        samples = cached + num_tokens == request.num_tokens
        return ScheduledRow(request, cached, num_tokens, num_padding, samples, request.block_ids)

    def requeue(self, request: Request, front: bool = False) -> None:
        """Into the queue: by arrival, or by (priority, arrival) if so configured."""
        self._has_deadlines |= request.deadline is not None
        if self.config.scheduling_policy == "priority":
            queue = self.waiting
            at = next(
                (
                    i
                    for i, other in enumerate(queue)
                    if other.priority > request.priority
                    or (front and other.priority == request.priority)
                ),
                len(queue),
            )
            queue.insert(at, request)
        elif front:
            self.waiting.appendleft(request)
        else:
            self.waiting.append(request)

    def _release(self, request: Request) -> None:
        self.kv.free(request)


def stop_reason(request: Request, token_id: int) -> FinishReason | None:
    """Why the request ends with this token, or None if it goes on."""
    if token_id in request.stop_ids and request.num_output_tokens >= request.params.min_tokens:
        return FinishReason.STOP
    if request.num_output_tokens >= request.max_tokens:
        return FinishReason.LENGTH
    return None
