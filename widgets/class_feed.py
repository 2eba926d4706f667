"""What a running server's /trace says, as the records of a run: a fold without any I/O.

A connection that broke off goes on after the last step it gave. Then some events come twice and
are dropped here, or, when the server's ring has moved on, a snapshot comes instead of the missing
steps: who is new in it arrives now, who is no longer in it has ended, and `missed` counts the
steps that nobody saw.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from minillm.core.trace import Record, RequestEvent, StepRecord, TraceHeader, parse_record

REMEMBERED = 4096  # events that might come again
UNSEEN = "while nobody looked"


class ClassFeed:
    """Feed it each object of /trace with `take`; the records it returns are new and in order.

    restarted: True once the server, or its stream, is another than before; the caller sets it
    back when it has begun a new picture.
    """

    def __init__(self) -> None:
        self.header: TraceHeader | None = None
        self.stream = self.last_id = ""
        self.last_step = -1
        self.missed = 0
        self.paused = self.restarted = False
        self.waiting = self.running = 0
        self._live: dict[int, str] = {}  # request → id
        self._seen: OrderedDict[tuple[int, str, float], None] = OrderedDict()

    @property
    def in_flight(self) -> int:
        """Requests that have come and not ended."""
        return len(self._live)

    def take(self, event_id: str, data: Mapping[str, Any]) -> list[Record]:
        """The new records in one object of the stream. ValueError for what is no such object."""
        kind = data.get("type")
        records: list[Record] = []
        if kind == "header":
            self._take_header(event_id, data)
        elif kind == "snapshot":
            records = self._take_snapshot(data)
        elif kind == "ping":
            self.paused = bool(data.get("paused"))
        else:
            record = parse_record(dict(data))
            if isinstance(record, StepRecord):
                records = self._take_step(record)
            else:
                records = self._take_event(record)
        self.last_id = event_id or self.last_id
        return records

    def _take_header(self, event_id: str, data: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in data.items() if name != "type"}
        header = TraceHeader(**fields)
        stream = event_id.partition(":")[0]
        if stream != self.stream:
            self.__init__()
            self.stream, self.restarted = stream, True
        self.header = header

    def _take_step(self, step: StepRecord) -> list[Record]:
        if step.step <= self.last_step:
            return []
        if self.last_step >= 0:
            self.missed += step.step - self.last_step - 1
        self.last_step = step.step
        self.waiting, self.running = step.waiting, step.running
        self.paused = False
        return [step]

    def _take_event(self, event: RequestEvent) -> list[Record]:
        key = (event.req, event.event, event.t)
        if key in self._seen:
            return []
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        if event.event == "arrive":
            self._live[event.req] = event.id
        elif event.event in ("finish", "abort", "refuse"):
            self._live.pop(event.req, None)
        return [event]

    def _take_snapshot(self, data: Mapping[str, Any]) -> list[Record]:
        """The picture as of a step, in place of what led to it."""
        begins = self.last_step < 0
        if not begins:
            self.missed += max(data["step"] - self.last_step, 0)
        self.last_step = max(self.last_step, data["step"])
        self.waiting, self.running = data["waiting"], data["running"]
        t, records = data["t"], []
        there = {request["req"] for request in data["requests"]}
        for req, name in [item for item in self._live.items() if item[0] not in there]:
            gone = RequestEvent(t, req, name, "finish", {"reason": UNSEEN})
            records += self._take_event(gone)
        for request in data["requests"]:
            if request["req"] in self._live:
                continue
            kept = ("prompt_len", "max_tokens", "nickname", "prompt_preview")
            arrival = {name: request[name] for name in kept}
            runs = request["status"] == "running"
            # Of one that runs nobody here saw how long it waited: it shows from now on.
            came = t if runs else request["arrived"]
            event = RequestEvent(came, request["req"], request["id"], "arrive", arrival)
            records += self._take_event(event)
            if runs:
                records += self._take_event(
                    replace(event, event="admit", data={"tokens_cached": 0})
                )
        if begins and data["step"] >= 0 and any(each["blocks"] for each in data["requests"]):
            records.append(_held_blocks(data))
        return records


def _held_blocks(data: Mapping[str, Any]) -> StepRecord:
    """Who holds which blocks when a watch begins, as the step that the snapshot is of."""
    ops, seen = [], set()
    for request in data["requests"]:
        for block in request["blocks"]:
            ops.append(("s" if block in seen else "a", block, request["req"]))
            seen.add(block)
    waiting, running, t = data["waiting"], data["running"], data["t"]
    used, cached = data["kv_used"], data["kv_cached"]
    return StepRecord(data["step"], t, t, waiting, running, None, [], used, cached, tuple(ops))
