"""Who uses the server how much: figures per nickname, folded from the engine's own trace.

`take` is called by the engine thread with each record, `rows` by anybody. Rates and shares are
over the last 10 s of the engine's clock: an instructor wants to see who floods now.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from minillm.core.trace import Record, RequestEvent, StepRecord

WINDOW_S = 10.0
MAX_ROWS = 200
LAST_WORDS = ("finish", "abort", "refuse")


@dataclass(slots=True)
class StudentFigures:
    """One nickname. tok_s: output tokens a second; share: of all tokens computed, prompts too.

    Both over the last WINDOW_S seconds; share is None while nothing was computed. refused: since
    the start. last: seconds on the engine's clock when something of theirs happened.
    """

    nickname: str
    running: int = 0
    waiting: int = 0
    tok_s: float = 0.0
    share: float | None = None
    requests: int = 0
    output_tokens: int = 0
    refused: int = 0
    last: float = 0.0

    @property
    def in_flight(self) -> int:
        return self.running + self.waiting


class ClassTally:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._students: dict[str, StudentFigures] = {}
        self._live: dict[int, tuple[str, bool]] = {}  # request → nickname, whether it runs
        self._ended: set[int] = set()  # their last rows come with the step that is under way
        self._window: deque[tuple[float, Counter[str], Counter[str]]] = deque()

    def take(self, records: Iterable[Record]) -> None:
        """Count what happened since the last call."""
        with self._lock:
            for record in records:
                if isinstance(record, StepRecord):
                    self._take_step(record)
                else:
                    self._take_event(record)

    def rows(self, now: float) -> list[dict[str, Any]]:
        """Who takes most first, then who is in flight, then by name. now: the engine's clock."""
        with self._lock:
            self._forget(now - WINDOW_S)
            tokens: Counter[str] = Counter()
            work: Counter[str] = Counter()
            for _, some_tokens, some_work in self._window:
                tokens.update(some_tokens)
                work.update(some_work)
            flight: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for req, (nickname, runs) in self._live.items():
                if req not in self._ended:
                    flight[nickname][runs] += 1
            all_work = work.total()
            for name, student in self._students.items():
                student.waiting, student.running = flight[name]
                student.tok_s = tokens[name] / WINDOW_S
                student.share = work[name] / all_work if all_work else None
            order = sorted(
                self._students.values(),
                key=lambda s: (-(s.share or 0.0), -s.in_flight, s.nickname.casefold()),
            )
            return [asdict(s) | {"in_flight": s.in_flight} for s in order[:MAX_ROWS]]

    def welcome(self, nickname: str, now: float) -> None:
        """Somebody has joined and asked for nothing yet."""
        with self._lock:
            self._student(nickname, now)

    def _take_step(self, step: StepRecord) -> None:
        tokens: Counter[str] = Counter()
        work: Counter[str] = Counter()
        for req, _, n_tokens, n_padding, _, token_id in step.raw_rows:
            nickname, _ = self._live.get(req, ("", False))
            if nickname:
                work[nickname] += n_tokens + n_padding
                tokens[nickname] += token_id is not None
        for nickname, count in tokens.items():
            student = self._student(nickname, step.t_end)
            student.output_tokens += count
        self._window.append((step.t_end, tokens, work))
        self._forget(step.t_end - WINDOW_S)
        for req in self._ended:
            self._live.pop(req, None)
        self._ended.clear()

    def _take_event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            nickname = event.data["nickname"]
            if nickname:
                self._live[event.req] = (nickname, False)
                self._student(nickname, event.t).requests += 1
            return
        if event.req not in self._live:
            return
        nickname, runs = self._live[event.req]
        student = self._student(nickname, event.t)
        if event.event in ("admit", "preempt"):
            self._live[event.req] = (nickname, event.event == "admit")
        elif event.event in LAST_WORDS:
            student.refused += event.event == "refuse"
            if runs:
                self._ended.add(event.req)
            else:  # no row of it will come
                del self._live[event.req]

    def _student(self, nickname: str, t: float) -> StudentFigures:
        student = self._students.setdefault(nickname, StudentFigures(nickname))
        student.last = max(student.last, t)
        return student

    def _forget(self, before: float) -> None:
        while self._window and self._window[0][0] < before:
            self._window.popleft()
