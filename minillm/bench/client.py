"""One request to an OpenAI-compatible endpoint: send it, time each chunk, note what went wrong.

Nothing is sent twice: a retry would hide a failure. What a server does wrong ends in the record
(`error_kind`), never in an exception.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from minillm.bench.chunks import StreamError, error_message, read_chunk
from minillm.bench.http_pool import CONNECT_S
from minillm.bench.plan import PlannedRequest
from minillm.bench.record import ClientRequest
from minillm.bench.sse import SSEParser

if TYPE_CHECKING:
    import aiohttp

ENDPOINTS = {"completions": "completions", "chat": "chat/completions"}
MAX_ERROR_BODY = 64 << 10  # bytes of an error's body that are read
DRAIN_S = 0.2  # how long to wait for a stream's end after [DONE]
KEY_VARIABLES = ("MINILLM_API_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint and what each request to it carries. timeout_s: for one request as a whole."""

    base_url: str
    model: str
    endpoint: str = "completions"
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 600.0
    ignore_eos: bool = True
    temperature: float = 0.0
    extra_body: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.endpoint not in ENDPOINTS:
            names = ", ".join(ENDPOINTS)
            raise ValueError(f"Unknown endpoint {self.endpoint!r}: choose one of {names}.")

    @property
    def url(self) -> str:
        return f"{self.base_url}/{ENDPOINTS[self.endpoint]}"

    def body(self, planned: PlannedRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": planned.output_len,
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": planned.prompt}]
        else:
            body["prompt"] = planned.prompt
        return {**body, **self.extra_body}


def normalize_url(text: str) -> str:
    """`http://host:port` or `…/v1` as `http://host:port/v1`; ValueError for anything else."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment:
        raise ValueError(f"--base-url must be like http://127.0.0.1:8000/v1, got {text!r}.")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/') or '/v1'}"


def find_api_key(given: str | None) -> str | None:
    """The key that was given, else the environment's."""
    found = (os.environ.get(name) for name in KEY_VARIABLES)
    return given or next((key for key in found if key), None)


async def find_model(http: aiohttp.ClientSession, base_url: str, wanted: str | None) -> str:
    """The wanted model, else the first that the server names.

    Raises ValueError in one sentence when no server answers or it refuses the key.
    """
    import aiohttp

    try:
        async with asyncio.timeout(CONNECT_S), http.get(f"{base_url}/models") as response:
            status, body = response.status, await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise ValueError(f"No server answers at {base_url} ({_reason(error)}).") from None
    if status in (401, 403):
        raise ValueError(
            f"The server at {base_url} refuses the API key (HTTP {status}): give it as --api-key "
            f"or in {KEY_VARIABLES[0]}."
        )
    if wanted:
        return wanted  # not every server lists its models
    try:
        return str(json.loads(body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise ValueError(
            f"The server at {base_url} does not list its models (HTTP {status}): name one with "
            f"--model."
        ) from None


class OpenAIClient:
    """Sends planned requests. clock(): seconds since the run began."""

    def __init__(self, http: aiohttp.ClientSession, target: Target, start: float) -> None:
        self.http, self.target, self.start = http, target, start
        self.nonce = secrets.token_hex(4)  # two runs against one server: ids of their own

    def clock(self) -> float:
        return time.perf_counter() - self.start

    async def complete(self, planned: PlannedRequest, record: ClientRequest) -> None:
        """Send one request and fill in its record. Only cancelling gets out of here."""
        import aiohttp

        record.request_id = f"bench-{self.nonce}-{planned.request_id}"
        headers = {"Content-Type": "application/json", "X-Request-Id": record.request_id}
        body = json.dumps(self.target.body(planned)).encode()
        record.sent = self.clock()
        try:
            async with asyncio.timeout(self.target.timeout_s):
                async with self.http.post(
                    self.target.url, data=body, headers=headers, allow_redirects=False
                ) as response:
                    if response.status != 200:
                        raise StreamError(f"HTTP {response.status}", await _error_body(response))
                    await self._read(response, record)
        except TimeoutError:
            record.fail("timeout", f"no end within {self.target.timeout_s:g} s")
        except aiohttp.ClientConnectorError as error:
            record.fail("no connection", _reason(error))
        except aiohttp.ClientError as error:
            seen = len(record.chunk_times)
            record.fail("connection lost", f"after {seen} chunks: {_reason(error)}")
        except StreamError as error:
            record.fail(error.kind, str(error))
        except asyncio.CancelledError:
            record.cancelled = True
            raise
        finally:
            record.finished = self.clock()

    async def _read(self, response: aiohttp.ClientResponse, record: ClientRequest) -> None:
        parser, reader = SSEParser(), StreamReader(record)
        stream = response.content.iter_any()
        try:
            async for data in stream:
                now = self.clock()
                for event in parser.feed(data):
                    reader.take(event, now)
                if reader.done:
                    break
            else:
                for event in parser.close():
                    reader.take(event, self.clock())
        except ValueError as error:  # not UTF-8, or endless
            raise StreamError("malformed stream", str(error)) from None
        reader.end(response.headers.get("content-type", ""))
        with suppress(TimeoutError):  # only what was read to its end can serve another request
            async with asyncio.timeout(DRAIN_S):
                async for _ in stream:
                    pass


class StreamReader:
    """Puts a stream's events into the record, one by one, each with its time of arrival."""

    def __init__(self, record: ClientRequest) -> None:
        self.record = record
        self.done = False
        self._last_is_closing = False  # the last chunk was empty and carried the finish reason

    def take(self, event: str, now: float) -> None:
        if self.done or not event.strip():
            return
        if event.strip() == "[DONE]":
            self.done = True
            return
        record, chunk = self.record, read_chunk(event)
        if chunk.has_output:
            record.chunk_times.append(now)
            self._last_is_closing = chunk.is_empty and chunk.finish_reason is not None
        record.finish_reason = chunk.finish_reason or record.finish_reason
        if chunk.prompt_tokens is not None:
            record.prompt_tokens = chunk.prompt_tokens
        if chunk.output_tokens is not None:
            record.usage_tokens = chunk.output_tokens

    def end(self, content_type: str) -> None:
        """Raise StreamError unless the stream came to its end and gave something."""
        record = self.record
        if not (self.done or record.finish_reason):
            if not record.chunk_times and "event-stream" not in content_type:
                raise StreamError("no output", f"no event stream but {content_type or 'nothing'}")
            seen = len(record.chunk_times)
            raise StreamError("cut short", f"the stream ended after {seen} chunks without an end")
        counted = record.usage_tokens
        if counted and len(record.chunk_times) > counted and self._last_is_closing:
            record.chunk_times.pop()  # some servers close with an empty chunk that is no token
        if not record.chunk_times:
            raise StreamError("no output", "the stream ended without any output")


async def _error_body(response: aiohttp.ClientResponse) -> str:
    body = b""
    async for data in response.content.iter_any():
        body += data
        if len(body) > MAX_ERROR_BODY:
            break
    text = body[:MAX_ERROR_BODY].decode("utf-8", "replace")
    try:
        return error_message(json.loads(text))
    except ValueError:
        return " ".join(text.split())[:300]


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
