"""A cluster's load in the terminal: a table that moves, or plain lines where there is no terminal.

With rich if it is there. Figures are the replicas' own, from their /metrics; "–" is what can't be
read just now.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minillm.serve.replica import ReplicaStatus
    from minillm.serve.replicas import Replicas

LINE_S = 5.0  # between two plain lines of load
SHOWN_EVENTS = 5
HEADING = (
    "#", "replica", "port", "state", "running", "waiting", "KV use", "tok/s", "done", "restarts",
)  # fmt: skip
COLOURS = {"up": "green", "starting": "yellow", "draining": "yellow", "down": "bold red"}


def show(cluster: Replicas) -> View:
    """The view that suits standard output; to be used with `with`."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        try:
            return Table(cluster)
        except ImportError:
            pass
    return View(cluster)


class View:
    """Plain lines: each event as it happens, the load when it has changed."""

    def __init__(self, cluster: Replicas) -> None:
        self.cluster = cluster
        self._told = 0
        self._last, self._due = "", time.monotonic() + LINE_S

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        self.update()

    def update(self) -> None:
        events = self.cluster.events[self._told :]
        self._told += len(events)
        for event in events:
            print(f"{clock(event.at)} {event.text}", flush=True)
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LINE_S
        line = " | ".join(brief(status) for status in self.cluster.status())
        if line != self._last:
            print(f"{clock(time.time())} {line}", flush=True)
            self._last = line


class Table(View):
    """A table in place, the latest events under it."""

    def __init__(self, cluster: Replicas) -> None:
        from rich.live import Live

        super().__init__(cluster)
        self._live = Live(self._draw(), auto_refresh=False)

    def __enter__(self) -> Table:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.update()
        self._live.stop()

    def update(self) -> None:
        self._live.update(self._draw(), refresh=True)

    def _draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False, header_style="dim")
        for index, name in enumerate(HEADING):
            justify = "right" if name in HEADING[4:] else "left"
            if index == 1:  # names may be long: they take the room that is left
                grid.add_column(name, overflow="fold", min_width=8)
            else:
                grid.add_column(name, justify=justify, no_wrap=True)
        for status in self.cluster.status():
            cells = row(status)
            state = Text(cells[3], COLOURS.get(status.state, ""))
            grid.add_row(*cells[:3], state, *cells[4:])
        events = self.cluster.events[-SHOWN_EVENTS:]
        lines = [Text(f"{clock(event.at)} {event.text}", "dim") for event in events]
        return Group(Text(), grid, *lines)


def row(status: ReplicaStatus) -> Sequence[str]:
    """One replica's cells, in the order of HEADING."""
    return (
        str(status.index), status.name, status.url.rpartition(":")[2], state_of(status),
        figure(status.running), figure(status.waiting), percent(status.kv_usage),
        figure(status.tokens_per_s), figure(status.finished), figure(status.restarts),
    )  # fmt: skip


def brief(status: ReplicaStatus) -> str:
    """One replica in a plain line."""
    if status.running is None:
        return f"{status.index} {state_of(status)}"
    speed, done = figure(status.tokens_per_s), figure(status.finished)
    return (
        f"{status.index} {state_of(status)}: {status.running} run, {status.waiting} wait, KV "
        f"{percent(status.kv_usage)}, {speed} tok/s, {done} done"
    )


def state_of(status: ReplicaStatus) -> str:
    if status.retry_in_s is not None:
        return f"down, {status.retry_in_s:.0f} s"
    return status.state


def figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
