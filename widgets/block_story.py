"""What a run's blocks came to: the sentence above a block map, its moment, its static figure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from minillm.core.trace import RequestEvent, StepRecord, Trace, letter
from widgets.blocks import BlockState, block_history
from widgets.figures import StaticFigure, to_svg
from widgets.numbers import plural, seconds
from widgets.shapes import Drawing, Line, Path, Rect, Shape, Text

COLUMNS, CELL, HIGH, GAP = 16, 40, 26, 4  # of the static map
MOST_CELLS = 400  # drawn; a larger pool's figure has the use over time alone


@dataclass(frozen=True, slots=True)
class BlockStory:
    """text: the finding; lead: what else to know. t: the moment to show, seconds since the first
    request; step: its number; state: the blocks after it."""

    text: str
    lead: str
    t: float
    step: int
    state: BlockState
    notes: list[dict] = field(default_factory=list)


def block_story(trace: Trace) -> BlockStory:
    """The first preemption, else the most blocks shared, else the fullest step.

    Raises ValueError when the trace has no step.
    """
    if not trace.steps:
        raise ValueError("The trace has no step yet: there are no blocks to tell of.")
    origin = min((e.t for e in trace.events if e.event == "arrive"), default=0.0)
    best: tuple = ()
    history = block_history(trace.steps, trace.events, trace.header)
    for position, (record, state) in enumerate(history):
        shared = _saved(state)
        rank = (bool(state.taken), 0 if state.taken else shared, 0 if shared else record.kv_used)
        if not best or rank > best[0]:
            best = (rank, position)
        if state.taken:
            break
    steps = trace.steps[: best[1] + 1]
    record, state = deque(block_history(steps, trace.events, trace.header), maxlen=1).pop()
    most = max(step.kv_used for step in trace.steps)
    text, lead = _words(trace, record, state, most)
    t = record.t_start - origin
    notes = [{"t": (t + record.t_end - origin) / 2}]
    return BlockStory(text, lead, t, record.step, state, notes)


def _saved(state: BlockState) -> int:
    """Blocks that sharing spares: what all hold, less what there is."""
    return sum(len(table) for table in state.tables.values()) - state.num_used


def _words(trace: Trace, record: StepRecord, state: BlockState, most: int) -> tuple[str, str]:
    pool = trace.header.num_blocks
    if state.taken:
        return _preempted(trace, record, state)
    if saved := _saved(state):
        owners = [held for held in state.owners().values() if len(held) > 1]
        who = max(owners, key=len)
        blocks = sum(held == who for held in owners)
        verb = "shares" if len(who) == 1 else "share"
        names = f"{_names(who)} {verb} {plural(blocks, 'block')}"
        text = f"{names}: {plural(saved, 'block')} spared at that step."
        return text, f"At most {most:,} of {pool:,} blocks are in use."
    text = f"At most {most:,} of {pool:,} blocks are in use."
    return text, "Nobody had to give any back, and nobody shares a prefix."


def _preempted(trace: Trace, record: StepRecord, state: BlockState) -> tuple[str, str]:
    """K needs one block, so L gives 14 back."""
    victim = next(iter(state.taken.values()))
    given = sum(req == victim for req in state.taken.values())
    freed = sum(req == victim and not _held(state, b) for b, req in state.taken.items())
    ops = record.raw_blocks
    last_free = max(i for i, (op, _, req) in enumerate(ops) if op == "f" and req == victim)
    takers = [req for op, _, req in ops[last_free:] if op == "a" and req != victim]
    name = letter(victim)
    if takers:
        need = plural(sum(req == takers[0] for req in takers), "block")
        text = f"The pool is full: {letter(takers[0])} needs {need}, so {name} gives {given} back."
    else:  # nobody took a block behind it: it had asked for one itself
        text = f"The pool is full when {name} itself needs a block, so it gives {given} back."
    event = _event(trace, victim)
    lead = f"{letter(victim)} was admitted last."
    if kept := given - freed:
        lead += f" {kept} of the {given} went on to others at once."
    if event is not None and event.data.get("tokens_lost") is not None:
        cached = event.data.get("tokens_cached") or 0
        lost = event.data["tokens_lost"]
        again = f" of its {lost:,}" if cached else ""
        lead += f" It computes {plural(lost - cached, 'token')}{again} again; its text stays."
    return text, lead


def _held(state: BlockState, block: int) -> bool:
    return any(block in table for table in state.tables.values())


def _event(trace: Trace, req: int) -> RequestEvent | None:
    return next((e for e in trace.events if e.event == "preempt" and e.req == req), None)


def _names(reqs: Sequence[int]) -> str:
    names = [letter(req) for req in reqs]
    if len(names) > 6:
        return f"{len(names)} requests"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ── the static figure ───────────────────────────────────────────────────────────────────────────


def block_figure(trace: Trace, story: BlockStory | None = None) -> StaticFigure:
    """The map at the story's moment, the use over time, a table of who holds what."""
    story = story or block_story(trace)
    header = trace.header
    alt = (
        f"KV blocks. {story.text} {story.lead} Step {story.step}: {story.state.num_used} of "
        f"{header.num_blocks} blocks in use, {len(story.state.cached)} cached, "
        f"{story.state.num_free} free; {header.provenance}, {header.device}, {header.model}."
    )
    return StaticFigure(to_svg(_draw(trace, story), alt), alt, _table(story))


def _draw(trace: Trace, story: BlockStory) -> Drawing:
    header, state = trace.header, story.state
    glyph = {"measured": "●", "simulated": "◐", "published": "◇"}[header.provenance]
    width = COLUMNS * (CELL + GAP) - GAP
    shapes: list[Shape] = [
        Text(0, 16, story.text, "ink", 17, True),
        Text(0, 36, story.lead, "ink3", 12),
        Text(0, 56, f"{glyph} {header.provenance} {header.device}, {header.model}", "ink2", 11.5),
        Text(0, 84, f"KV pool, {header.num_blocks:,} blocks of {header.block_size} tokens", "ink",
             13, True),
        Text(width, 84, f"step {story.step:,}, {seconds(story.t)}", "ink3", 11.5, anchor="end"),
    ]  # fmt: skip
    y = 96.0
    if state.num_blocks <= MOST_CELLS:
        owners = state.owners()
        for block in range(state.num_blocks):
            row, column = divmod(block, COLUMNS)
            box = (column * (CELL + GAP), y + row * (HIGH + GAP))
            shapes += _cell(box, state, block, owners.get(block, []))
        y += -(-state.num_blocks // COLUMNS) * (HIGH + GAP)
    return Drawing(width, y + 112, [*shapes, *_use(trace, y + 26, width)])


def _cell(
    box: tuple[float, float], state: BlockState, block: int, held: Sequence[int]
) -> list[Shape]:
    x, y = box
    middle = (x + CELL / 2, y + HIGH / 2 + 4)
    if len(held) > 1:
        inner = Rect(x + 3, y + 3, CELL - 6, HIGH - 6, "panel", "ink")
        words = Text(*middle, f"×{len(held)}", "ink", 10, True, "middle")
        return [Rect(x, y, CELL, HIGH, "panel", "ink"), inner, words]
    if held:
        share = CELL * state.filled(block) / state.block_size
        words = Text(*middle, letter(held[0]), "ink", 11, True, "middle")
        edge = Rect(x, y, CELL, HIGH, "", "decode")
        return [Rect(x, y, share, HIGH, "soft"), edge, words]
    if block in state.taken:
        words = Text(*middle, f"{letter(state.taken[block])} ✕", "pre_text", 11, True, "middle")
        return [Rect(x, y, CELL, HIGH, "", "pre"), words]
    if block in state.cached:
        dots = Line(x + 4, y + HIGH / 2, x + CELL - 4, y + HIGH / 2, "ink3", 1.2, True)
        return [Rect(x, y, CELL, HIGH, "", "ink3"), dots]
    return [Rect(x, y, CELL, HIGH, "", "line")]


def _use(trace: Trace, top: float, width: float) -> list[Shape]:
    """Blocks in use over time, in 72 pixels."""
    steps, limit = trace.steps, trace.header.num_blocks
    start, end = steps[0].t_start, steps[-1].t_end
    bottom, span = top + 72, max(end - start, 1e-9)
    every = max(1, len(steps) // 600)
    points = []
    for step in steps[::every]:
        y = bottom - 60 * step.kv_used / limit
        points += [((t - start) / span * width, y) for t in (step.t_start, step.t_end)]
    return [
        Text(0, top, "Blocks in use over time", "ink", 13, True),
        Path([(0, bottom), *points, (width, bottom)], fill="soft"),
        Path(points, "decode"),
        Line(0, bottom - 60, width, bottom - 60, "ink3", 0.8, True),
        Line(0, bottom, width, bottom, "line"),
        Text(width, bottom - 64, f"{limit:,} blocks", "ink3", 10, anchor="end"),
        Text(width, bottom + 14, seconds(span), "ink3", 11, anchor="end"),
    ]


def _table(story: BlockStory) -> str:
    state = story.state
    owners = state.owners()
    rows = ""
    for req in sorted(state.tables):
        table = state.tables[req]
        shared = sum(len(owners[block]) > 1 for block in table)
        cells = (len(table), shared, state.computed.get(req, 0))
        rows += f'<tr><th scope="row">{letter(req)}</th>'
        rows += "".join(f"<td>{value:,}</td>" for value in cells) + "</tr>"
    heads = ("", "Blocks held", "of them shared", "Tokens in them")
    cells = "".join(f'<th scope="col">{name}</th>' for name in heads)
    caption = f"<caption>Who holds the pool after step {story.step:,}</caption>"
    return f"<table>{caption}<thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"
