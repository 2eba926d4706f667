"""What the trace has told of each request so far: its times, its tokens, the blocks it holds."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from minillm.core.trace import Record, RequestEvent, StepRecord

REMEMBERED = 1024  # requests; the oldest are forgotten first
ENDED = ("finish", "abort", "refuse")


@dataclass(slots=True)
class KnownRequest:
    """One request. times: seconds by event, and "token" for its first one that was seen here.

    tokens: output ids, −1 where one may not see them; before: how many had come unseen.
    """

    req: int
    id: str
    prompt: str
    prompt_len: int | None
    max_tokens: int | None
    times: dict[str, float]
    tokens: array = field(default_factory=lambda: array("i"))
    before: int = 0
    blocks: int = 0
    ended: str = ""  # how: length, stop, abort, … ; "" while it lives

    @property
    def num_tokens(self) -> int:
        """Output tokens by now, those before one came to look too."""
        return self.before + len(self.tokens)

    def since_arrival(self, event: str) -> float | None:
        """Seconds from arrival to that event; None: not yet, or it was before one came."""
        if event not in self.times or (event == "token" and self.before):
            return None
        return self.times[event] - self.times["arrive"]


class Requests:
    """The requests of one engine; feed it the trace's records in order."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, KnownRequest] = OrderedDict()
        self._index: dict[str, int] = {}

    def take(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, StepRecord):
                self._step(record)
            else:
                self._event(record)

    def get(self, req: int | None) -> KnownRequest | None:
        """The request of that index in the trace; None: never heard of, or forgotten."""
        return self._known.get(req)

    def named(self, request_id: str) -> KnownRequest | None:
        """The request of that id; None while the trace has not told of it."""
        return self._known.get(self._index.get(request_id))

    def _event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            data = event.data
            self._known[event.req] = KnownRequest(
                event.req, event.id, data.get("prompt_preview") or "", data.get("prompt_len"),
                data.get("max_tokens"), {"arrive": event.t},
            )  # fmt: skip
            self._index[event.id] = event.req
            if len(self._known) > REMEMBERED:
                _, gone = self._known.popitem(last=False)
                self._index.pop(gone.id, None)
            return
        known = self._known.get(event.req)
        if known is not None:
            known.times.setdefault(event.event, event.t)
            if event.event in ENDED:
                known.ended = event.data.get("reason") or event.event

    def _step(self, step: StepRecord) -> None:
        for req, _, n_tokens, _, start, token in step.raw_rows:
            known = self._known.get(req)
            if known is None or token is None:
                continue
            if not known.tokens:
                known.times["token"] = step.t_end
                had = known.prompt_len  # tokens of the prompt
                known.before = 0 if had is None else max(start + n_tokens - had, 0)
            known.tokens.append(token)
        for op, _, req in step.raw_blocks:
            known = self._known.get(req)
            if known is not None and op in "asf":
                known.blocks += -1 if op == "f" else 1
