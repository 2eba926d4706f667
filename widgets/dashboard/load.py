"""Requests at a rate that may change at any time, and bursts, from a thread beside the page.

Arrivals are Poisson: unit-rate gaps are drawn, and the rate says how fast that clock runs (a time
change of a Poisson process, Çinlar 1975), so that a new rate holds at once. Lengths are lognormal
around their medians. Answers are counted and thrown away.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minillm.bench.client import OpenAIClient
    from minillm.bench.plan import PlannedRequest

TICK_S = 0.01
MOST_IN_FLIGHT = 200
RETRY_S = 1.0
TIMEOUT_S = 300.0
DRAWN = 64  # requests drawn at a time
SPREAD = 0.6  # sigma of the lengths' logarithms
LONGEST_PROMPT, LONGEST_OUTPUT = 1500, 400  # tokens
PROMPTS = ("words", "questions")
STOP_S = 3.0


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """rate: requests a second. Lengths: medians, in tokens.

    prompts: "words" of that length, which mean nothing, or the "questions" of minillm/data.
    """

    rate: float = 0.0
    prompt_len: int = 64
    output_len: int = 64
    prompts: str = "words"

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 200:
            raise ValueError(f"The rate must lie between 0 and 200 a second, got {self.rate!r}.")
        if not (1 <= self.prompt_len <= 4096 and 1 <= self.output_len <= 4096):
            lengths = f"{self.prompt_len!r} and {self.output_len!r}"
            raise ValueError(f"Lengths must lie between 1 and 4,096 tokens, got {lengths}.")
        if self.prompts not in PROMPTS:
            raise ValueError(f"Prompts are {' or '.join(PROMPTS)}, got {self.prompts!r}.")


class PoissonClock:
    """How many arrivals fall into each stretch of time, at a rate that may change."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed)
        self._reached, self._due = 0.0, self._random.expovariate(1.0)

    def advance(self, rate: float, dt: float) -> int:
        """Arrivals in the next dt seconds at this rate."""
        self._reached += rate * dt
        count = 0
        while self._reached >= self._due:
            self._due += self._random.expovariate(1.0)
            count += 1
        return count


class Load:
    """See the module's docstring. Counts: sent, done, failed (refused ones too), held back.

    paused: nothing new is sent. `error`: why nothing can be sent, "" while it can.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        self.settings = LoadSettings()
        self.paused = False
        self.sent = self.done = self.failed = self.held_back = 0
        self.error = ""
        self._burst = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task] = set()

    def start(self) -> Load:
        """Begin; harmless when it runs. The first rate and the first burst do it too."""
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(
                target=lambda: asyncio.run(self._run()), name="minillm-load", daemon=True
            )
            self._thread.start()
        return self

    def change(self, **changes: Any) -> None:
        """Other settings from now on. Raises ValueError for what cannot be."""
        self.settings = replace(self.settings, **changes)
        if self.settings.rate:
            self.start()

    def burst(self, count: int) -> None:
        """Send so many at once."""
        self._burst += count
        self.start()

    def close(self) -> None:
        """End all requests, and wait for it."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    # ── on its thread ───────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        from minillm.bench.http_pool import open_pool

        async with open_pool(f"{self.url}/v1", self.key, TIMEOUT_S) as http:
            clients = await self._clients(http)
            if clients:
                await self._send_all(clients)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _clients(self, http: object) -> dict[str, OpenAIClient]:
        """One for each kind of prompt; none when closed before there is a server.

        Words are continued to the length that was drawn; a question is a chat, whose answer may end
        before it.
        """
        from minillm.bench.client import OpenAIClient, Target, find_model

        while not self._stopping.is_set():
            try:
                model = await find_model(http, f"{self.url}/v1", None)
            except (ValueError, OSError) as error:
                self.error = str(error)
                await asyncio.sleep(RETRY_S)
                continue
            self.error = ""
            words = Target(f"{self.url}/v1", model, api_key=self.key, timeout_s=TIMEOUT_S)
            chat = replace(words, endpoint="chat", ignore_eos=False)
            now = time.perf_counter()
            targets = {"words": words, "questions": chat}
            return {kind: OpenAIClient(http, each, now) for kind, each in targets.items()}
        return {}

    async def _send_all(self, clients: dict[str, OpenAIClient]) -> None:
        clock, last = PoissonClock(), time.perf_counter()
        drawn, settings = iter(()), None
        while not self._stopping.is_set():
            await asyncio.sleep(TICK_S)
            now = time.perf_counter()
            count = clock.advance(0.0 if self.paused else self.settings.rate, now - last)
            last = now
            count, self._burst = count + self._burst, 0
            for _ in range(count):
                if self.in_flight >= MOST_IN_FLIGHT:
                    self.held_back += 1
                    continue
                if settings != self.settings:
                    settings = self.settings
                    drawn = draw(settings)
                self._begin(clients[settings.prompts], next(drawn))

    def _begin(self, client: OpenAIClient, planned: PlannedRequest) -> None:
        task = asyncio.create_task(self._one(client, replace(planned, index=self.sent)))
        self.sent += 1
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, client: OpenAIClient, planned: PlannedRequest) -> None:
        from minillm.bench.record import ClientRequest

        record = ClientRequest(planned.index, client.clock(), planned.output_len)
        await client.complete(planned, record)
        self.done += record.completed
        self.failed += record.failed


def draw(settings: LoadSettings, seed: int | None = None) -> Iterator[PlannedRequest]:
    """Requests of these lengths without end. No two prompts of words begin alike."""
    from minillm.bench.plan import SEEDS, Workload
    from minillm.bench.workload import read_prompts

    number = random.Random(seed)
    while True:
        workload = Workload(
            "lognormal", settings.prompt_len, settings.output_len, SPREAD,
            max_input_len=LONGEST_PROMPT, max_output_len=LONGEST_OUTPUT,
            seed=number.randrange(SEEDS),
        )  # fmt: skip
        plan = workload.plan([0.0] * DRAWN)
        if settings.prompts == "questions":
            asked = number.choices(read_prompts(), k=DRAWN)
            plan = [replace(each, text=text) for each, text in zip(plan, asked, strict=True)]
        yield from plan
