"""A replay as a small picture: a row a request, a column a step. SVG, drawn from the trace."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from grading.replay import Replay, mark

CELL, HEIGHT, LEFT, MAX_STEPS = 20, 18, 26, 30
LEFT_OUT = 130  # room for the words in a row without a cell
FILLS = {
    "p": 'fill="var(--prefill)" stroke="var(--edge)" stroke-width="0.8"',
    "d": 'fill="var(--decode)"',
    "x": 'fill="none" stroke="var(--waste)" stroke-dasharray="3 2"',
}
NAMES = {"p": "reads its prompt", "d": "one more token", "x": "finished, carried along"}


def picture(run: Replay, steps: int | None = None) -> str:
    """The run as SVG with a text alternative. steps: columns to reserve, for a shared scale."""
    shown = min(len(run.trace.steps), MAX_STEPS)
    rows = [
        (name, "".join(mark(run, index, position) for position in range(shown)))
        for index, name in enumerate(run.letters)
    ]
    return strips(rows, max(shown, steps or 0), "; ".join(run.diagram()))


def strips(
    rows: Sequence[tuple[str, str]],
    columns: int,
    label: str,
    *,
    missing: str = "never scheduled",
    unit: int = 1,
) -> str:
    """Rows of marks as SVG: (name, a character a column: p, d, x, "·" or a blank).

    columns: how many to reserve, cut to MAX_STEPS. label: the text alternative.
    missing: what stands in a row in which nothing is computed. unit: what a column is worth.
    """
    columns = min(max(columns, 1), MAX_STEPS)
    cell = CELL if columns <= 14 else 280 / columns
    parts = []
    for index, (name, marks) in enumerate(rows):
        y = index * (HEIGHT + 4)
        parts.append(f'<text x="6" y="{y + 13}" style="font-weight:650">{escape(name)}</text>')
        if not any(one in FILLS for one in marks):
            parts.append(
                f'<text x="{LEFT}" y="{y + 13}" fill="var(--bad)">{escape(missing)}</text>'
            )
            continue
        parts += [_cell(one, position, y, cell) for position, one in enumerate(marks[:columns])]
    bottom = len(rows) * (HEIGHT + 4)
    every = 1 if columns <= 14 else 5
    for position in range(0, columns + 1, every):
        x = LEFT + position * cell
        at = position * unit
        parts.append(f'<text x="{x:.1f}" y="{bottom + 12}" text-anchor="middle">{at}</text>')
    width, height = max(LEFT + columns * cell + 12, LEFT_OUT), bottom + 18
    label = escape(label, quote=True)
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
