"""One replica: a `minillm serve` process on a port of its own, and what it says of its load."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from minillm.serve.supervised import Child, ChildGroup

LOAD_S = 1.0  # between two looks at a replica's /metrics
ANSWER_S = 5.0  # for one answer
SILENCE_S = 20.0  # a replica that was up and answers nothing for so long is ended


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    """What to start. name: for people. flags: of `minillm serve`; env: beside this process's."""

    name: str
    flags: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A replica as of now. What can't be read is None; sizes in requests, times in seconds.

    state: starting, up, draining, down (it starts again in retry_in_s), or ended with the cluster.
    kv_usage: 1 is all blocks. finished: requests that have ended, in all its lives. last_end: how
    its last life ended.
    """

    index: int
    name: str
    url: str
    state: str
    pid: int | None
    running: int | None
    waiting: int | None
    kv_usage: float | None
    tokens_per_s: float | None
    finished: int
    restarts: int
    retry_in_s: float | None
    last_end: str | None


@dataclass(frozen=True, slots=True)
class _Load:
    """A scrape of /metrics at `at` (monotonic seconds)."""

    at: float
    running: int
    waiting: int
    kv_usage: float
    tokens: int
    finished: int


class Replica:
    """See the module's docstring. `poll` keeps it up to date and is called again and again."""

    def __init__(
        self, index: int, plan: ReplicaPlan, port: int, group: ChildGroup, folder: Path
    ) -> None:
        self.index, self.plan, self.port = index, plan, port
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "minillm", "serve", "--host", "127.0.0.1"]
        command += ["--port", str(port), *plan.flags]
        self.child = Child(group, command, folder / f"replica-{index}.log", plan.env)
        self.draining = False
        self._load: _Load | None = None
        self._rate: float | None = None
        self._finished_before = 0  # in former lives
        self._heard = 0.0

    async def poll(self, client: httpx.AsyncClient) -> None:
        """Ask how it is, and now and then how much it does. Never raises for what it finds."""
        process = self.child.process
        if not self.child.alive:
            return
        if self.child.up_since is None and not self.child.listens_on(self.port):
            return  # still loading; who answers there now is somebody else
        try:
            health = (await client.get(f"{self.url}/health")).json()["status"]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            health = None  # hung, or gone meanwhile
        now = time.monotonic()
        if process is not self.child.process or not self.child.alive:
            return
        if health is None:
            if self.child.up_since is not None and now - self._heard > SILENCE_S:
                self.child.signal(signal.SIGKILL)
            return
        self._heard = now
        if health == "engine stopped":
            self.child.signal(signal.SIGKILL)
            return
        self.draining = health == "draining"
        if not self.draining:
            self.child.ready(now)
        if self._load is None or now - self._load.at >= LOAD_S:
            await self._read_load(client)

    async def _read_load(self, client: httpx.AsyncClient) -> None:
        try:
            answer = await client.get(f"{self.url}/metrics")
            load = _parse(answer.raise_for_status().text)
        except (httpx.HTTPError, ValueError, KeyError):
            return
        before, self._load = self._load, load
        if before is not None:
            self._rate = max(load.tokens - before.tokens, 0) / (load.at - before.at)

    def ended(self) -> None:
        """Its process is gone: what it said of itself is history."""
        if self._load is not None:
            self._finished_before += self._load.finished
        self._load = self._rate = None
        self.draining = False

    def status(self, now: float) -> ReplicaStatus:
        child = self.child
        load = self._load if child.alive else None
        if child.restart_at is not None:
            state = "down"
        elif not child.alive:
            state = "ended"
        elif self.draining:
            state = "draining"
        else:
            state = "starting" if child.up_since is None else "up"
        retry = None if child.restart_at is None else max(child.restart_at - now, 0.0)
        return ReplicaStatus(
            index=self.index, name=self.plan.name, url=self.url, state=state, pid=child.pid,
            running=None if load is None else load.running,
            waiting=None if load is None else load.waiting,
            kv_usage=None if load is None else load.kv_usage,
            tokens_per_s=None if load is None else self._rate,
            finished=self._finished_before + (self._load.finished if self._load else 0),
            restarts=max(child.starts - 1, 0), retry_in_s=retry, last_end=child.last_end,
        )  # fmt: skip


def replica_client() -> httpx.AsyncClient:
    """For `poll`: straight to the loopback interface, with the key that the replicas inherit."""
    key = os.environ.get("MINILLM_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(headers=headers, timeout=ANSWER_S, trust_env=False)


def _parse(text: str) -> _Load:
    """Raises ValueError or KeyError for a text that is not a replica's metrics."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "le" not in sample.labels:
                name = sample.name.removeprefix("minillm:")
                found[name] = found.get(name, 0.0) + sample.value
    return _Load(
        at=time.monotonic(), running=int(found["num_requests_running"]),
        waiting=int(found["num_requests_waiting"]), kv_usage=found["kv_cache_usage_perc"],
        tokens=int(found["generation_tokens_total"]),
        finished=int(found.get("request_success_total", 0)),
    )  # fmt: skip
