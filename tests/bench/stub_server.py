"""A scripted HTTP server on loopback: says exactly the bytes a test wants, when it wants them.

It speaks plain sockets, so that it can also do what no framework does: break off, cut a frame
anywhere, answer nonsense. Each answer's pieces are stamped with time.perf_counter() when written.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

Script = Callable[["Exchange"], Awaitable[None]]


class Exchange:
    """One request and the answer to it. number: from 0, in order of arrival, models not counted."""

    def __init__(
        self, number: int, path: str, headers: dict[str, str], body: Any, writer: Any
    ) -> None:
        self.number, self.path, self.headers, self.body = number, path, headers, body
        self.arrived = time.perf_counter()
        self.stamps: list[float] = []  # of each piece that was sent
        self.closed = False
        self._writer = writer

    async def start(self, status: int = 200, content_type: str = "text/event-stream") -> None:
        self._writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\n"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        await self._writer.drain()

    async def send(self, data: bytes | str, at_ms: float | None = None) -> None:
        """A piece of the body, at_ms after the request arrived."""
        data = data.encode() if isinstance(data, str) else data
        if at_ms is not None:
            await asyncio.sleep(max(self.arrived + at_ms / 1e3 - time.perf_counter(), 0))
        self.stamps.append(time.perf_counter())
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def fail(self, status: int, message: str) -> None:
        await self.start(status, "application/json")
        await self.send(json.dumps({"error": {"message": message, "code": status}}))

    def abort(self) -> None:
        """Break the connection off."""
        self.closed = True
        self._writer.transport.abort()


class StubServer:
    """with StubServer(script) as stub: … stub.url, stub.exchanges."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()

    def __enter__(self) -> StubServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: set[asyncio.Task] = set()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1024)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: Any) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: Any) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split(" ")[1]
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in head[1:] if x)}
        size = int(headers.get("content-length", 0))
        body = json.loads(await reader.readexactly(size)) if size else None
        number = len(self.exchanges) if body is not None else -1
        exchange = Exchange(number, path, headers, body, writer)
        if body is None:
            await exchange.start(200, "application/json")
            await exchange.send(json.dumps({"data": [{"id": "stub"}]}))
        else:
            self.exchanges.append(exchange)
            await self.script(exchange)
        if exchange.closed:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


# ── frames ──────────────────────────────────────────────────────────────────────────────────

DONE = "data: [DONE]\n\n"


def frame(event: Any, end: str = "\n\n") -> str:
    return f"data: {json.dumps(event, ensure_ascii=False)}{end}"


def text(piece: str, finish: str | None = None) -> str:
    """A completion's chunk."""
    return frame({"choices": [{"index": 0, "text": piece, "finish_reason": finish}]})


def delta(content: str | None = None, role: str | None = None, finish: str | None = None) -> str:
    """A chat's chunk."""
    parts = {"role": role, "content": content}
    said = {key: value for key, value in parts.items() if value is not None}
    return frame({"choices": [{"index": 0, "delta": said, "finish_reason": finish}]})


def usage(tokens: int, prompt: int = 7) -> str:
    counts = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return frame({"choices": [], "usage": {**counts, "total_tokens": prompt + tokens}})
