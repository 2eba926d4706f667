"""Replicas: several `minillm serve` processes behind a real nginx, all on the loopback interface.

with Replicas([ReplicaPlan("A100", ("--simulate",))] * 3, router="least_conn") as cluster:
    cluster.url                 # nginx; /v1/completions and so on
    cluster.status()            # a ReplicaStatus each
    cluster.route("round_robin")

A process that ends is started again, after a growing pause. At the end nginx takes nothing new,
what runs may finish within the grace time, and nothing is left behind, whatever ends the parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from minillm.serve.nginx import Upstream, check_router, find_nginx, nginx_command, write_config
from minillm.serve.ports import HOST, PortLostError, choose_ports, start_error
from minillm.serve.replica import Replica, ReplicaPlan, ReplicaStatus, replica_client
from minillm.serve.server import GRACE_S
from minillm.serve.supervised import Child, ChildGroup, ending

TICK_S = 0.25  # between two looks at all processes
MAX_REPLICAS = 64
RELOAD_S = 1.0  # until nginx's new workers have taken over
AFTER_GRACE_S = 5.0  # for the processes to end by themselves, beyond the grace time
PORT_ATTEMPTS = 5  # to find ports that nobody else takes before our processes do


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that a person should see. at: Unix time."""

    at: float
    text: str


class Replicas:
    """See the module's docstring. Raises ValueError for what can't be, before anything starts.

    port: nginx's; 0 takes a free one. The replicas' ports follow it. workers, zone: see Upstream.
    grace_s: how long running requests have at the end; the plans' flags should say the same.
    """

    def __init__(
        self,
        plans: Sequence[ReplicaPlan],
        router: str = "nginx",
        *,
        port: int = 0,
        workers: int = 2,
        zone: bool = True,
        grace_s: float = GRACE_S,
    ) -> None:
        check_count(len(plans))
        check_router(router)
        self.plans, self.port, self.grace_s = list(plans), port, grace_s
        self.upstream = Upstream((0,) * len(plans), router, workers, zone)
        self.events: list[ClusterEvent] = []
        self.replicas: list[Replica] = []
        self._leaving: set[int] = set()  # nginx shall give them nothing new
        self._away: set[int] = set()  # replicas whose return is still to be told
        self._config_lock = threading.Lock()
        self._stopping = threading.Event()  # nothing is started again
        self._ended = threading.Event()  # nothing is watched any more
        self._cleanup = contextlib.ExitStack()

    @property
    def url(self) -> str:
        """nginx's address; the API is under /v1."""
        return f"http://{HOST}:{self.port}"

    # ── life ────────────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Replicas:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start all, and wait until all replicas serve. ValueError in one sentence if one can't.

        Ports are only looked for here and taken by the processes: where somebody is faster, new
        ones are chosen.
        """
        self._nginx_program = find_nginx()
        wanted = self.port
        for attempt in range(1, PORT_ATTEMPTS + 1):
            try:
                self._start(*choose_ports(wanted, len(self.plans)))
                return
            except PortLostError:
                if attempt == PORT_ATTEMPTS:
                    raise

    def _start(self, port: int, ports: Sequence[int]) -> None:
        try:
            self.port = port
            self.folder = Path(tempfile.mkdtemp(prefix="minillm-cluster-"))
            self._cleanup.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.upstream = replace(self.upstream, ports=tuple(ports))
            self._write_config()
            self._group = ChildGroup()
            self._cleanup.callback(self._group.kill)
            self.replicas = [
                Replica(index, plan, own, self._group, self.folder)
                for index, (plan, own) in enumerate(zip(self.plans, ports, strict=True))
            ]
            self._nginx = Child(
                self._group, nginx_command(self._nginx_program, self.folder),
                self.folder / "nginx.log",
            )  # fmt: skip
            for replica in self.replicas:
                replica.child.start()
            asyncio.run(self._first_start())
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._watch()), name="minillm-replicas", daemon=True
            )
            self._thread.start()
            self._cleanup.callback(self._join)
        except BaseException:
            self._cleanup.close()
            raise

    def stop(self) -> None:
        """nginx closes its door, what runs may finish within the grace time, all processes end."""
        self._stopping.set()
        processes = [self._nginx, *(replica.child for replica in self.replicas)]
        self._nginx.signal(signal.SIGQUIT)  # nginx: finish what runs, take nothing new
        for replica in self.replicas:
            replica.child.signal(signal.SIGTERM)
        end = time.monotonic() + self.grace_s + AFTER_GRACE_S
        while time.monotonic() < end and any(child.alive for child in processes):
            time.sleep(0.02)
        self._cleanup.close()

    def abort(self) -> None:
        """End every process now, from any thread; a `stop` that waits goes on at once."""
        self._stopping.set()
        self._group.kill()

    # ── use ─────────────────────────────────────────────────────────────────────────────────

    def status(self) -> list[ReplicaStatus]:
        now = time.monotonic()
        return [replica.status(now) for replica in self.replicas]

    def route(self, router: str, *, workers: int | None = None, zone: bool | None = None) -> None:
        """Another router from now on: nginx reloads, requests under way stay where they are."""
        chosen = {"router": router, "workers": workers, "zone": zone}
        self._reload(**{name: value for name, value in chosen.items() if value is not None})

    def kill(self, index: int, number: int = signal.SIGKILL) -> None:
        """Send a replica a signal: to see what becomes of its requests, and how it comes back."""
        self.replicas[index].child.signal(number)

    def restart(self, index: int) -> None:
        """End a replica so that no request fails: out of nginx first, then asked to drain.

        Returns once it is asked; it starts again when it has ended, and nginx takes it back.
        """
        self._leaving.add(index)
        self._leave_out()
        time.sleep(RELOAD_S)
        self.kill(index, signal.SIGTERM)

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    async def _first_start(self) -> None:
        async with replica_client() as client:
            while not all(replica.child.up_since for replica in self.replicas):
                await asyncio.gather(*(replica.poll(client) for replica in self.replicas))
                for replica in self.replicas:
                    if not replica.child.alive:
                        said = f"Replica {replica.index} did not start: {_why(replica)}"
                        raise start_error(said, replica.port)
                await asyncio.sleep(0.05)
        self._nginx.start()
        while not self._nginx_listens():
            if not self._nginx.alive:
                said = f"nginx did not start: {self._nginx.last_words()}"
                raise start_error(said, self.port)
            await asyncio.sleep(0.02)

    async def _watch(self) -> None:
        async with replica_client() as client, asyncio.TaskGroup() as tasks:
            for replica in self.replicas:
                tasks.create_task(self._poll(replica, client))
            while not self._ended.is_set():
                if not self._stopping.is_set():
                    self._look()
                    self._leave_out()
                await asyncio.sleep(TICK_S)

    async def _poll(self, replica: Replica, client: httpx.AsyncClient) -> None:
        while not self._ended.is_set():
            await replica.poll(client)
            await asyncio.sleep(TICK_S)

    def _look(self) -> None:
        """Who has ended, who starts again, who is back."""
        now = time.monotonic()
        for replica in self.replicas:
            if replica.child.look(now):
                replica.ended()
                self._leaving.discard(replica.index)
                self._away.add(replica.index)
                self._tell_end(f"Replica {replica.index}", replica.child, now)
            elif replica.index in self._away and replica.child.up_since is not None:
                self._away.discard(replica.index)
                self._tell(f"Replica {replica.index} is back.")
        if self._nginx.look(now):
            self._tell_end("nginx", self._nginx, now)
        elif self._nginx.up_since is None:
            self._nginx_listens()

    def _leave_out(self) -> None:
        """A replica that drains refuses at once, so it looks idle: nginx must not be drawn to it.

        One that is dead needs nothing: nginx can't connect to it and takes the next.
        """
        draining = {replica.index for replica in self.replicas if replica.draining}
        out = frozenset(draining | self._leaving)
        if out != self.upstream.out and len(out) < len(self.replicas):
            self._reload(out=out)

    def _reload(self, **changes: object) -> None:
        with self._config_lock:
            self.upstream = replace(self.upstream, **changes)
            self._write_config()
            self._nginx.signal(signal.SIGHUP)

    def _write_config(self) -> None:
        write_config(self._nginx_program, self.folder, self.upstream.config(self.port))

    def _nginx_listens(self) -> bool:
        if not self._nginx.listens_on(self.port):
            return False
        self._nginx.ready(time.monotonic())
        return True

    def _tell_end(self, name: str, child: Child, now: float) -> None:
        pause = child.restart_at - now
        self._tell(f"{name} {child.last_end}; it starts again in {pause:.2g} s.")

    def _tell(self, text: str) -> None:
        self.events.append(ClusterEvent(time.time(), text))

    def _join(self) -> None:
        self._ended.set()
        self._thread.join(AFTER_GRACE_S)


def check_count(count: int) -> None:
    """Raise ValueError for a number of replicas that can't be."""
    if not 1 <= count <= MAX_REPLICAS:
        raise ValueError(f"There can be 1 to {MAX_REPLICAS} replicas here, got {count}.")


def _why(replica: Replica) -> str:
    """A child's own sentence, without the name of the command that it does not know it serves."""
    said = replica.child.last_words().removeprefix("minillm serve: ")
    return said or f"the process {ending(replica.child.process.returncode)}."
