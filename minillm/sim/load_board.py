"""What a router knows: the requests on each replica, as counted now or some seconds ago."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from minillm.sim.routers import Load


class LoadBoard:
    """Counts what was sent to each replica and not yet got back; shows it `age` seconds late.

    age 0: the router counts itself, as nginx does. age > 0: it hears of loads, its own requests
    too, only after that time (metrics polled or gossiped). Whether a replica is up it knows at
    once.
    """

    def __init__(self, num_replicas: int, age: float = 0.0) -> None:
        self.age = age
        self._live = [[0, 0, 0] for _ in range(num_replicas)]  # connections, prefill, kv
        self._seen = [Load(i, 0, 0, 0) for i in range(num_replicas)]
        self._late: deque[tuple[float, Load]] = deque()

    def change(
        self, now: float, index: int, connections: int = 0, prefill: int = 0, kv: int = 0
    ) -> None:
        """Add to a replica's counts at time `now` (times never go back)."""
        counts = self._live[index]
        counts[0] += connections
        counts[1] += prefill
        counts[2] += kv
        if self.age:
            self._late.append((now, Load(index, *counts)))

    def clear(self, now: float, index: int) -> None:
        """The replica lost everything."""
        self.change(now, index, *(-count for count in self._live[index]))

    def view(self, now: float, up: Sequence[int]) -> list[Load]:
        """The loads of the replicas `up` as the router sees them at time `now`."""
        if not self.age:
            return [Load(i, *self._live[i]) for i in up]
        late, seen = self._late, self._seen
        while late and late[0][0] <= now - self.age:
            load = late.popleft()[1]
            seen[load.index] = load
        return [seen[i] for i in up]
