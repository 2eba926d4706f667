"""A finished run, at any of its times: what had happened by then. No ipywidgets here.

Times are seconds since the run's first request, as the shared cursor has them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from minillm.core.trace import PREFILL, Record, RequestEvent, StepRecord, Trace, letter
from widgets.tally import RunningFigures

MOST_STEPS = 8192  # what the figures keep
ENDED = ("finish", "abort", "refuse")


class ReplayModel:
    """trace: at most its first 8,192 steps are shown; `left_out` says how many are not.

    starts: when each step begins. end: the last time that a record tells of.
    Raises ValueError for a trace without steps.
    """

    def __init__(self, trace: Trace) -> None:
        if not trace.steps:
            raise ValueError("The trace has no step: there is nothing to show.")
        self.left_out = max(0, len(trace.steps) - MOST_STEPS)
        self.trace = _beginning(trace) if self.left_out else trace
        figures = RunningFigures()
        for record in self.trace.records:
            if isinstance(record, StepRecord):
                figures.add_step(record)
            else:
                figures.add_event(record.t)
                if record.event == "arrive":
                    figures.add_arrival(record.t)
        self.origin = figures.first_arrival or 0.0
        self.end = max(figures.now - self.origin, 0.0)
        self.starts = [max(0.0, step.t_start - self.origin) for step in self.trace.steps]
        self._ordered = sorted(self.trace.records, key=_when)
        self._times = [_when(record) - self.origin for record in self._ordered]

    def position(self, t: float | None) -> int:
        """How many records have happened by time t (None: all)."""
        return len(self._times) if t is None else bisect_right(self._times, t + 1e-9)

    def between(self, first: int, last: int) -> list[Record]:
        """The records from position `first` up to `last`."""
        return self._ordered[first:last]

    def step_at(self, t: float | None) -> int | None:
        """Number, from 0, of the step that runs at t or the last one before; None before all."""
        if t is None:
            return len(self.starts) - 1
        number = bisect_right(self.starts, t + 1e-9) - 1
        return number if number >= 0 else None


def _when(record: Record) -> float:
    return record.t_end if isinstance(record, StepRecord) else record.t


def _beginning(trace: Trace) -> Trace:
    """The trace up to its step number MOST_STEPS."""
    found = Trace(trace.header)
    for record in trace.records:
        if isinstance(record, StepRecord) and len(found.steps) == MOST_STEPS:
            break
        found.add(record)
    return found


@dataclass(slots=True)
class Asked:
    """A request as it stands. prompt, limit: tokens; None where the trace does not tell."""

    index: int
    name: str
    arrived: float
    prompt: int | None = None
    limit: int | None = None
    preview: str = ""
    state: str = "queued"
    tokens: int = 0
    read: int = 0  # prompt tokens whose KV is written
    first_token: float | None = None

    @property
    def in_flight(self) -> bool:
        return self.state in ("queued", "reads its prompt", "generates", "preempted")


class Situation:
    """What a run's records add up to, taken one after the other. Times as in the trace."""

    def __init__(self) -> None:
        self.requests: dict[int, Asked] = {}
        self.output_tokens = self.steps = 0

    def take(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, StepRecord):
                self._step(record)
            else:
                self._event(record)

    def in_flight(self) -> Iterator[Asked]:
        """Who runs or waits, by arrival."""
        return (asked for asked in self.requests.values() if asked.in_flight)

    @property
    def ended(self) -> int:
        return sum(not asked.in_flight for asked in self.requests.values())

    def _step(self, step: StepRecord) -> None:
        self.steps += 1
        for req, kind, n_tokens, _, start, token in step.raw_rows:
            asked = self._asked(req, step.t_start)
            if kind == PREFILL:
                asked.read = start + n_tokens
                if asked.in_flight:
                    asked.state = "reads its prompt"
            if token is None:
                continue
            self.output_tokens += 1
            asked.tokens += 1
            if asked.first_token is None:
                asked.first_token = step.t_end
            if asked.in_flight:
                asked.state = "generates"

    def _event(self, event: RequestEvent) -> None:
        asked = self._asked(event.req, event.t)
        if event.event == "arrive":
            asked.arrived = event.t
            asked.prompt, asked.limit = event.data.get("prompt_len"), event.data.get("max_tokens")
            asked.preview = str(event.data.get("prompt_preview") or "")
        elif event.event == "admit" and asked.in_flight:
            asked.state, asked.read = "reads its prompt", event.data.get("tokens_cached") or 0
        elif event.event == "preempt":
            asked.state, asked.read = "preempted", 0
        elif event.event in ENDED:
            reason = event.data.get("reason") or event.event
            asked.state = f"done ({reason})" if event.event == "finish" else str(reason)

    def _asked(self, req: int, t: float) -> Asked:
        if req not in self.requests:
            self.requests[req] = Asked(req, letter(req), t)
        return self.requests[req]
