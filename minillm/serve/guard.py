"""What is checked before a request costs anything: its key, its type, its size, its pace."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from minillm.serve.errors import ApiError, unauthorized

BODY_TIMEOUT_S = 20.0
OPEN_PATHS = ("/health",)


class KeyGuard:
    """Lets in who bears one of the keys; everybody where there are none. /health is open."""

    def __init__(self, app: ASGIApp, service: Any) -> None:
        self.app, self.service = app, service
        self.digests = [_digest(key) for key in service.settings.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            try:
                self.check(scope, bearer(Headers(scope=scope)))
            except ApiError as refusal:
                self.service.metrics.count_refused(refusal.code or f"http_{refusal.status}")
                await refusal.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def check(self, scope: Scope, key: str) -> None:
        """Raise ApiError 401 unless it is one of the keys.

        Compares with every key, digests of one length: its time tells nothing about them.
        """
        found = [hmac.compare_digest(_digest(key), digest) for digest in self.digests]
        if self.digests and not any(found):
            raise unauthorized("This server wants an API key: Authorization: Bearer KEY.")


def bearer(headers: Headers) -> str:
    """The key that the request bears; "" where there is none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


async def read_body(request: Request, limit: int) -> bytes:
    """The body, JSON by its type. Raises ApiError 415, 413 above `limit` bytes, 408 when slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # Also keeps web pages out: a browser sends JSON elsewhere only where CORS allows it.
        raise ApiError(
            415, f"The body must be sent as Content-Type: application/json, got {kind[:60]!r}.",
            code="unsupported_media_type",
        )  # fmt: skip
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise ApiError(
            408, f"The body did not come within {BODY_TIMEOUT_S:g} s.", code="body_timeout",
            headers={"Connection": "close"},
        ) from None  # fmt: skip
    return bytes(body)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413, f"The body is larger than {limit} bytes.", code="body_too_large",
        headers={"Connection": "close"},
    )  # fmt: skip


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
