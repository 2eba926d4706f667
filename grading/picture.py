"""A replay as a small picture: a row a request, a column a step. SVG, drawn from the trace."""

from __future__ import annotations

from html import escape

from grading.replay import Replay, mark

CELL, HEIGHT, LEFT, MAX_STEPS = 20, 18, 26, 30
FILLS = {
    "p": 'fill="var(--prefill)" stroke="var(--edge)" stroke-width="0.8"',
    "d": 'fill="var(--decode)"',
    "x": 'fill="none" stroke="var(--waste)" stroke-dasharray="3 2"',
}
NAMES = {"p": "reads its prompt", "d": "one more token", "x": "finished, carried along"}


def picture(run: Replay, steps: int | None = None) -> str:
    """The run as SVG with a text alternative. steps: columns to reserve, for a shared scale."""
    shown = min(len(run.trace.steps), MAX_STEPS)
    columns = min(max(shown, steps or 0, 1), MAX_STEPS)
    cell = CELL if columns <= 14 else 280 / columns
    parts = []
    for index, name in enumerate(run.letters):
        y = index * (HEIGHT + 4)
        parts.append(f'<text x="6" y="{y + 13}" style="font-weight:650">{escape(name)}</text>')
        marks = [mark(run, index, position) for position in range(shown)]
        if not any(one in FILLS for one in marks):
            parts.append(f'<text x="{LEFT}" y="{y + 13}" fill="var(--bad)">never scheduled</text>')
            continue
        parts += [_cell(one, position, y, cell) for position, one in enumerate(marks)]
    bottom = len(run.requests) * (HEIGHT + 4)
    every = 1 if columns <= 14 else 5
    for position in range(0, columns + 1, every):
        x = LEFT + position * cell
        parts.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{position}</text>')
    width, height = LEFT + columns * cell + 12, bottom + 18
    label = escape("; ".join(run.diagram()), quote=True)
    return (
        f'<svg width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}" '
        f'role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _cell(what: str, position: int, y: int, cell: float) -> str:
    x = LEFT + position * cell
    if what in FILLS:
        top, height = (y + 1, HEIGHT - 2) if what != "d" else (y + 3, HEIGHT - 6)
        return (
            f'<rect x="{x + 0.5:.1f}" y="{top}" width="{cell - 1:.1f}" height="{height}" '
            f"{FILLS[what]}><title>{NAMES[what]}</title></rect>"
        )
    if what == "·":
        middle = y + HEIGHT / 2
        return (
            f'<line x1="{x:.1f}" x2="{x + cell:.1f}" y1="{middle}" y2="{middle}" '
            'stroke="var(--queue)" stroke-dasharray="1.5 3.5" stroke-width="1.5"/>'
        )
    return ""
