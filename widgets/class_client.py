"""One member's line to a class server: join, ask, follow, and for the instructor: control.

Blocking calls, for threads. What the server refuses is a ClassError with the server's sentence;
what the network does is a ConnectionError.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import httpx

    from minillm.bench.sse import SSEParser

MAX_TOKENS = 80  # of an answer, unless asked for more
CONNECT_S = 5.0
STALE_S = 5.0  # /trace says something every 2 s
ANSWER_S = 120.0  # without a token of one's own: a class may be paused


class ClassError(Exception):
    """The server said no, in a sentence. status: HTTP's number; code: the error's."""

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ClassClient:
    """key: one's own, the instructor's, or the join code until `join` has been called."""

    def __init__(self, url: str, key: str) -> None:
        self.url = check_url(url)
        self.key = key
        self._open: set[socket.socket] = set()  # streams, so that close() can end them
        self._closed = False
        self._lock = threading.Lock()

    def join(self, nickname: str) -> dict[str, Any]:
        """Become a student: from now on the key is one's own. What the class runs on."""
        told = self._call("POST", "/class/join", {"nickname": nickname})
        self.key = told.pop("key")
        return told

    def state(self) -> dict[str, Any]:
        """What holds now; for the instructor with a row per student."""
        return self._call("GET", "/class")

    def control(self, **changes: Any) -> dict[str, Any]:
        """Change what the class runs on (the instructor); the state then."""
        return self._call("POST", "/class/control", changes)

    def text_of(self, tokens: list[int]) -> str:
        """What these token ids say."""
        return self._call("POST", "/detokenize", {"tokens": tokens})["prompt"]

    def ask(
        self, prompt: str, max_tokens: int, temperature: float = 0.7, request_id: str = ""
    ) -> Iterator[str]:
        """Send a prompt as a chat, and give its answer's text as it comes.

        request_id: letters and digits; the trace then knows it as `traced_id(request_id)`.
        """
        body = {
            "messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens,
            "temperature": temperature, "stream": True,
        }  # fmt: skip
        headers = {"X-Request-Id": request_id} if request_id else {}
        parser, path = _parser(), "/v1/chat/completions"
        with self._stream("POST", path, ANSWER_S, headers=headers, json=body) as parts:
            for part in parts:
                for event in parser.feed(part):
                    if event == "[DONE]":
                        return
                    data = json.loads(event)
                    if "error" in data:
                        error = data["error"]
                        raise ClassError(error["message"], 500, error.get("code"))
                    yield data["choices"][0]["delta"].get("content") or ""
        raise ConnectionError("The connection broke off before the answer's end.")

    def follow(self, last_id: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """(id, object) of each frame of /trace, on from that id. Ends when the server ends it."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        parser = _parser()
        with self._stream("GET", "/trace", STALE_S, headers=headers) as parts:
            for part in parts:
                for event in parser.feed(part):
                    yield parser.last_id, json.loads(event)

    def close(self) -> None:
        """End every stream and call, from any thread."""
        with self._lock:
            self._closed = True
            for line in self._open:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
        if "_http" in self.__dict__:
            self._http.close()

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        import httpx

        try:
            answer = self._http.request(method, path, json=body, headers=self._headers)
        except (httpx.HTTPError, RuntimeError) as error:  # RuntimeError: it has been closed
            raise self._lost(error) from None
        if answer.status_code != 200:
            raise _refusal(answer)
        return answer.json()

    @contextmanager
    def _stream(
        self, method: str, path: str, patience_s: float, headers: dict[str, str] | None = None,
        json: Any = None,
    ) -> Iterator[Iterator[bytes]]:  # fmt: skip
        import httpx

        with httpx.Client(**self._settings(httpx, patience_s)) as http:
            try:
                everything = self._headers | (headers or {})
                with http.stream(method, path, headers=everything, json=json) as answer:
                    if answer.status_code != 200:
                        answer.read()
                        raise _refusal(answer)
                    with self._noted(answer):
                        yield answer.iter_bytes()
            except httpx.HTTPError as error:
                raise self._lost(error) from None

    @contextmanager
    def _noted(self, answer: httpx.Response) -> Iterator[None]:
        line = answer.extensions["network_stream"].get_extra_info("socket")
        with self._lock:
            if self._closed:
                raise ConnectionError("This connection has been closed.")
            self._open.add(line)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(line)

    @cached_property
    def _http(self) -> httpx.Client:
        """For calls; a stream has a client of its own, which its end closes."""
        import httpx

        return httpx.Client(**self._settings(httpx, CONNECT_S))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    def _settings(self, httpx: Any, patience_s: float) -> dict[str, Any]:
        return {
            "base_url": self.url,
            "timeout": httpx.Timeout(patience_s, connect=CONNECT_S),
            "trust_env": False,  # the class is in this room, not behind a proxy
            "verify": self.url.startswith("https:"),  # without TLS its certificates need not load
        }

    def _lost(self, error: Exception) -> ConnectionError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return ConnectionError(f"{self.url} does not answer ({reason}).")


def traced_id(request_id: str) -> str:
    """What the trace calls a chat that was sent with that X-Request-Id."""
    return f"chatcmpl-{request_id}-0"


def check_url(text: str) -> str:
    """The server's address without a path. Raises ValueError for what is none."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.path.rstrip("/") not in ("", "/v1") or parts.query:
        raise ValueError(f"The class's address is like http://192.168.1.20:8000, got {text!r}.")
    return f"{parts.scheme}://{parts.netloc}"


def _refusal(answer: httpx.Response) -> ClassError:
    try:
        error = answer.json()["error"]
        return ClassError(error["message"], answer.status_code, error.get("code"))
    except (ValueError, LookupError, TypeError):
        return ClassError(f"The server answered HTTP {answer.status_code}.", answer.status_code)


def _parser() -> SSEParser:
    from minillm.bench.sse import SSEParser

    return SSEParser()
