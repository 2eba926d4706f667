"""The HTTP interface: OpenAI's endpoints, /health, /metrics and /trace, as a Starlette app.

app = make_app(LLM())              # any number of apps in one process
uvicorn.run(app)                   # or minillm/serve/server.py, which drains before it ends
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from minillm.core import FinishReason, LLMEngine
from minillm.llm import LLM
from minillm.serve import class_api, replies
from minillm.serve.class_guard import ClassGuard
from minillm.serve.classroom import INSTRUCTOR, Member
from minillm.serve.errors import ApiError, JsonResponse, bad_request, internal
from minillm.serve.guard import KeyGuard, read_body
from minillm.serve.job import SILENCE, Answer, Chunk, Job, Prompt
from minillm.serve.protocol import (
    Body,
    ChatBody,
    CompletionBody,
    DetokenizeBody,
    check,
    parse,
)
from minillm.serve.replies import ChatReplies, Replies
from minillm.serve.service import ServerSettings, Service
from minillm.serve.spoken import Shows, everything, nothing
from minillm.serve.watching import ClientGone, EventStream, race

PING_S = 10.0  # of silence before a comment keeps a stream's connection alive
CLIENT_GONE = 499  # nginx's number for it; nobody reads it
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def make_app(
    llm: LLM, engine: LLMEngine | None = None, settings: ServerSettings | None = None
) -> Starlette:
    """An app of its own: engine thread, registry and ring. engine: from serving_engine."""
    service = Service(llm, engine, settings)
    in_class = service.settings.classroom is not None
    guard, more = (ClassGuard, class_api.routes()) if in_class else (KeyGuard, [])

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.engine.start()
        try:
            yield
        finally:
            service.trace.close()
            await service.engine.close()

    app = Starlette(
        routes=[
            Route("/v1/models", list_models),
            Route("/v1/models/{name:path}", one_model),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/detokenize", detokenize, methods=["POST"]),
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/trace", trace),
            *more,
        ],
        middleware=[Middleware(guard, service=service)],
        exception_handlers={
            ApiError: on_api_error,
            HTTPException: on_http_error,
            Exception: on_fault,
        },
        lifespan=lifespan,
    )
    app.state.service = service
    return app


# ── endpoints ───────────────────────────────────────────────────────────────────────────────


async def completions(request: Request) -> Response:
    service = _service(request)
    arrival = _arrival(request)
    body: CompletionBody = parse(CompletionBody, await _body(request))
    service.check_model(body.model)
    prompts = await service.text_prompts(body, body.prompts())
    return await _answer(request, arrival, body, prompts, Replies)


async def chat_completions(request: Request) -> Response:
    service = _service(request)
    arrival = _arrival(request)
    body: ChatBody = parse(ChatBody, await _body(request))
    service.check_model(body.model)
    prompt = await service.chat_prompt(body, body.conversation())
    return await _answer(request, arrival, body, [prompt], ChatReplies)


async def list_models(request: Request) -> Response:
    return JsonResponse({"object": "list", "data": [_model(_service(request))]})


async def one_model(request: Request) -> Response:
    service = _service(request)
    service.check_model(request.path_params["name"])
    return JsonResponse(_model(service))


async def detokenize(request: Request) -> Response:
    """What token ids, such as a trace shows, say."""
    service = _service(request)
    body: DetokenizeBody = check(DetokenizeBody, await _body(request))
    service.check_model(body.model)
    return JsonResponse({"prompt": service.text_of(body.tokens)})


async def health(request: Request) -> Response:
    """200 while it serves; 503 while it drains, or when the engine thread has died."""
    engine = _service(request).engine
    status = "ok" if engine.alive else "engine stopped"
    if engine.draining:
        status = "draining"
    return JsonResponse({"status": status}, 200 if status == "ok" else 503)


async def metrics(request: Request) -> Response:
    text = _service(request).metrics.text()
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def trace(request: Request) -> Response:
    if request.method == "HEAD":
        return Response(media_type=EventStream.media_type)
    service = _service(request)
    last_id = request.headers.get("last-event-id")
    return EventStream(service.trace.watch(last_id, _shows(request, service)))


async def on_api_error(request: Request, error: ApiError) -> Response:
    service = _service(request)
    service.metrics.count_refused(error.code or f"http_{error.status}")
    if error.status == 413:  # nobody has read the prompt: what can be shown is that it came
        name = f"refused-{uuid.uuid4().hex}"
        service.engine.note_refusal(name, error.message, nickname=_nickname(request, None))
    return error.response()


async def on_http_error(request: Request, error: HTTPException) -> Response:
    message = f"{request.method} {request.url.path}: {error.detail}."
    return ApiError(error.status_code, message, headers=error.headers).response()


async def on_fault(request: Request, error: Exception) -> Response:
    """A fault of ours: the traceback goes to the log, a sentence to the client."""
    return internal(f"The server failed at this request: {type(error).__name__}.").response()


# ── one call ────────────────────────────────────────────────────────────────────────────────


async def _answer(
    request: Request, arrival: float, body: Body, prompts: list[Prompt], kind: type[Replies]
) -> Response:
    """Run the prompts; the whole answer, or a stream whose first bytes wait for a first token.

    So what fails before a token comes has a status of its own, and a hang-up frees all.
    """
    service = _service(request)
    engine = service.engine
    deadline = body.deadline_s or service.settings.deadline_s
    job = Job(
        _job_id(request, kind, engine.jobs), prompts, arrival=arrival, priority=body.priority,
        cache_salt=body.cache_salt, deadline_s=deadline, nickname=_nickname(request, body.nickname),
        limit=_limit(request),
    )  # fmt: skip
    reply = kind(job, service.model_name, service.token_text, body.top_logprobs_wanted)
    headers = {"X-Request-Id": job.job_id}
    engine.submit(job)
    streaming = False
    try:
        if not body.stream:
            answers = await race(_collect(job), request.receive)
            return JsonResponse(reply.whole(answers), headers=headers)
        with suppress(TimeoutError):
            _sound(await race(job.peek(), request.receive, PING_S))
        streaming = True
        frames = _frames(job, reply, body.include_usage)
        return EventStream(frames, headers, on_close=lambda: engine.release(job))
    except ClientGone:
        return Response(status_code=CLIENT_GONE)
    finally:
        if not streaming:
            engine.release(job)


def _arrival(request: Request) -> float:
    """Engine seconds when the request's headers were received (server.py notes when)."""
    now = time.perf_counter()
    return _service(request).engine.now() - (now - getattr(request.state, "received", now))


async def _collect(job: Job) -> list[Answer]:
    answers = [Answer() for _ in job.prompts]
    async for chunks in job:
        for chunk in chunks:
            answers[chunk.index].take(_sound(chunk))
    return answers


async def _frames(job: Job, reply: Replies, include_usage: bool) -> AsyncGenerator[bytes, None]:
    """A stream's frames, in one piece what comes together. All usages but the last are null."""
    extra = {"usage": None} if include_usage else {}
    frames = [reply.streamed([choice], extra) for choice in reply.opening()]
    count = 0
    job.tell_silence(PING_S)
    try:
        async for chunks in job:
            for chunk in chunks:
                if chunk.index == SILENCE:
                    frames.append(replies.PING)
                    continue
                count += len(_sound(chunk).token_ids)
                frames.append(reply.streamed([reply.delta(chunk)], extra))
            yield b"".join(frames)
            frames = []
        if include_usage:
            frames.append(reply.streamed([], {"usage": replies.usage(job, count)}))
    except ApiError as error:
        frames.append(replies.frame(error.body))
    yield b"".join([*frames, replies.DONE])


def _sound(chunk: Chunk) -> Chunk:
    """The chunk, unless the engine failed at it: then ApiError 500."""
    if chunk.finish_reason is FinishReason.ERROR:
        raise internal(chunk.error or "The engine could not finish this request.")
    return chunk


def _job_id(request: Request, kind: type[Replies], taken: dict[str, Job]) -> str:
    """The client's own X-Request-Id where it has one, so that both sides can be matched."""
    given = request.headers.get("x-request-id", "")
    if not REQUEST_ID.fullmatch(given):
        return kind.prefix + uuid.uuid4().hex
    if kind.prefix + given in taken:
        raise bad_request(f"A request with X-Request-Id {given!r} is still being served.")
    return kind.prefix + given


def _model(service: Service) -> dict:
    return {
        "id": service.model_name, "object": "model", "created": int(service.started_unix),
        "owned_by": "minillm", "max_model_len": service.config.max_len,
    }  # fmt: skip


def _member(request: Request) -> Member | None:
    """Who sent it, in a class; None elsewhere (class_guard.py notes who)."""
    return getattr(request.state, "member", None)


def _nickname(request: Request, given: str | None) -> str | None:
    """What the request is shown as: in a class the sender's own name, else what it says."""
    member = _member(request)
    return given if member is None else member.nickname


def _limit(request: Request) -> int | None:
    member, classroom = _member(request), _service(request).settings.classroom
    return None if member is None or member.role == INSTRUCTOR else classroom.student_limit


def _shows(request: Request, service: Service) -> Shows:
    """Whose text the sender may see in /trace."""
    member = _member(request)
    if member is not None:
        return member.sees_text_of
    return everything if service.settings.trace_text else nothing


async def _body(request: Request) -> bytes:
    return await read_body(request, _service(request).settings.max_body_bytes)


def _service(request: Request) -> Service:
    return request.app.state.service
