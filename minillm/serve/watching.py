"""Noticing that a client has gone: a plain ASGI handler is not told, it has to listen.

`race` runs something unless the client hangs up first; `EventStream` is a streaming response
that stops, and closes what it reads from, as soon as the client is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


class ClientGone(Exception):
    """Nobody is left to answer."""


async def race(work: Coroutine[Any, Any, T], receive: Receive, timeout: float | None = None) -> T:
    """The result of `work`. Raises ClientGone on a hang-up, TimeoutError; both cancel the work.

    The request's body must have been read: what `receive` tells then is the end of it.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait((task, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone if gone.done() else TimeoutError
    finally:
        for either in (task, gone):
            either.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events, unbuffered by proxies. on_close is called in every case, at the end."""

    media_type = "text/event-stream"

    def __init__(
        self,
        frames: AsyncGenerator[bytes, None],
        headers: dict[str, str] | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.frames, self.on_close = frames, on_close
        self.status_code = 200
        self.background = None
        self.init_headers(
            {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **(headers or {})}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientGone):
                await race(self._pump(send), receive)
        finally:
            self.on_close()  # a generator that was never begun would not do it by itself
            await self.frames.aclose()

    async def _pump(self, send: Send) -> None:
        await send({
            "type": "http.response.start", "status": self.status_code, "headers": self.raw_headers,
        })  # fmt: skip
        async for data in self.frames:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
