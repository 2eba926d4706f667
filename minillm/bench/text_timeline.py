"""A run as text: one line a slot, one column a span of time, for terminals and screen readers.

    continuous │aAAAAAAAAAAAAAdDDDDDDDDDDDD         a request's letter: capital = decode,
               │bBBBBBcCCCCCCCCCCCC········         small = prefill, ░ padding, · empty slot
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from minillm.core.trace import DEAD, PREFILL, StepRecord, Trace, letter

PADDING, EMPTY, BEYOND = "░", "·", " "
LEGEND = "A request's letter: small while its prompt is read, capital for each decode; ░ padding."
MAX_SLOTS = 16


def slots_of(trace: Trace) -> dict[int, int]:
    """Request index → slot: the lowest one that is free from its first row to its last."""
    last = {row.req_idx: step.step for step in trace.steps for row in step.rows}
    slots: dict[int, int] = {}
    busy: dict[int, int] = {}  # slot → the request that holds it
    for step in trace.steps:
        for slot, holder in list(busy.items()):
            if last[holder] < step.step:
                del busy[slot]
        for row in step.rows:
            if row.req_idx not in slots:
                slot = next(i for i in range(len(busy) + 1) if i not in busy)
                slots[row.req_idx] = slot
                busy[slot] = row.req_idx
    return slots


def timeline(trace: Trace, width: int = 80, seconds: float | None = None) -> list[str]:
    """One line a slot, `width` characters for `seconds` (None: the run's own length).

    Within a column the latest step is shown, but a prefill wins, so that short ones are seen.
    """
    steps = trace.steps
    if not steps:
        return []
    start = min((event.t for event in trace.events), default=steps[0].t_start)
    span = seconds or steps[-1].t_end - start
    slots = slots_of(trace)
    num_slots = min(max(slots.values()) + 1, MAX_SLOTS)
    lines = [[BEYOND] * width for _ in range(num_slots)]
    starts = [step.t_start for step in steps]
    for column in range(width):
        begin, end = (start + span * (column + i) / width for i in (0, 1))
        first = max(bisect_right(starts, begin) - 1, 0)
        shown = [s for s in steps[first : bisect_left(starts, end)] if s.t_end > begin]
        if end <= steps[-1].t_end or shown:
            for line in lines:
                line[column] = EMPTY
        for step in shown:
            _draw(lines, column, step, slots)
    hidden = max(slots.values()) + 1 - num_slots
    note = [f"… and {hidden} more slots"] if hidden else []
    return ["".join(line) for line in lines] + note


def _draw(lines: list[list[str]], column: int, step: StepRecord, slots: dict[int, int]) -> None:
    for row in step.rows:
        slot = slots[row.req_idx]
        if slot >= len(lines) or lines[slot][column].islower():
            continue
        name = letter(row.req_idx)[-1]  # a cell has room for one: "AB" shows its B
        cell = PADDING if row.kind == DEAD else name.lower() if row.kind == PREFILL else name
        lines[slot][column] = cell


def timelines(traces: Sequence[Trace], width: int = 80) -> list[str]:
    """Several runs of one workload under each other, on one time axis."""
    spans = [t.steps[-1].t_end for t in traces if t.steps]
    seconds = max(spans, default=0.0)
    margin = max((len(t.header.policy) for t in traces), default=0) + 1
    lines = []
    for trace in traces:
        name = trace.header.policy
        for line in timeline(trace, max(width - margin - 1, 8), seconds):
            lines.append(f"{name:<{margin}}│{line}".rstrip())
            name = ""
        lines.append("")
    return lines
