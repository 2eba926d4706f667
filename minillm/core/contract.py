"""Checks a scheduler's plan for a step before it runs: the rules a policy must keep.

A student's scheduler meets these messages, so each names the step, the request, the rule, what
was expected and what came.
"""

from __future__ import annotations

from collections.abc import Mapping

from minillm.core.batch import ScheduledRow, SchedulerOutput
from minillm.core.errors import SchedulerContractError
from minillm.core.request import Request, RequestStatus
from minillm.core.scheduler.base import Scheduler


class PlanCheck:
    """Checks one engine's plans. requests: its live ones by id; the engine goes on changing it."""

    def __init__(self, requests: Mapping[str, Request]) -> None:
        self._requests = requests
        self._roster: list[Request] = []  # whose rows the last plan had: known, and each once

    def check(self, plan: object, scheduler: Scheduler, step: int) -> None:
        """Raise SchedulerContractError for the first rule that the plan breaks, if any."""
        if not isinstance(plan, SchedulerOutput):
            rule = "schedule() must return self.output(rows)"
            raise SchedulerContractError(step, None, rule, "a SchedulerOutput", type(plan).__name__)
        slots = scheduler.config.max_num_seqs
        for what, count in (("rows", len(plan.rows)), ("running requests", len(scheduler.running))):
            if count > slots:
                rule = f"a step has at most max_num_seqs {what}"
                raise SchedulerContractError(step, None, rule, f"at most {slots}", count)
        self._check_roster(plan.rows, step)
        if not self._is_sound(plan.rows, scheduler.decoded):
            for row in plan.rows:
                _check_row(row, scheduler, step)
        budget, tokens = scheduler.config.max_num_batched_tokens, plan.num_tokens
        if scheduler.has_budget and tokens > budget:
            rule = "a step computes at most max_num_batched_tokens tokens"
            raise SchedulerContractError(step, None, rule, f"at most {budget}", tokens)

    def _check_roster(self, rows: list, step: int) -> None:
        """Each row must be a row, of a request that the engine knows, and of another one each.

        A request once known stays so until its status says that it has ended, so nothing is to do
        while the same requests go on.
        """
        for kind in set(map(type, rows)):
            if not issubclass(kind, ScheduledRow):
                rule = "each row must come from self.admit() or self.continue_()"
                raise SchedulerContractError(step, None, rule, "a ScheduledRow", kind.__name__)
        roster = [row[0] for row in rows]
        if roster == self._roster:
            return
        seen: set[Request] = set()
        for row in rows:
            request, request_id = row.request, row.request.request_id
            if request in seen:
                rule = "a request can have only one row in a step"
                raise SchedulerContractError(step, request_id, rule, "1 row", "2 or more")
            if self._requests.get(request_id) is not request and not row.is_dead:
                rule = "a row must be of a request that the engine knows"
                raise SchedulerContractError(step, request_id, rule, "a live request", "none")
            seen.add(request)
        self._roster = roster

    def _is_sound(self, rows: list[ScheduledRow], decoded: list[ScheduledRow]) -> bool:
        """Whether every row keeps every rule of _check_row: the quick answer, nearly always yes.

        decoded: rows that are right by construction, unless somebody has changed one since.
        """
        running = RequestStatus.RUNNING
        for request in self._roster:
            if request.status is not running:
                return False
        made = len(decoded)
        others = rows[made:] if rows[:made] == decoded else rows
        for request, start, num_tokens, num_padding, samples, block_ids, is_dead in others:
            end = start + num_tokens
            if not (
                start == request.num_computed_tokens
                and start < end <= request.num_tokens
                and end <= request.num_slots
                and samples == (end == request.num_tokens)
                and block_ids is request.block_ids
                and num_padding >= 0
                and not is_dead
            ):
                return False
        return True


def _check_row(row: ScheduledRow, scheduler: Scheduler, step: int) -> None:
    """Raise SchedulerContractError for the first rule that the row breaks, if any."""
    request, request_id = row.request, row.request.request_id

    def broken(rule: str, expected: object, got: object) -> SchedulerContractError:
        return SchedulerContractError(step, request_id, rule, expected, got)

    if row.is_dead:
        if request not in scheduler.dead_rows() or row.num_tokens or row.samples:
            rule = "a dead row is a finished request that its batch still carries"
            raise broken(rule, "a dead row", row)
        return
    if request.status is not RequestStatus.RUNNING:
        raise broken("only a running request can have a row", "running", request.status.value)
    if row.start != request.num_computed_tokens:
        raise broken("a row starts where the KV ends", request.num_computed_tokens, row.start)
    remaining = request.num_remaining
    if not 1 <= row.num_tokens <= remaining:
        rule = "a row computes at least 1 token and no more than remain"
        raise broken(rule, f"1 to {remaining}" if remaining > 1 else "1", row.num_tokens)
    if row.num_padding < 0:
        raise broken("padding cannot be negative", "0 or more", row.num_padding)
    caught_up = row.num_tokens == remaining
    if row.samples != caught_up:
        raise broken("a row samples exactly when it catches up", caught_up, row.samples)
    table = request.block_ids
    if row.block_ids != table:
        raise broken("a row carries its request's block table", table, row.block_ids)
    needed = scheduler.kv.blocks_for(row.start + row.num_tokens)
    if len(table) < needed:
        raise broken("a row needs blocks for all its tokens", f"{needed} blocks", len(table))
