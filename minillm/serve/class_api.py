"""A class's own endpoints, beside OpenAI's: /class/join, /class and /class/control.

POST /class/join     with the join code as the key: {"nickname"} → one's own key
GET  /class          what holds now; for the instructor with a row per student
POST /class/control  the instructor's: {"paused", "policy", "max_num_seqs",
                     "max_num_batched_tokens", "enable_chunked_prefill", "device",
                     "student_limit"}, any of them
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from minillm.core import SchedulerConfig
from minillm.core.config import check_policy
from minillm.serve.classroom import INSTRUCTOR, Member, check_limit
from minillm.serve.errors import JsonResponse, bad_request, forbidden
from minillm.serve.guard import read_body
from minillm.serve.live_engine import STATIC_MAX_WAIT_S
from minillm.serve.protocol import check
from minillm.serve.service import Service


class JoinBody(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    nickname: str


class ControlBody(BaseModel):
    """What the instructor changes; None leaves it as it is. Names are SchedulerConfig's.

    device: the name of another simulated GPU, where the server simulates one.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    paused: bool | None = None
    policy: str | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enable_chunked_prefill: bool | None = None
    device: str | None = None
    student_limit: int | None = None


def routes() -> list[Route]:
    return [
        Route("/class/join", join, methods=["POST"]),
        Route("/class", show),
        Route("/class/control", control, methods=["POST"]),
    ]


async def join(request: Request) -> Response:
    service = request.app.state.service
    body: JoinBody = check(JoinBody, await _body(request))
    try:
        member, key = service.settings.classroom.join(body.nickname)
    except ValueError as error:
        raise bad_request(str(error), "nickname") from None
    service.tally.welcome(member.nickname, service.engine.now())
    return JsonResponse({**state(service, member), "key": key})


async def show(request: Request) -> Response:
    return JsonResponse(state(request.app.state.service, request.state.member))


async def control(request: Request) -> Response:
    """All of it or nothing. Who runs finishes under the old policy and limits; nobody is lost."""
    member = request.state.member
    if member.role != INSTRUCTOR:
        raise forbidden("Only the instructor's key may change what the class runs on.")
    service = request.app.state.service
    body: ControlBody = check(ControlBody, await _body(request))
    try:
        policy, limits = _wanted(service, body)
        other = None if body.device is None else service.on_another_gpu(body.device)
        if body.student_limit is not None:
            check_limit(body.student_limit)
    except ValueError as error:
        raise bad_request(str(error)) from None
    now = await service.engine.call(lambda engine: engine.upcoming)
    if (policy or now.name, limits) != (now.name, now.config):
        kind = policy or type(now)
        await service.engine.call(lambda engine: engine.swap_scheduler(kind, limits))
        service.note_limits(limits)
        service.announce()
    if other is not None:
        await service.engine.call(lambda engine: engine.runner.become(other))
        service.trace.announce()
    if body.student_limit is not None:
        service.settings.classroom.student_limit = body.student_limit
    if body.paused is not None and body.paused != service.engine.paused:
        service.engine.pause(body.paused)
        service.trace.announce(paused=body.paused)
        service.trace.notify()
    return JsonResponse(state(service, member))


def state(service: Service, member: Member) -> dict[str, Any]:
    """What holds now, as `member` may know it. policy, limits: what new requests will run under."""
    engine = service.engine.engine
    upcoming, classroom = engine.upcoming, service.settings.classroom
    shown: dict[str, Any] = {
        "nickname": member.nickname, "role": member.role, "model": service.model_name,
        "device": engine.runner.info.device, "provenance": engine.runner.info.provenance,
        "paused": service.engine.paused, "policy": upcoming.name,
        "draining_for_swap": upcoming is not engine.scheduler,
        "max_num_seqs": upcoming.config.max_num_seqs,
        "max_num_batched_tokens": upcoming.config.max_num_batched_tokens,
        "enable_chunked_prefill": upcoming.config.enable_chunked_prefill,
        "student_limit": classroom.student_limit, "num_students": classroom.num_students,
        "waiting": service.engine.num_waiting, "running": len(engine.scheduler.running),
    }  # fmt: skip
    if member.role == INSTRUCTOR:
        shown["join_code"] = classroom.code
        shown["students"] = service.tally.rows(service.engine.now())
    return shown


def _wanted(service: Service, body: ControlBody) -> tuple[str | None, SchedulerConfig]:
    """The policy (None: as it is) and the limits that the body asks for. Raises ValueError."""
    engine = service.engine.engine
    limits, policy = engine.upcoming.config, body.policy
    changes = {
        name: value
        for name in ("max_num_seqs", "max_num_batched_tokens")
        if (value := getattr(body, name)) is not None
    }
    if body.enable_chunked_prefill is not None:
        changes |= _chunking(service, limits, body.enable_chunked_prefill) | changes
    if policy is not None:
        check_policy(policy)
        if policy == "static" and limits.max_wait_s is None:
            changes["max_wait_s"] = STATIC_MAX_WAIT_S
    budget, most = changes.get("max_num_batched_tokens", 0), service.most_tokens
    if most is not None and budget > most:
        raise ValueError(
            f"max_num_batched_tokens can be at most {most} while this server runs, got {budget}: "
            f"its memory was set aside for that many at the start."
        )
    return policy, replace(limits, **changes)


def _chunking(service: Service, limits: SchedulerConfig, chunked: bool) -> dict[str, Any]:
    """What else changes with it: without chunks a step has room for the longest prompt, and with
    them it gets the budget back that it had before."""
    budget, longest = limits.max_num_batched_tokens, service.config.max_len
    if not chunked:
        budget = max(budget, longest)
    elif not limits.enable_chunked_prefill:
        budget = max(service.chunk_budget, limits.max_num_seqs)
    return {
        "enable_chunked_prefill": chunked, "max_model_len": longest,
        "max_num_batched_tokens": budget,
    }  # fmt: skip


async def _body(request: Request) -> bytes:
    return await read_body(request, request.app.state.service.settings.max_body_bytes)
