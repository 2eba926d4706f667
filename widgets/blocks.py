"""The KV blocks of a run, step by step: who holds which, what is cached, what was taken back.

`BlockState` folds a trace's records; `BlockRing` is the ring model (widgets.frames) whose frames
carry the block operations too, and whose snapshots say how the blocks stood before their first
step. No ipywidgets here. JavaScript does the same fold (static/block_map/model.js); both are tested
on one golden file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator

from minillm.core.trace import DEAD, RequestEvent, StepRecord, TraceHeader
from widgets.frames import SNAPSHOT, RingModel
from widgets.wire import HEADER, OP, OPS, ROW_START, STEP_BLOCKS, WITH_BLOCKS

SAME = 1e-9  # seconds: an event of the step that starts then


class BlockState:
    """The blocks after some step.

    tables: request → its blocks in order of tokens. computed: request → tokens whose KV is written.
    cached: blocks nobody holds that a prefix may still hit. The rest is of the last step alone:
    taken: block → the preempted request that gave it back; hits: block → who found it cached or in
    use by others; evicted: blocks whose cached content was dropped.
    """

    def __init__(self, num_blocks: int = 0, block_size: int = 1) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tables: dict[int, list[int]] = {}
        self.computed: dict[int, int] = {}
        self.cached: set[int] = set()
        self._forget_marks()

    def _forget_marks(self) -> None:
        self.taken: dict[int, int] = {}
        self.hits: dict[int, int] = {}
        self.evicted: set[int] = set()

    def take(self, record: StepRecord, preempted: Iterable[int] = ()) -> None:
        """Take in the next step. preempted: the requests that it threw out."""
        self._forget_marks()
        out = set(preempted)
        for op, block, req in record.raw_blocks:
            if op in "as":
                self.tables.setdefault(req, []).append(block)
                self.cached.discard(block)
                if op == "s":
                    self.hits[block] = req
            elif op == "f":
                self._release(block, req)
                if req in out:
                    self.taken[block] = req
            elif op == "e":
                self.cached.discard(block)
                self.evicted.add(block)
            else:
                self.cached.add(block)
        for req, kind, n_tokens, _, start, _ in record.raw_rows:
            if kind != DEAD and req in self.tables:
                self.computed[req] = start + n_tokens

    def _release(self, block: int, req: int) -> None:
        table = self.tables.get(req, [])
        if block in table:  # a stream that began in the middle may free what it did not see
            table.remove(block)
        if not table:
            self.tables.pop(req, None)
            self.computed.pop(req, None)

    # ── questions ───────────────────────────────────────────────────────────────────────────

    def owners(self) -> dict[int, list[int]]:
        """Block → the requests that hold it, in order of index; blocks without one are left out."""
        owners: dict[int, list[int]] = {}
        for req in sorted(self.tables):
            for block in self.tables[req]:
                owners.setdefault(block, []).append(req)
        return owners

    @property
    def num_used(self) -> int:
        """Blocks that somebody holds."""
        return len({block for table in self.tables.values() for block in table})

    @property
    def num_free(self) -> int:
        """Blocks with nothing in them: neither held nor cached."""
        return self.num_blocks - self.num_used - len(self.cached)

    def filled(self, block: int) -> int:
        """Tokens whose KV stands in a held block, 0 to block_size."""
        best = 0
        for req, table in self.tables.items():
            if block in table:
                left = self.computed.get(req, 0) - table.index(block) * self.block_size
                best = max(best, min(max(left, 0), self.block_size))
        return best

    def as_dict(self) -> dict:
        """What a view needs to go on from here."""
        return {
            "num_blocks": self.num_blocks,
            "block_size": self.block_size,
            "tables": {str(req): table for req, table in self.tables.items()},
            "computed": {str(req): n for req, n in self.computed.items()},
            "cached": sorted(self.cached),
        }


class BlockRing(RingModel):
    """A ring whose frames have the blocks' part, and whose snapshots the state before them.

    A snapshot's message has besides "blocks": BlockState.as_dict() before the frame's first step.
    """

    def reset(self, header: TraceHeader | None = None) -> None:
        super().reset(header)
        sizes = (header.num_blocks, header.block_size) if header else ()
        self._before = BlockState(*sizes)  # before the oldest step of the ring

    def _dropped(self, record: StepRecord) -> None:
        self._before.take(record)

    def state(self, number: int) -> BlockState:
        """The blocks after step `number`. Raises ValueError when the ring does not hold it."""
        if not self.first_step <= number < self.next_step:
            raise ValueError(
                f"The ring holds steps {self.first_step} to {self.next_step - 1}, not {number}."
            )
        return self._fold(number + 1)

    def _fold(self, end: int) -> BlockState:
        """The blocks before step `end`, its number in the ring."""
        state = copy.deepcopy(self._before)
        out = preemptions(self.events())
        for number, record in enumerate(self.records(), self.first_step):
            if number >= end:
                break
            state.take(record, out.get(_instant(record.t_start), ()))
        return state

    def _message(
        self, kind: int, first: int, events: list[RequestEvent], first_event: int
    ) -> tuple[dict, bytes]:
        message, data = super()._message(kind, first, events, first_event)
        records = [encoded.record for encoded in self._part(first)]
        flags = HEADER.unpack_from(data)
        head = HEADER.pack(*flags[:3], flags[3] | WITH_BLOCKS, *flags[4:])
        steps = b"".join(STEP_BLOCKS.pack(r.kv_cached, len(r.raw_blocks)) for r in records)
        starts = b"".join(ROW_START.pack(row[4]) for r in records for row in r.raw_rows)
        ops = b"".join(
            OP.pack(block, req, OPS.index(op)) for r in records for op, block, req in r.raw_blocks
        )
        if kind == SNAPSHOT:
            message["blocks"] = self._fold(first).as_dict()
        return message, b"".join([head, data[HEADER.size :], steps, starts, ops])


def _instant(t: float) -> int:
    """A time as a key: equal for times that differ by less than SAME."""
    return round(t / SAME)


def preemptions(events: Iterable[RequestEvent]) -> dict[int, list[int]]:
    """The requests thrown out, by the instant (of a step's start) at which they were."""
    out: dict[int, list[int]] = {}
    for event in events:
        if event.event == "preempt":
            out.setdefault(_instant(event.t), []).append(event.req)
    return out


def block_history(
    records: Iterable[StepRecord], events: Iterable[RequestEvent], header: TraceHeader
) -> Iterator[tuple[StepRecord, BlockState]]:
    """Each step with the state after it; the state is one object, changed in place."""
    state, out = BlockState(header.num_blocks, header.block_size), preemptions(events)
    for record in records:
        state.take(record, out.get(_instant(record.t_start), ()))
        yield record, state
