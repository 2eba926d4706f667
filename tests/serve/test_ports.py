"""Ports for a cluster: chosen one after the other, and chosen anew when somebody was faster."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from minillm.serve import replicas
from minillm.serve.ports import HOST, PortLostError, choose_ports, start_error
from minillm.serve.replica import ReplicaPlan
from minillm.serve.replicas import PORT_ATTEMPTS, Replicas
from tests.capabilities import find_program

Ports = tuple[int, list[int]]


def test_ports_follow_one_another_and_a_taken_one_is_left_out():
    port, ports = choose_ports(0, 3)
    assert len({port, *ports}) == 4
    assert min(ports) > port
    with socket.create_server((HOST, ports[0])):
        with pytest.raises(ValueError, match=f"Can't listen on {HOST}:{ports[0]}"):
            choose_ports(ports[0], 1)
    with pytest.raises(ValueError, match="99999"):
        choose_ports(99_999, 1)
    with pytest.raises(ValueError, match="2 free ports above 65535"):
        choose_ports(65_535, 2)


def test_only_a_taken_port_makes_an_error_one_of_ports():
    with socket.create_server((HOST, 0)) as taken:
        error = start_error("It did not start.", taken.getsockname()[1])
    assert isinstance(error, PortLostError)
    assert not isinstance(start_error("It did not start.", error_free()), PortLostError)


def error_free() -> int:
    return choose_ports(0, 1)[1][0]


class Stranger(http.server.BaseHTTPRequestHandler):
    """Answers as a server of the same kind would: somebody else's replica."""

    def do_GET(self) -> None:
        body = b'{"status": "ok"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def take() -> Iterator[Callable[[int], None]]:
    """take(port): a stranger is there from now on."""
    with contextlib.ExitStack() as stack:

        def start(port: int) -> None:
            server = stack.enter_context(http.server.ThreadingHTTPServer((HOST, port), Stranger))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)

        yield start


def faster(which: Callable[[Ports], int], take, monkeypatch, times: int = 1) -> list[Ports]:
    """Let a stranger take a port right after it was chosen; what was chosen, call by call."""
    chosen: list[Ports] = []

    def choose(port: int, count: int) -> Ports:
        chosen.append(choose_ports(port, count))
        if len(chosen) <= times:
            take(which(chosen[-1]))
        return chosen[-1]

    monkeypatch.setattr(replicas, "choose_ports", choose)
    return chosen


@pytest.mark.parametrize(
    "which", [lambda ports: ports[0], lambda ports: ports[1][1]], ids=["nginx's", "a replica's"]
)
def test_a_port_that_is_lost_is_chosen_anew(which, take, monkeypatch: pytest.MonkeyPatch):
    find_program("nginx", "nginx")
    chosen = faster(which, take, monkeypatch)
    with Replicas([ReplicaPlan("a", ("--simulate",))] * 2, grace_s=0.0) as cluster:
        assert len(chosen) == 2
        lost = which(chosen[0])
        assert lost not in (cluster.port, *cluster.upstream.ports)
        assert (cluster.port, list(cluster.upstream.ports)) == chosen[1]
        body = {"prompt": "a", "max_tokens": 2}
        answers = [httpx.post(f"{cluster.url}/v1/completions", json=body) for _ in range(4)]
        assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [2] * 4
        assert all(status.state == "up" for status in cluster.status())


def test_it_gives_up_in_a_sentence_when_every_port_is_lost(take, monkeypatch: pytest.MonkeyPatch):
    find_program("nginx", "nginx")
    monkeypatch.setattr(replicas, "PORT_ATTEMPTS", 2)
    chosen = faster(lambda ports: ports[1][0], take, monkeypatch, times=PORT_ATTEMPTS)
    cluster = Replicas([ReplicaPlan("a", ("--simulate",))])
    with pytest.raises(PortLostError, match=f"Replica 0 did not start: Can't listen on {HOST}:"):
        cluster.start()
    assert len(chosen) == 2
    assert not cluster.folder.exists()
