"""Continuous batching: at every step requests join and leave, within a token budget.

There is no prefill phase and no decode phase: each request's num_computed_tokens catches up with
its num_tokens, a chunk at a time (Orca, OSDI 2022; chunked prefill: Sarathi-Serve, OSDI 2024).
"""

from __future__ import annotations

from minillm.core.batch import ScheduledRow, SchedulerOutput
from minillm.core.request import Request, RequestStatus
from minillm.core.scheduler.base import Scheduler


class ContinuousScheduler(Scheduler):
    """Running requests first, decodes before prefills; then admit while there is room."""

    name = "continuous"

    def schedule(self, now: float) -> SchedulerOutput:
        budget = self.config.max_num_batched_tokens
        if self.config.prefill_first:  # while a prompt is read, everybody who decodes stalls
            rows: list[ScheduledRow] = []
            prefills = [request for request in self.running if request.num_remaining > 1]
            budget, _ = self._continue(rows, prefills, budget)
            self._admit_waiting(rows, budget)
            if rows:
                return self.output(rows)

        # 1. Decode-ready rows, one token each; then unfinished prefills, in order of arrival.
        rows, left = self.decode()
        budget, preempted = self._continue(rows, left, budget - len(rows))

        # 2. Admit, first come first served, unless memory is so short that someone had to go.
        if not preempted:
            self._admit_waiting(rows, budget)
        return self.output(rows)

    def _continue(
        self, rows: list[ScheduledRow], requests: list[Request], budget: int
    ) -> tuple[int, bool]:
        """Add a row for each request while the budget lasts: (budget left, anyone preempted)."""
        preempted = False
        for request in requests:
            if budget <= 0:
                break
            if request.status is not RequestStatus.RUNNING:
                continue  # a row before it took its blocks
            remaining = request.num_tokens - request.num_computed_tokens
            num_tokens = 1 if remaining == 1 else self._chunk(remaining, budget)
            row = self.continue_(request, num_tokens)
            while row is None:  # no block left: the last one in gives its blocks back
                preempted = True
                victim = self._victim()
                budget += self._withdraw(rows, victim)
                if victim is request:
                    break
                row = self.continue_(request, num_tokens)
            if row is not None:
                rows.append(row)
                budget -= row.num_tokens
        return budget, preempted

    def _chunk(self, num_remaining: int, budget: int) -> int:
        """How many of the remaining tokens go into this step."""
        threshold = self.config.long_prefill_token_threshold
        return min(num_remaining, budget, threshold or num_remaining)

    def _admit_waiting(self, rows: list[ScheduledRow], budget: int) -> None:
        """Admit from the head of the queue while slots, blocks and budget last. No overtaking."""
        while self.waiting and budget > 0:
            request = self.waiting[0]
            num_tokens = self._chunk(request.num_tokens, budget)
            if not self.config.enable_chunked_prefill:
                cached = len(self.kv.get_computed_blocks(request)) * self.kv.block_size
                if request.num_tokens - cached > budget:
                    return
                num_tokens = request.num_tokens
            row = self.admit(request, num_tokens)
            if row is None:
                if not self._make_room_by_priority(rows, request):
                    return
                budget = self.config.max_num_batched_tokens
                budget -= sum(r.num_tokens for r in rows)
                continue
            rows.append(row)
            budget -= row.num_tokens

    def _victim(self) -> Request:
        """Who goes when blocks run out: the lowest priority, among equals the last admitted."""
        if self.config.scheduling_policy == "fcfs":
            return self.running[-1]
        return max(enumerate(self.running), key=lambda item: (item[1].priority, item[0]))[1]

    def _withdraw(self, rows: list[ScheduledRow], victim: Request) -> int:
        """Preempt a request and take back its row of this step; returns the tokens set free."""
        self.preempt(victim)
        mine = [row for row in rows if row.request is victim]
        rows[:] = [row for row in rows if row.request is not victim]
        return sum(row.num_tokens for row in mine)

    def _make_room_by_priority(self, rows: list[ScheduledRow], request: Request) -> bool:
        """Preempt one running request of strictly lower priority, if that can ever be enough."""
        if self.config.scheduling_policy != "priority":
            return False
        lower = [r for r in self.running if r.priority > request.priority]
        reachable = self.kv.num_free_blocks + sum(len(r.blocks) for r in lower)
        if not lower or self.kv.blocks_for(request.num_tokens) > reachable:
            return False
        self._withdraw(rows, self._victim())
        return True
