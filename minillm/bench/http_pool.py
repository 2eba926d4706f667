"""Connections of the load generator: one for each request in flight, kept open for the next.

aiohttp and not httpx: its parser is compiled and a chunk is one turn of the event loop away from
its bytes. Measured at 12 requests a second, a TTFT through it is that of a bare socket; through
httpx it is 1 ms longer, and 4 to 6 ms on a busy machine.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiohttp

KEEPALIVE_S = 2.0  # servers close idle connections, uvicorn's after 5 s: never reuse one that old
CONNECT_S = 10.0


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_pool(base_url: str, api_key: str | None, timeout_s: float) -> aiohttp.ClientSession:
    """A session with any number of connections, to be closed by `async with`.

    A proxy's settings don't count for a loopback address. Only connecting has a limit here: a
    request as a whole has its own, and a timer for each read would cost time.
    """
    import aiohttp

    headers = {"Accept-Encoding": "identity"}  # a chunk must not wait in a decompressor
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, timeout_s)),
        trust_env=not is_loopback(base_url),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
