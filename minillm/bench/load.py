"""Sends a plan to an endpoint: open loop (each at its time) or closed loop (so many at a time).

Open loop: request i is due at start + time[i], whatever the server does; a limit of concurrency
makes it wait in the client, and that wait is part of its TTFT. Closed loop: `max_concurrency`
users, each sends its next request when its last one has ended; a request is due when it's sent.
Every task ends before the run does, also on Ctrl-C or an error.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from minillm.bench.client import OpenAIClient, Target
from minillm.bench.http_pool import open_pool
from minillm.bench.plan import PlannedRequest
from minillm.bench.record import ClientRequest

PROGRESS_S = 0.2

Progress = Callable[["Run"], None]


@dataclass(slots=True)
class Run:
    """The requests that were due, in that order. wall_s: seconds from the start to now or the end.

    requests grows while the run goes on, so that a stopped run keeps what there is.
    """

    planned: int
    requests: list[ClientRequest] = field(default_factory=list)
    interrupted: bool = False
    wall_s: float = 0.0

    @property
    def in_flight(self) -> int:
        return sum(r.sent is not None and r.finished is None for r in self.requests)


def check_limit(max_concurrency: int | None, closed: bool) -> None:
    if max_concurrency is not None and max_concurrency < 1:
        raise ValueError(f"The concurrency must be at least 1, got {max_concurrency}.")
    if closed and max_concurrency is None:
        raise ValueError("A closed loop needs a concurrency.")


def measure(
    target: Target,
    plan: Sequence[PlannedRequest],
    *,
    max_concurrency: int | None = None,
    closed: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Send the plan and wait for its end. Ctrl-C gives the run so far, `interrupted`."""
    check_limit(max_concurrency, closed)
    run = Run(len(plan))
    try:
        asyncio.run(run_load(run, target, plan, max_concurrency, closed, progress))
    except KeyboardInterrupt:
        run.interrupted = True
    return run


async def run_load(
    run: Run,
    target: Target,
    plan: Sequence[PlannedRequest],
    max_concurrency: int | None = None,
    closed: bool = False,
    progress: Progress | None = None,
) -> None:
    """The same within a running event loop. Cancelling it ends every request first."""
    check_limit(max_concurrency, closed)
    async with open_pool(target.base_url, target.api_key, target.timeout_s) as http:
        client = OpenAIClient(http, target, time.perf_counter())
        tasks: list[asyncio.Task] = []
        watcher = asyncio.create_task(_watch(run, client, progress)) if progress else None
        try:
            if closed:
                await _closed_loop(run, client, plan, max_concurrency, tasks)
            else:
                await _open_loop(run, client, plan, max_concurrency, tasks)
            await asyncio.gather(*tasks)
        finally:
            run.wall_s = client.clock()
            if watcher is not None:
                tasks.append(watcher)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if progress is not None:
                progress(run)


async def _open_loop(
    run: Run,
    client: OpenAIClient,
    plan: Sequence[PlannedRequest],
    limit: int | None,
    tasks: list[asyncio.Task],
) -> None:
    slots = asyncio.Semaphore(limit) if limit else None

    async def send(planned: PlannedRequest, record: ClientRequest) -> None:
        if slots is None:
            return await client.complete(planned, record)
        async with slots:
            return await client.complete(planned, record)

    for planned in sorted(plan, key=lambda planned: planned.time):
        # Always give the loop a turn: when we're late, answers must be read nevertheless.
        await asyncio.sleep(max(planned.time - client.clock(), 0.0))
        record = ClientRequest(planned.index, planned.time, planned.output_len)
        run.requests.append(record)
        tasks.append(asyncio.create_task(send(planned, record)))


async def _closed_loop(
    run: Run,
    client: OpenAIClient,
    plan: Sequence[PlannedRequest],
    users: int,
    tasks: list[asyncio.Task],
) -> None:
    async def user(rest: Iterator[PlannedRequest]) -> None:
        for planned in rest:  # one iterator for all users
            record = ClientRequest(planned.index, client.clock(), planned.output_len)
            run.requests.append(record)
            await client.complete(planned, record)

    rest = iter(plan)
    tasks += [asyncio.create_task(user(rest)) for _ in range(min(users, len(plan)))]


async def _watch(run: Run, client: OpenAIClient, progress: Progress) -> None:
    while True:
        await asyncio.sleep(PROGRESS_S)
        run.wall_s = client.clock()
        progress(run)
