"""The app on a socket: uvicorn, with a drain before the end and no patience for idle senders.

SIGTERM or Ctrl-C: new requests get 503, live ones may finish within a grace time, what is left
gets an error; a second signal ends at once. `running(app)` serves from a thread, for notebooks
and tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_TIMEOUT_S = 10.0  # for a request's line and headers, once a connection is open
STALL_S = 60.0  # a client that reads nothing for this long, with data under way, is dropped
GRACE_S = 10.0
START_LIMIT_S = 30.0
KEEP_ALIVE_S = 65  # longer than nginx keeps its own connections to a replica


def listen(host: str, port: int, has_key: bool) -> socket.socket:
    """A bound socket. Raises ValueError for an open address without a key, or one in use.

    It listens once its server runs: until a model is loaded clients are refused and don't hang.
    """
    if not has_key and not is_loopback(host):
        raise ValueError(
            f"{host} can be reached from other machines: give --api-key KEY, or bind 127.0.0.1."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio sends small writes at once; else each answer waits 40 ms for
    # an acknowledgement (Nagle's algorithm).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        return listener
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"Can't listen on {host}:{port} ({reason}).") from None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address. A name other than localhost may be any."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address(listener: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def class_address(listener: socket.socket) -> str:
    """The URL under which the machines beside this one reach a bound socket.

    For a socket that listens on every address: the one this machine would send from.
    """
    host, port = listener.getsockname()[:2]
    if not ipaddress.ip_address(host).is_unspecified:
        return address(listener)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation; UDP sends nothing yet
            return f"http://{probe.getsockname()[0]}:{port}"
        except OSError:  # no network at all
            return f"http://{socket.gethostname()}:{port}"


class PatientProtocol(H11Protocol):
    """HTTP/1.1 as uvicorn has it, but a connection that sends no whole request, or reads no
    answer, is dropped after a while."""

    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        self.app_state["received"] = time.perf_counter()  # copied into the scope of a request
        super().data_received(data)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _expect_headers(self) -> None:
        """While no request is being answered, its headers have to be complete in time."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self._give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


class Server(uvicorn.Server):
    """See the module's docstring. on_ready: called once it accepts connections."""

    def __init__(
        self,
        app: Starlette,
        *,
        grace_s: float = GRACE_S,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app, http=PatientProtocol, loop="asyncio", ws="none", lifespan="on",
                log_level="warning", access_log=False, server_header=False,
                timeout_graceful_shutdown=2, timeout_keep_alive=KEEP_ALIVE_S,
            )
        )  # fmt: skip
        self.service = app.state.service
        self.grace_s, self.on_ready = grace_s, on_ready
        self.stopped_by: int | None = None  # the first signal
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: the first one drains, the second one ends."""
        if self.stopped_by is not None:
            self.force_exit = self.should_exit = True
            return
        self.stopped_by = sig
        self.stop()

    def stop(self) -> None:
        """Drain and end. From any thread; returns at once."""
        if self._loop is None or not self.started:
            self.should_exit = True
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._begin_drain)

    def _begin_drain(self) -> None:
        if self._draining is None:
            self._draining = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        await self.service.engine.drain(self.grace_s)
        self.service.trace.close()
        self.should_exit = True


@contextlib.contextmanager
def running(
    app: Starlette, host: str = "127.0.0.1", port: int = 0, *, grace_s: float = 0.0
) -> Iterator[str]:
    """Serve an app from a thread; gives its URL. Drained and joined at the end."""
    listener = listen(host, port, app.state.service.settings.guarded)
    ready = threading.Event()
    server = Server(app, grace_s=grace_s, on_ready=ready.set)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="minillm-server", daemon=True
    )
    thread.start()
    try:
        if not ready.wait(START_LIMIT_S):
            raise RuntimeError(f"The server did not start within {START_LIMIT_S:g} s.")
        yield address(listener)
    finally:
        server.stop()
        thread.join(START_LIMIT_S)
        listener.close()
