"""Ports on the loopback interface for processes that are started later, and what if one is lost."""

from __future__ import annotations

import contextlib

from minillm.serve.server import listen

HOST = "127.0.0.1"
MAX_PORT = 65_535


class PortLostError(ValueError):
    """Somebody took a port after it was chosen and before our process had it."""


def choose_ports(port: int, count: int) -> tuple[int, list[int]]:
    """nginx's port (0: any free one) and the replicas': the next free ones after it.

    Raises ValueError if nginx's port is taken, or not enough are free above it.
    """
    with contextlib.closing(listen(HOST, port, False)) as front:
        port = front.getsockname()[1]
        ports: list[int] = []
        for candidate in range(port + 1, MAX_PORT + 1):
            with contextlib.suppress(ValueError):
                listen(HOST, candidate, False).close()
                ports.append(candidate)
            if len(ports) == count:
                return port, ports
    raise ValueError(f"{count} replicas need {count} free ports above {port}: choose a lower one.")


def start_error(said: str, port: int) -> ValueError:
    """The error of a process that has ended instead of listening on `port`.

    A PortLostError where somebody else has the port now.
    """
    try:
        listen(HOST, port, False).close()
    except ValueError:
        return PortLostError(said)
    return ValueError(said)
