"""A drawing as a static figure: with alt text, a plain table, CSV and PNG."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from html import escape

from widgets.cards import GLYPHS
from widgets.figures import StaticFigure, to_svg
from widgets.shapes import Drawing, Shape, Text

Cell = str | float | int | None
Table = tuple[Sequence[str], Sequence[Sequence[Cell]]]


def static(drawing: Drawing, alt: str, table: Table) -> StaticFigure:
    """The figure of a drawing; thin gaps are plain spaces in the alt text."""
    words = alt.replace("\u2009", " ").replace("\n", " ")
    return StaticFigure(to_svg(drawing, words), words, html_table(*table))


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """A plain HTML table, the first column as row headers; None is n/a."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row">{_shown(row[0])}</th>'
        + "".join(f"<td>{_shown(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The same as CSV; None is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return out.getvalue()


def _shown(cell: Cell) -> str:
    if cell is None:
        return "n/a"
    return escape(cell) if isinstance(cell, str) else f"{cell:,.6g}"


def top(
    headline: str, subtitle: str, origins: Iterable[tuple[str, str]], width: float
) -> tuple[list[Shape], float]:
    """Headline, subtitle and where the figures come from; (shapes, the y below them).

    origins: (provenance, device) pairs.
    """
    shapes: list[Shape] = []
    y = 4.0
    for line in headline.split("\n") if headline else []:
        y += 22
        shapes.append(Text(0, y, line, "ink", 19, True))
    for words in wrapped(subtitle, width, 12) if subtitle else []:
        y += 18
        shapes.append(Text(0, y, words, "ink2", 12))
    for provenance, device in origins:
        y += 18
        shapes.append(Text(0, y, f"{GLYPHS[provenance]} {provenance}  {device}", "ink2", 11.5))
    return shapes, y + 12


def wrapped(words: str, width: float, size: float) -> list[str]:
    """Lines that fit, from a letter's mean width."""
    most, lines = max(8, int(width / (size * 0.52))), [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
