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


def check_plan(
    plan: object, scheduler: Scheduler, requests: Mapping[str, Request], step: int
) -> SchedulerOutput:
    """The plan, if it keeps every rule; else SchedulerContractError for the first one broken.

    requests: the live ones by id, as the engine knows them.
    """
    if not isinstance(plan, SchedulerOutput):
        rule = "schedule() must return self.output(rows)"
        raise SchedulerContractError(step, None, rule, "a SchedulerOutput", type(plan).__name__)
    slots = scheduler.config.max_num_seqs
    for what, count in (("rows", len(plan.rows)), ("running requests", len(scheduler.running))):
        if count > slots:
            rule = f"a step has at most max_num_seqs {what}"
            raise SchedulerContractError(step, None, rule, f"at most {slots}", count)
    dead = {request.request_id for request in scheduler.dead_rows()}
    seen: set[str] = set()
    tokens = 0
    for row in plan.rows:
        if not isinstance(row, ScheduledRow):
            rule = "each row must come from self.admit() or self.continue_()"
            raise SchedulerContractError(step, None, rule, "a ScheduledRow", type(row).__name__)
        request_id = row.request.request_id
        if request_id in seen:
            rule = "a request can have only one row in a step"
            raise SchedulerContractError(step, request_id, rule, "1 row", "2 or more")
        seen.add(request_id)
        tokens += row.num_tokens
        if row.is_dead:
            if request_id not in dead or row.num_tokens or row.samples:
                rule = "a dead row is a finished request that its batch still carries"
                raise SchedulerContractError(step, request_id, rule, "a dead row", row)
        elif not _is_sound(row, requests):
            _name_the_rule(row, requests, scheduler, step)
    budget = scheduler.config.max_num_batched_tokens
    if scheduler.has_budget and tokens > budget:
        rule = "a step computes at most max_num_batched_tokens tokens"
        raise SchedulerContractError(step, None, rule, f"at most {budget}", tokens)
    return plan


def _is_sound(row: ScheduledRow, requests: Mapping[str, Request]) -> bool:
    """Whether a row keeps every rule of _name_the_rule: the quick answer, nearly always yes."""
    request, start, num_tokens, num_padding, samples, block_ids, _ = row
    remaining = request.num_tokens - request.num_computed_tokens
    return (
        request.status is RequestStatus.RUNNING
        and start == request.num_computed_tokens
        and 1 <= num_tokens <= remaining
        and samples == (num_tokens == remaining)
        and block_ids is request.block_ids
        and start + num_tokens <= request.num_slots
        and num_padding >= 0
        and requests.get(request.request_id) is request
    )


def _name_the_rule(
    row: ScheduledRow, requests: Mapping[str, Request], scheduler: Scheduler, step: int
) -> None:
    """Raise SchedulerContractError for the first rule that the row breaks."""
    request, request_id = row.request, row.request.request_id

    def broken(rule: str, expected: object, got: object) -> SchedulerContractError:
        return SchedulerContractError(step, request_id, rule, expected, got)

    if requests.get(request_id) is not request:
        raise broken("a row must be of a request that the engine knows", "a live request", "none")
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
