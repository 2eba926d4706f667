"""Small pieces of HTML that follow the page's theme: cards, tables, a provenance line.

Static output: it needs no kernel and no script, so a saved notebook keeps it. Each card carries
the style sheet along, because a notebook draws only the cells that are on screen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from minillm.core.trace import TraceHeader
from widgets import assets
from widgets.numbers import number3

GLYPHS = {"measured": "●", "simulated": "◐", "published": "◇"}


class Html:
    """Shown as HTML in a notebook and as text everywhere else."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def card(*parts: str, kind: str = "") -> str:
    """The parts (HTML) in one card; kind: "", "alert" or "good"."""
    mark = f" ml-{kind}" if kind else ""
    style = f"<style>{assets.style('lesson/lesson.css')}</style>"
    return f'{style}<div class="ml-card{mark}">{"".join(parts)}</div>'


def head(title: str, note: str = "") -> str:
    """A card's title (text) and a quiet remark at its right."""
    aside = f'<span class="ml-note">{escape(note)}</span>' if note else ""
    return f'<div class="ml-head"><span class="ml-title">{escape(title)}</span>{aside}</div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, left: bool = False) -> str:
    """A table of texts; None becomes n/a. left: for words rather than figures."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    kind = "ml-table ml-left" if left else "ml-table"
    return (
        f'<div class="ml-scroll"><table class="{kind}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def broad(svg: str) -> str:
    """A picture with much in it: where the card is narrow it scrolls and stays readable."""
    return f'<div class="ml-scroll ml-broad">{svg}</div>'


def text_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same table in plain text, columns aligned."""
    lines = [[_cell(value) for value in row] for row in [columns, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def provenance(header: TraceHeader) -> str:
    """● measured, CPU, SmolLM2-135M-Instruct bfloat16: where a run's figures come from."""
    where = f"{header.provenance}: {header.device}, {header.model} {header.dtype}"
    return f"{GLYPHS[header.provenance]} {where}"


def number(value: float | None, unit: str = "") -> str:
    """Whole numbers as they are, others with three digits; a thin gap before the unit."""
    if value is None:
        return "n/a"
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e15
    shown = f"{int(value):,}" if whole else number3(value)
    return f"{shown}\u202f{unit}" if unit else shown


def _cell(value: object) -> str:
    return "n/a" if value is None else value if isinstance(value, str) else number(value)
