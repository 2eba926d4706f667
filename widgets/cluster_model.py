"""A cluster over time: what runs and waits on each replica, its KV cache, who is down.

`ClusterHistory` keeps ticks: one time, and a `Load` of each replica. They come from a simulated
cluster that is over (`simulated_history`) or, a sample at a time, from one that runs (`sample`).
Pure Python, standard library. Messages to a view are a dict and bytes:

    {"kind": "snapshot"|"delta", "stream": int, "next": int, "done": bool, "events": [[t, replica,
     "fail"|"return", lost|null]], "header": {...} in snapshots, "event_base": 0}

Bytes, little-endian: magic `MLC1`, u8 version, u8 kind (0 snapshot, 1 delta), u16 replicas, u32
stream, u32 first tick, u32 ticks; then per tick f64 t and per replica u32 running, u32 waiting, u16
KV in use (thousandths), u8 up, u8 0, u32 requests sent there so far. Largest values mean "n/a".
"""

from __future__ import annotations

import math
import random
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import NamedTuple, Protocol

MAGIC, VERSION = b"MLC1", 1
SNAPSHOT, DELTA = 0, 1
HEADER = struct.Struct("<4sBBHIII")  # 20 bytes
TIME = struct.Struct("<d")
LOAD = struct.Struct("<IIHBxI")  # 16 bytes
U16, U32 = 0xFFFF, 0xFFFFFFFF
MAX_TICKS = 4096


class Load(NamedTuple):
    """One replica at one time; None is what could not be read. kv: 0 to 1. sent: so far."""

    running: int | None
    waiting: int | None
    kv: float | None
    up: bool
    sent: int | None = None


class Status(Protocol):
    """What a running cluster says of a replica (minillm.serve.replica.ReplicaStatus)."""

    state: str
    running: int | None
    waiting: int | None
    kv_usage: float | None


@dataclass(frozen=True, slots=True)
class ClusterHeader:
    """names: a replica each. slots: max_num_seqs of each, None where unknown. The rest is where the
    figures come from: provenance "measured" or "simulated"."""

    names: tuple[str, ...]
    router: str
    provenance: str
    device: str = ""
    model: str = ""
    slots: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A replica failed, or came back, at t. lost: requests that were on it, None if unknown."""

    t: float
    replica: int
    kind: str
    lost: int | None = None


@dataclass
class ClusterHistory:
    """The newest `max_ticks` ticks of a cluster, and its failures."""

    header: ClusterHeader
    max_ticks: int = MAX_TICKS
    events: list[ClusterEvent] = field(default_factory=list)
    done: bool = False

    def __post_init__(self) -> None:
        if not self.header.names:
            raise ValueError("A cluster has at least 1 replica, got none.")
        if self.max_ticks < 1:
            raise ValueError(f"max_ticks must be at least 1, got {self.max_ticks}.")
        self.stream = random.SystemRandom().getrandbits(32)
        self.ticks: deque[tuple[float, tuple[Load, ...]]] = deque(maxlen=self.max_ticks)
        self.next = 0  # the number of the tick that comes next

    @property
    def first(self) -> int:
        return self.next - len(self.ticks)

    def add(self, t: float, loads: Sequence[Load]) -> None:
        """One more tick. Raises ValueError for another number of replicas, or a time gone by."""
        if len(loads) != len(self.header.names):
            raise ValueError(f"{len(self.header.names)} replicas need as many, got {len(loads)}.")
        if self.ticks and t < self.ticks[-1][0]:
            raise ValueError(f"A tick at {t:g} s came after one at {self.ticks[-1][0]:g} s.")
        self.ticks.append((t, tuple(loads)))
        self.next += 1

    def sample(self, t: float, statuses: Iterable[Status]) -> None:
        """Take what a running cluster says of its replicas, t seconds after its first request.

        A replica that is no longer up has failed, one that is up again has returned.
        """
        loads = [Load(s.running, s.waiting, s.kv_usage, s.state == "up") for s in statuses]
        before = self.ticks[-1][1] if self.ticks else loads
        self.add(t, loads)
        for replica, (old, new) in enumerate(zip(before, loads, strict=True)):
            if old.up != new.up:
                lost = None
                if old.up and old.running is not None and old.waiting is not None:
                    lost = old.running + old.waiting
                kind = "return" if new.up else "fail"
                self.events.append(ClusterEvent(t, replica, kind, None if new.up else lost))

    def message(self, first: int | None = None) -> tuple[dict, bytes]:
        """The ticks from number `first` on; all of them, and the header, where that is unknown."""
        whole = first is None or not self.first <= first <= self.next
        start = self.first if whole else first
        ticks = list(self.ticks)[start - self.first :]
        kind = SNAPSHOT if whole else DELTA
        count = len(self.header.names)
        head = HEADER.pack(MAGIC, VERSION, kind, count, self.stream, start, len(ticks))
        body = [TIME.pack(t) + b"".join(map(_pack, loads)) for t, loads in ticks]
        text = {
            "kind": "snapshot" if whole else "delta",
            "stream": self.stream,
            "next": self.next,
            "done": self.done,
            "events": [[e.t, e.replica, e.kind, e.lost] for e in self.events],
        }
        if whole:
            text["header"] = asdict(self.header)
        return text, b"".join([head, *body])


def _pack(load: Load) -> bytes:
    def whole(value: int | None, limit: int) -> int:
        return limit if value is None else min(value, limit - 1)

    # Cut, not rounded: 100 % is a full cache and nothing less.
    kv = None if load.kv is None else int(max(0.0, min(load.kv, 1.0)) * 1000)
    running, waiting, sent = (whole(x, U32) for x in (load.running, load.waiting, load.sent))
    return LOAD.pack(running, waiting, whole(kv, U16), load.up, sent)


# ── from a simulation ───────────────────────────────────────────────────────────────────────────


class _Spell(NamedTuple):
    """A replica's load from `start` on, until the next spell."""

    start: float
    running: int
    waiting: int
    kv_used: int


_IDLE = _Spell(0.0, 0, 0, 0)


def simulated_history(
    cluster: object, names: Sequence[str] = (), *, ticks: int = 1200
) -> ClusterHistory:
    """The history of a minillm.sim.cluster.Cluster that has served (with keep_traces).

    Each tick shows, of the steps in it, the one with the most requests, so that no peak is lost.
    Raises ValueError when the traces were not kept.
    """
    replicas = cluster.replicas
    traces = [[engine.trace for engine in replica.engines] for replica in replicas]
    if not cluster.keep_traces or not any(trace.steps for group in traces for trace in group):
        raise ValueError("The cluster has no traces: run it with keep_traces=True.")
    end = max(trace.steps[-1].t_end for group in traces for trace in group if trace.steps)
    width = end / ticks
    header = _header(cluster, traces, names)
    history = ClusterHistory(header, ticks + 1, _failures(cluster, traces))
    spells = [_binned(group, width, ticks) for group in traces]
    sent = [_counted(times, width, ticks) for times in _sent(cluster, traces)]
    blocks = [group[0].header.num_blocks for group in traces]
    for i in range(ticks + 1):
        loads = []
        for r in range(len(replicas)):
            down = _is_down(cluster.failures, r, i * width)
            spell = _IDLE if down else spells[r][i]
            kv = spell.kv_used / blocks[r]
            loads.append(Load(spell.running, spell.waiting, kv, not down, sent[r][i]))
        history.add(i * width, loads)
    history.done = True
    return history


def _header(cluster: object, traces: list[list], names: Sequence[str]) -> ClusterHeader:
    heads = [group[0].header for group in traces]
    given = list(names) or [head.device for head in heads]
    kinds = ", ".join(dict.fromkeys(head.device for head in heads))
    slots = tuple(head.config.get("max_num_seqs") for head in heads)
    return ClusterHeader(
        tuple(map(str, given)), cluster.router.name, heads[0].provenance, kinds, heads[0].model,
        slots,
    )  # fmt: skip


def _binned(group: list, width: float, ticks: int) -> list[_Spell]:
    """The load in each tick: of its steps the one with the most requests, else what goes on."""
    found: list[_Spell | None] = [None] * (ticks + 1)
    for trace in group:
        for step, after in pairwise([*trace.steps, None]):
            spell = _Spell(step.t_start, len(step.raw_rows), step.waiting, step.kv_used)
            until = step.t_end if after is None else min(step.t_end, after.t_start)
            first = min(int(step.t_start / width), ticks)
            for i in range(first, min(max(first + 1, math.ceil(until / width)), ticks + 1)):
                old = found[i]
                if old is None or spell.running + spell.waiting >= old.running + old.waiting:
                    found[i] = spell
    return [spell or _IDLE for spell in found]


def _deaths(cluster: object, replica: int) -> list[float | None]:
    """When each engine of a replica was lost, None for one that lasted; in order."""
    starts = [failure.start for failure in cluster.failures if failure.replica == replica]
    return [*starts, None]


def _lost(trace: object, death: float) -> set[str]:
    """The requests on an engine when it was lost. What the step under way would have given, and
    the trace still tells, nobody heard."""
    on_it = {event.id for event in trace.events if event.event == "arrive"}
    ends = ("finish", "abort", "refuse")
    return on_it - {e.id for e in trace.events if e.event in ends and e.t < death}


def _failures(cluster: object, traces: list[list]) -> list[ClusterEvent]:
    """lost counts the requests that had reached the replica's queue."""
    out = []
    for replica, group in enumerate(traces):
        for trace, death in zip(group, _deaths(cluster, replica), strict=False):
            if death is not None:
                out.append(ClusterEvent(death, replica, "fail", len(_lost(trace, death))))
    for failure in cluster.failures:
        if failure.end is not None:
            out.append(ClusterEvent(failure.end, failure.replica, "return"))
    return sorted(out, key=lambda event: event.t)


def _is_down(failures: Iterable, replica: int, t: float) -> bool:
    return any(
        f.replica == replica and f.start <= t and (f.end is None or t < f.end) for f in failures
    )


def _sent(cluster: object, traces: list[list]) -> list[list[float]]:
    """When each replica was sent a request. One that a failure lost was sent again then, though
    its arrival still counts from the first time."""
    lost: dict[str, list[float]] = {}
    for replica, group in enumerate(traces):
        for trace, death in zip(group, _deaths(cluster, replica), strict=False):
            for request_id in _lost(trace, death) if death is not None else ():
                lost.setdefault(request_id, []).append(death)
    out = []
    for replica, group in enumerate(traces):
        times = []
        for trace, death in zip(group, _deaths(cluster, replica), strict=False):
            until = float("inf") if death is None else death
            for event in trace.events:
                if event.event == "arrive":
                    before = [t for t in lost.get(event.id, ()) if t < until]
                    times.append(max([event.t, *before]))
        out.append(sorted(times))
    return out


def _counted(times: Sequence[float], width: float, ticks: int) -> list[int]:
    """How many of the times lie before the end of each tick."""
    out, at = [], 0
    for i in range(ticks + 1):
        while at < len(times) and times[at] < (i + 1) * width:
            at += 1
        out.append(at)
    return out
