"""What a late watcher has to know: the live requests, folded from a trace's records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from minillm.core.trace import Record, StepRecord

LAST_WORDS = ("finish", "abort", "refuse")


@dataclass(slots=True)
class LiveRequest:
    """One request as of now: tokens computed and given out, block ids in order."""

    req: int
    id: str
    nickname: str | None
    prompt_len: int | None  # None: turned away before anybody counted
    max_tokens: int | None
    prompt_preview: str
    arrived: float
    status: str = "waiting"  # waiting, running, preempted
    computed: int = 0
    output_tokens: int = 0
    blocks: list[int] = field(default_factory=list)


class TraceState:
    """The live requests by index, as of the last record."""

    def __init__(self) -> None:
        self.requests: dict[int, LiveRequest] = {}
        self.step = -1  # the last one
        self.kv_used = self.kv_cached = 0  # blocks, after that step
        self.t = 0.0
        self._ended: list[int] = []  # their last rows come with the step that is under way

    def owner(self, record: Record) -> tuple[str | None, ...]:
        """Whose a record is that has not been taken yet: of a step, row by row."""
        if not isinstance(record, StepRecord):
            return (record.data.get("nickname"),)
        known = self.requests
        return tuple(known[row[0]].nickname if row[0] in known else None for row in record.raw_rows)

    def take(self, record: Record) -> None:
        """Take in the next record of the trace."""
        if isinstance(record, StepRecord):
            self._take_step(record)
            return
        self.t = max(self.t, record.t)
        if record.event == "arrive":
            data = record.data
            self.requests[record.req] = LiveRequest(
                record.req, record.id, data["nickname"], data["prompt_len"], data["max_tokens"],
                data["prompt_preview"], record.t,
            )  # fmt: skip
            return
        request = self.requests.get(record.req)
        if request is None:
            return
        if record.event == "admit":
            request.status, request.computed = "running", record.data["tokens_cached"]
        elif record.event == "preempt":
            request.status, request.computed = "preempted", 0
        elif record.event in LAST_WORDS:
            if request.status == "running":
                self._ended.append(record.req)
            else:  # no row of it will come
                del self.requests[record.req]
            request.status = "finished"

    def _take_step(self, record: StepRecord) -> None:
        self.step, self.t = record.step, record.t_end
        for req, _, n_tokens, _, start, token_id in record.raw_rows:
            request = self.requests.get(req)
            if request is not None:
                request.computed = start + n_tokens
                request.output_tokens += token_id is not None
        for op, block, req in record.blocks:
            request = self.requests.get(req)
            if request is None:
                continue
            if op == "f":
                request.blocks = [held for held in request.blocks if held != block]
            elif op in "as":
                request.blocks.append(block)
        for req in self._ended:
            self.requests.pop(req, None)
        self._ended.clear()
        self.kv_used, self.kv_cached = record.kv_used, record.kv_cached

    def snapshot(self, shows: Callable[[str | None], bool]) -> dict[str, Any]:
        """The state as one object of /trace. shows(nickname): whether that one's text is shown."""
        live = [asdict(r) for r in self.requests.values() if r.status != "finished"]
        for request in live:
            if not shows(request["nickname"]):
                request["prompt_preview"] = ""
        running = sum(request["status"] == "running" for request in live)
        return {
            "type": "snapshot", "step": self.step, "t": self.t,
            "waiting": len(live) - running, "running": running,
            "kv_used": self.kv_used, "kv_cached": self.kv_cached, "requests": live,
        }  # fmt: skip
