"""Connections of the load generator: one for each request in flight, kept open for the next."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

KEEPALIVE_S = 2.0  # servers close idle connections, uvicorn's after 5 s: never reuse one that old
CONNECT_S = 10.0


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HttpPool:
    """Clients of one connection each, made when all others are busy, kept open for the next.

    httpx's own pool looks at every connection for every request: with hundreds open that takes
    longer than a token. A proxy's settings don't count for a loopback address.
    """

    def __init__(self, base_url: str, api_key: str | None, timeout_s: float) -> None:
        import httpx

        headers = {"Accept-Encoding": "identity"}  # a chunk must not wait in a decompressor
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._settings = {
            "headers": headers,
            # Reading has the request's own limit; a timer for each read would cost time.
            "timeout": httpx.Timeout(None, connect=min(CONNECT_S, timeout_s)),
            "limits": httpx.Limits(keepalive_expiry=KEEPALIVE_S),
            "trust_env": not is_loopback(base_url),
            "verify": httpx.create_ssl_context(),  # slow to make: one for all
        }
        self._all: list[httpx.AsyncClient] = []
        self._free: list[httpx.AsyncClient] = []

    def prepare(self, count: int) -> None:
        """Make clients before the clock runs: each takes a millisecond."""
        for client in [self.take() for _ in range(count)]:
            self.give(client)

    def take(self) -> httpx.AsyncClient:
        import httpx

        if self._free:
            return self._free.pop()
        client = httpx.AsyncClient(**self._settings)
        self._all.append(client)
        return client

    def give(self, client: httpx.AsyncClient) -> None:
        self._free.append(client)

    async def __aenter__(self) -> HttpPool:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._all:
            await client.aclose()
