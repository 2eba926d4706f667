"""A run as a queue: who waits, who is served, and Little's law on the sample itself.

Pure Python, from a trace's events alone (arrive, admit, preempt, finish, abort, refuse); a queue
simulated without an engine may give just these. JavaScript computes the same for the live view
(static/queue/model.js); both are tested on one golden file.

Little's law, L = λ·W, holds exactly on a sample that begins and ends empty: with n requests in T
seconds, λ = n/T, W = Σ stays / n, and L = Σ stays / T is the time average of the number there
(Little, Operations Research 9, 1961). Where requests are still there, their stays count so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from minillm.core.trace import RequestEvent, Row, Trace
from widgets.frames import RingModel

WAITING, SERVED, DONE = "waiting", "served", "done"
STATES = {
    "arrive": WAITING, "admit": SERVED, "preempt": WAITING,
    "finish": DONE, "abort": DONE, "refuse": DONE,
}  # fmt: skip


class EventRing(RingModel):
    """A ring whose frames carry steps and events, no rows: all that a queue is made of."""

    def _encode_row(self, step: int, row: Row) -> bytes:
        return b""


@dataclass(slots=True)
class Visit:
    """One request's way through: its states as (since, state), in order of time."""

    req: int
    changes: list[tuple[float, str]] = field(default_factory=list)

    @property
    def arrive(self) -> float:
        return self.changes[0][0]

    def spent(self, state: str, until: float) -> float:
        """Seconds in a state up to `until`."""
        ends = [t for t, _ in self.changes[1:]] + [until]
        spans = zip(self.changes, ends, strict=True)
        return sum(
            max(0.0, min(end, until) - min(since, until))
            for (since, each), end in spans
            if each == state
        )


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """A sample's figures. rate: λ, arrivals a second; stay: W, mean seconds in the system, of that
    `wait` in the queue; mean: L, mean number in the system. ended: everybody has left."""

    count: int
    rate: float
    stay: float
    mean: float
    wait: float
    ended: bool

    @property
    def mean_waiting(self) -> float:
        """Mean number in the queue: λ times the mean wait."""
        return self.rate * self.wait


def visits(events: Iterable[RequestEvent]) -> list[Visit]:
    """Everybody who arrived, in order of arrival; times count from the first arrival."""
    found: dict[int, Visit] = {}
    events = list(events)
    origin = min((event.t for event in events if event.event == "arrive"), default=0.0)
    for event in events:
        state = STATES.get(event.event)
        if state is None or (event.event != "arrive" and event.req not in found):
            continue
        found.setdefault(event.req, Visit(event.req)).changes.append((event.t - origin, state))
    return sorted(found.values(), key=lambda visit: (visit.arrive, visit.req))


def last_time(trace: Trace) -> float:
    """The last second that the trace tells of, counted from the first arrival."""
    origin = min((event.t for event in trace.events if event.event == "arrive"), default=0.0)
    times = [event.t for event in trace.events] + [step.t_end for step in trace.steps[-1:]]
    return max(times, default=origin) - origin


def queue_figures(trace: Trace) -> QueueFigures | None:
    """Little's law on this run's own sample; None before any time has passed."""
    all_visits, now = visits(trace.events), last_time(trace)
    if not all_visits or now <= 0:
        return None
    n = len(all_visits)
    wait = sum(visit.spent(WAITING, now) for visit in all_visits)
    stay = wait + sum(visit.spent(SERVED, now) for visit in all_visits)
    ended = all(visit.changes[-1][1] == DONE for visit in all_visits)
    return QueueFigures(n, n / now, stay / n, stay / now, wait / n, ended)


def counts(trace: Trace, *, waiting: bool = False) -> list[tuple[float, int]]:
    """How many are in the system (or only in the queue) from each instant on."""
    inside = (WAITING,) if waiting else (WAITING, SERVED)
    moves: Counter[float] = Counter()
    for visit in visits(trace.events):
        before = False
        for t, state in visit.changes:
            moves[t] += (state in inside) - before
            before = state in inside
    number, out = 0, []
    for t in sorted(moves):
        number += moves[t]
        out.append((t, number))
    return out
