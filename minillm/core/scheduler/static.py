"""Static batching: a batch is filled, padded, run until its longest output ends; nobody joins.

The waste is real: prompts are padded up to the longest, and a finished request stays in the
batch as a dead row, computed and thrown away, until the last one is done.
"""

from __future__ import annotations

from minillm.core.batch import ScheduledRow, SchedulerOutput
from minillm.core.request import FinishReason, Request, RequestOutput
from minillm.core.scheduler.base import Scheduler


class BatchScheduler(Scheduler):
    """Request-level batching: `take(now)` says how many of those who wait make the next batch."""

    has_budget = False

    def __init__(self, config, kv) -> None:
        super().__init__(config, kv)
        self.batch: list[Request] = []  # the running ones and the dead rows, in order

    def take(self, now: float) -> int:
        """How many requests from the head of the queue to send now, as one batch; 0: hold."""
        raise NotImplementedError

    def schedule(self, now: float) -> SchedulerOutput:
        if self.batch:
            return self.output(self._decode_row(request) for request in self.batch)
        return self.output(self._start_batch(self.take(now)))

    def _start_batch(self, size: int) -> list[ScheduledRow]:
        """Prefill `size` requests at once, fewer when the pool cannot hold them all."""
        chosen: list[Request] = []
        blocks = 0
        for request in list(self.waiting)[:size]:
            blocks += self.kv.blocks_for(self._final_length(request))
            if blocks > self.kv.num_free_blocks:
                break
            chosen.append(request)
        longest = max((request.num_tokens for request in chosen), default=0)
        rows = []
        for request in chosen:
            # Blocks for the longest possible output are taken now: a batch never preempts.
            padding, reserve = longest - request.num_tokens, self._final_length(request)
            row = self._admit(request, request.num_tokens, padding, reserve, use_cache=False)
            rows.append(row)
        self.batch = chosen
        return rows

    def _decode_row(self, request: Request) -> ScheduledRow | None:
        if request.is_finished:
            start = request.num_computed_tokens
            return ScheduledRow(request, start, 0, 1, False, request.block_ids, is_dead=True)
        return self.continue_(request, request.num_remaining)

    def _final_length(self, request: Request) -> int:
        return request.num_prompt_tokens + request.max_tokens

    def dead_rows(self) -> list[Request]:
        return [request for request in self.batch if request.is_finished]

    def finish(
        self, request: Request, reason: FinishReason, error: str | None = None
    ) -> RequestOutput:
        output = super().finish(request, reason, error)
        if request in self.batch and reason in (FinishReason.ABORT, FinishReason.ERROR):
            self.batch.remove(request)
            self.kv.free(request)
        if not self.running:  # the longest has ended: the batch is over
            for dead in self.batch:
                self.kv.free(dead)
            self.batch = []
        return output

    def _release(self, request: Request) -> None:
        """A row of a batch keeps its blocks until the batch ends; others have none."""
        if request not in self.batch:
            self.kv.free(request)


class StaticScheduler(BatchScheduler):
    """Waits for max_num_seqs requests, for max_wait_s, or until no more can come."""

    name = "static"

    def take(self, now: float) -> int:
        size = self.config.max_num_seqs
        if not self.waiting:
            return 0
        if len(self.waiting) >= size or self.input_closed or self._overdue(now):
            return size
        return 0

    def next_wakeup(self, now: float) -> float | None:
        times = [super().next_wakeup(now)]
        if self.waiting and self.config.max_wait_s is not None:
            times.append(self._oldest() + self.config.max_wait_s)
        return min((t for t in times if t is not None), default=None)

    def _oldest(self) -> float:
        return min(request.arrival_time for request in self.waiting)

    def _overdue(self, now: float) -> bool:
        wait = self.config.max_wait_s
        return wait is not None and now >= self._oldest() + wait
