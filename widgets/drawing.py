"""A timeline as a list of shapes in pixels: what the SVG writer and matplotlib both draw.

The live view's picture: prefill full height, decode three quarters, padding hatched, ✕ and a
hollow tube for a preemption, a tick at the end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minillm.core.trace import DEAD, DECODE, PREFILL, Row, Trace, letter
from widgets.headline import Headline, LaneFigures
from widgets.numbers import fixed, number3, percent, seconds
from widgets.shapes import Drawing, Line, Rect, Shape, Text, axis, legend

GLYPHS = {"measured": "●", "simulated": "◐", "published": "◇"}
LEFT, MARGIN, STRIP = 34.0, 150.0, 26.0
MOST_ROWS = 256  # of more requests, the newest
GAP_FROM = 3.6  # px a step: below, decode cells are one solid run


@dataclass(frozen=True, slots=True)
class _Lane:
    trace: Trace
    origin: float  # first arrival, seconds of the trace
    top: float
    pitch: float
    rows: list[int]  # request indices from top to bottom
    slots: int

    @property
    def bottom(self) -> float:
        return self.top + len(self.rows) * self.pitch

    def y(self, req: int) -> float:
        return self.top + (bisect_left(self.rows, req) + 0.5) * self.pitch


def draw(
    traces: Sequence[Trace],
    head: Headline,
    subtitles: Sequence[str] = (),
    width: float = 960.0,
) -> Drawing:
    """The timeline of one or two runs with its headline, on one time axis."""
    shapes: list[Shape] = []
    y = _heading(shapes, traces, head, width)
    rows = sorted({req for trace in traces for req in trace.request_ids()})[-MOST_ROWS:]
    pitch = 15.5 if len(rows) <= 40 else min(6.0, 520 / len(rows))
    origins = [_origin(trace) for trace in traces]
    end = max((t.steps[-1].t_end - o for t, o in zip(traces, origins, strict=True) if t.steps),
              default=1.0)  # fmt: skip
    x0, x1 = LEFT, width - MARGIN
    scale = (x1 - x0) / (end * 1.06 or 1.0)
    for index, (trace, origin) in enumerate(zip(traces, origins, strict=True)):
        lane = _Lane(trace, origin, y + 24, pitch, rows, _slots(trace))
        subtitle = subtitles[index] if index < len(subtitles) else ""
        _lane(shapes, lane, head.figures[index], subtitle, scale, (x0, x1), head, index)
        y = lane.bottom + 9 + STRIP + 30
    axis_y = y - 30 + 10
    shapes += axis(end * 1.06, scale, axis_y, (x0, x1))
    shapes += legend(axis_y + 58)
    return Drawing(width, axis_y + 72, shapes)


def _origin(trace: Trace) -> float:
    arrivals = [event.t for event in trace.events if event.event == "arrive"]
    return min(arrivals) if arrivals else trace.steps[0].t_start if trace.steps else 0.0


def _slots(trace: Trace) -> int:
    most = max((len(step.rows) for step in trace.steps), default=1)
    return trace.header.config.get("max_num_seqs") or most


def _heading(shapes: list[Shape], traces: Sequence[Trace], head: Headline, width: float) -> float:
    """Headline at the left, where the figures come from at the right; returns the next y."""
    lines = head.text.split("\n") if head.text else []
    for number, line in enumerate(lines):
        shapes.append(Text(0, 22 + number * 26, line, "ink", 19, True))
    seen = []
    for header in (trace.header for trace in traces):
        tag = f"{GLYPHS[header.provenance]} {header.provenance}  {header.device}, "
        tag += f"{header.model} {header.dtype}"
        if tag not in seen:
            seen.append(tag)
    below = [*seen, head.subtitle] if head.subtitle else seen
    # Beside the headline there is room for two lines; under it for any number.
    y = 18 + max(0, len(lines)) * 26 + 4
    for number, tag in enumerate(below):
        shapes.append(Text(0, y + number * 17, tag, "ink2" if tag in seen else "ink3", 11.5))
    return y + len(below) * 17 + 6


def _lane(
    shapes: list[Shape], lane: _Lane, figures: LaneFigures, subtitle: str, scale: float,
    span: tuple[float, float], head: Headline, index: int,
) -> None:  # fmt: skip
    x0, x1 = span
    shapes.append(Text(0, lane.top - 7, figures.title, "ink", 13, True))
    shapes.append(Text(len(figures.title) * 8 + 16, lane.top - 7, subtitle, "ink3", 11.5))
    marked = {note["req"] for note in head.notes if note.get("mark")}
    for req in lane.rows:
        y = lane.y(req)
        if req in marked:
            shapes.append(Rect(x0 - 8, y - lane.pitch / 2, x1 - x0 + 8, lane.pitch, "panel"))
        if lane.pitch >= 9:
            name = Text(x0 - 17, y + 4, letter(req), "ink" if req in marked else "ink2")
            shapes.append(name._replace(anchor="middle", bold=req in marked))
            shapes.append(Line(x0, y + lane.pitch / 2, x1, y + lane.pitch / 2, "grid", 0.6))
    _rows(shapes, lane, scale, x0)
    _strip(shapes, lane, scale, span)
    _figures(shapes, lane, figures, x1 + 16)
    if lane.pitch >= 9:
        for note in head.notes:
            if note["lane"] == index and note["req"] in lane.rows:
                _note(shapes, lane, note, scale, span)


def _note(
    shapes: list[Shape], lane: _Lane, note: dict, scale: float, span: tuple[float, float]
) -> None:
    """A sentence at a row: on its dotted line where it fits, else behind its end."""
    req, text, plain = note["req"], note["text"], note["tone"] == "pre"
    steps = [s for s in lane.trace.steps if any(row.req_idx == req for row in s.rows)]
    arrived = [e.t for e in lane.trace.events if e.req == req and e.event == "arrive"]
    if not steps or not arrived:
        return
    wide, y = len(text) * 6.2, lane.y(req)
    first, queue = (span[0] + (t - lane.origin) * scale for t in (steps[0].t_start, arrived[0]))
    if not plain and first - queue > wide + 44:
        middle = (first + queue) / 2
        shapes.append(Rect(middle - wide / 2 - 8, y - 6, wide + 16, 12, "panel"))
        shapes.append(Text(middle, y + 4, text, "ink", 11, True, "middle"))
        return
    x = span[0] + (steps[-1].t_end - lane.origin) * scale + 8
    if x + wide < span[1]:
        shapes.append(Text(x, y + 4, text, "pre_text" if plain else "ink", 11, not plain))


def _rows(shapes: list[Shape], lane: _Lane, scale: float, x0: float) -> None:
    """Queue, prefill, decode, padding, preemption and end of every request."""
    full = lane.pitch - 4 if lane.pitch >= 10 else max(1.2, lane.pitch * 0.84)
    cell = full * 0.75
    shown = set(lane.rows)
    begun: dict[int, float] = {}
    runs: dict[int, list[float]] = {}  # decode or dead runs still open: [kind, x0, x1, step]

    def x(t: float) -> float:
        return round(x0 + (t - lane.origin) * scale, 2)

    widths = sorted((step.t_end - step.t_start) * scale for step in lane.trace.steps)
    cells = bool(widths) and widths[len(widths) // 2] >= GAP_FROM
    again: set[int] = set()  # requests that compute anew what a preemption threw away
    preempted = deque((e.t, e.req) for e in lane.trace.events if e.event == "preempt")

    def close(req: int) -> None:
        kind, left, right, _ = runs.pop(req)
        y = lane.y(req) - cell / 2
        fill = "decode" if kind == DECODE else "hatch"
        shapes.append(Rect(left, y, right - left, cell, fill))

    for step in lane.trace.steps:
        left, right = x(step.t_start), x(step.t_end)
        while preempted and preempted[0][0] <= step.t_start + 1e-9:
            again.add(preempted.popleft()[1])
        for row in step.rows:
            if row.req_idx not in shown:
                continue
            req, y = row.req_idx, lane.y(row.req_idx)
            begun.setdefault(req, step.t_start)
            run = runs.get(req)
            gaps = cells and row.kind == DECODE
            if run and (run[0] != row.kind or run[3] != step.step - 1 or gaps):
                close(req)
            if row.kind == PREFILL:
                shapes += _prefill(row, y, left, right, full, req in again)
            elif req in runs:
                runs[req][2:] = [right, step.step]
            else:
                runs[req] = [row.kind, left, right - (0.9 if gaps else 0), step.step]
            if row.token_id is not None:
                again.discard(req)
    for req in list(runs):
        close(req)
    _events(shapes, lane, begun, x, full)


def _prefill(
    row: Row, y: float, left: float, right: float, full: float, again: bool
) -> Iterator[Shape]:
    """A chunk: its real share solid, prompt padding hatched, a purple foot if it is done again."""
    share = row.n_tokens / ((row.n_tokens + row.n_padding) or 1)
    real = max(1.0, (right - left) * share)
    if right - left > real:
        yield Rect(left + real, y - full * 0.375, right - left - real, full * 0.75, "hatch")
    yield Rect(left, y - full / 2, real, full, "prefill", "edge")
    if again:
        yield Rect(left, y + full * 0.3, real, full * 0.2, "pre")


def _events(shapes: list[Shape], lane: _Lane, begun: dict[int, float], x, full: float) -> None:
    shown = set(lane.rows)
    last = lane.trace.steps[-1].t_end if lane.trace.steps else lane.origin
    for event in lane.trace.events:
        if event.req not in shown:
            continue
        y, at = lane.y(event.req), x(event.t)
        if event.event == "arrive" and lane.pitch >= 3:
            shapes.append(Line(at, y - 3.5, at, y + 3.5, "queue"))
            to = x(begun.get(event.req, last)) - 1
            if to > at + 3:
                shapes.append(Line(at + 3, y, to, y, "queue", 1.0, True))
        elif event.event in ("finish", "abort") and event.req in begun:
            shapes.append(Rect(at - 1, y - full / 2 - 0.5, 2, full + 1, "ink"))
        elif event.event == "preempt":
            rows = (s.t_start for s in lane.trace.steps if s.t_start >= event.t - 1e-9
                    and any(row.req_idx == event.req for row in s.rows))  # fmt: skip
            width = x(next(rows, last)) - at
            if width > 3:
                shapes.append(Rect(at, y - full / 4, width, full / 2, "bg", "pre"))
            arm = min(3.6, full / 2.6)
            shapes.append(Line(at - arm, y - arm, at + arm, y + arm, "pre", 2))
            shapes.append(Line(at - arm, y + arm, at + arm, y - arm, "pre", 2))


def _strip(shapes: list[Shape], lane: _Lane, scale: float, span: tuple[float, float]) -> None:
    """Useful rows solid, padding hatched on top, out of the slots."""
    base, unit = lane.bottom + 9 + STRIP, STRIP / lane.slots
    open_: list[float] | None = None  # [x0, x1, useful, padded]

    def close() -> None:
        left, right, useful, padded = open_
        shapes.append(Rect(left, base - useful * unit, right - left + 0.3, useful * unit, "decode"))
        if padded > 0:
            top = base - (useful + padded) * unit
            shapes.append(Rect(left, top, right - left, padded * unit, "hatch"))

    for step in lane.trace.steps:
        useful = sum(
            row.n_tokens / ((row.n_tokens + row.n_padding) or 1)
            for row in step.rows if row.kind != DEAD
        )  # fmt: skip
        padded = len(step.rows) - useful
        left = span[0] + (step.t_start - lane.origin) * scale
        right = span[0] + (step.t_end - lane.origin) * scale
        if open_ and open_[2:] == [useful, padded] and left - open_[1] < 1.5:
            open_[1] = right
            continue
        if open_:
            close()
        open_ = [left, right, useful, padded]
    if open_:
        close()
    shapes.append(Line(span[0], base + 0.5, span[1], base + 0.5, "line"))
    shapes.append(Text(span[0] - 10, base - STRIP + 6, str(lane.slots), "ink3", 10, False, "end"))
    shapes.append(Text(span[0] - 10, base + 1, "0", "ink3", 10, False, "end"))


def _figures(shapes: list[Shape], lane: _Lane, figures: LaneFigures, x: float) -> None:
    big = number3(figures.tok_s)
    shapes.append(Text(x, lane.top + 18, big, "ink", 22, True))
    shapes.append(Text(x + len(big) * 13 + 10, lane.top + 18, "tok/s"))
    shapes.append(Text(x, lane.top + 38, f"done in {seconds(figures.elapsed_s)}", "ink3"))
    y = lane.bottom + 19
    wasted = figures.row_padding_fraction
    color = "waste_text" if wasted and wasted > 0.005 else "ink"
    share = percent(wasted)
    shapes.append(Text(x, y, share, color, 16, True))
    shapes.append(Text(x + len(share) * 9.4 + 6, y, "of rows padding"))
    useful = "n/a" if figures.useful_rows is None else fixed(figures.useful_rows, 1)
    shapes.append(Text(x, y + 17, f"{useful} of {lane.slots} rows useful", "ink3"))
