"""Static figures of a timeline: SVG of our own (saved notebooks, the browser), matplotlib for PNG.

Each comes with a text alternative and a small table, made from the traces alone.
"""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from minillm.core.trace import Trace
from widgets.drawing import draw
from widgets.headline import Headline, LaneFigures, headline
from widgets.numbers import number3, percent, seconds
from widgets.shapes import PALETTE, Drawing, Line, Mark, Path, Rect, Shape, outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = "Inter, system-ui, sans-serif"
# Page colours follow JupyterLab's theme; the data hues stay.
VARIABLES = {
    "bg": "--jp-layout-color0", "panel": "--jp-layout-color2", "ink": "--jp-ui-font-color0",
    "ink2": "--jp-ui-font-color1", "ink3": "--jp-ui-font-color2", "line": "--jp-border-color1",
    "grid": "--jp-border-color2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StaticFigure:
    """A finished figure: svg and table as markup, alt as plain text."""

    svg: str
    alt: str
    table: str

    def to_html(self, *, inline: bool = False) -> str:
        """Figure and table, for a page or a notebook's output.

        The SVG is an image with its text alternative, which a notebook shows even where it strips
        markup that it does not trust; inline it follows the page's theme.
        """
        data = base64.b64encode(self.svg.encode()).decode()
        image = f'<img alt="{escape(self.alt)}" src="data:image/svg+xml;base64,{data}">'
        return f'<figure style="margin:0">{self.svg if inline else image}{self.table}</figure>'

    def _repr_html_(self) -> str:
        return self.to_html()

    def save_svg(self, path: str | FilePath) -> FilePath:
        """Write the SVG (without the table); returns its path."""
        path = FilePath(path)
        path.write_text(self.svg, encoding="utf-8")
        return path


def static_figure(
    traces: Sequence[Trace],
    titles: Sequence[str] = (),
    subtitles: Sequence[str] = (),
    head: Headline | None = None,
) -> StaticFigure:
    """The figure of one or two runs. head: None computes it."""
    head = head or headline(traces, titles)
    alt = alt_text(traces, head)
    return StaticFigure(to_svg(draw(traces, head, subtitles), alt), alt, table(head.figures))


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def alt_text(traces: Sequence[Trace], head: Headline) -> str:
    """What the figure shows, in sentences."""
    parts = ["Batch timeline.", head.text.replace("\n", " ")]
    for trace, figures in zip(traces, head.figures, strict=True):
        header, summary = trace.header, figures.summary
        parts.append(
            f"{figures.title}: {summary.requests} requests in {summary.steps} steps, "
            f"{number3(figures.tok_s)} tokens per second, done in {seconds(figures.elapsed_s)}, "
            f"{percent(figures.row_padding_fraction)} of rows padding; "
            f"{header.provenance}, {header.device}, {header.model} {header.dtype}."
        )
    return " ".join(part for part in parts if part).replace("\u2009", " ")


def table(figures: Sequence[LaneFigures]) -> str:
    """The runs' figures as an HTML table, a row a run."""
    heads = ("", "Output tok/s", "TTFT p50", "TTFT p99", "Done in", "Rows padding", "Steps")
    cells = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = "".join(_table_row(each) for each in figures)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def _table_row(figures: LaneFigures) -> str:
    summary = figures.summary
    p50, p99 = summary.ttft_p50_ms, summary.ttft_p99_ms
    few = f"n = {summary.completed}, too few for p99" if summary.few_for_p99 else None
    values = (
        number3(figures.tok_s),
        _milliseconds(p50),
        few or _milliseconds(p99),
        seconds(figures.elapsed_s),
        percent(figures.row_padding_fraction),
        f"{summary.steps:,}",
    )
    cells = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{escape(figures.title)}</th>{cells}</tr>'


def _milliseconds(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.0f}\u2009ms"


# ── SVG ─────────────────────────────────────────────────────────────────────────────────────────


def to_svg(drawing: Drawing, alt: str) -> str:
    """The drawing as one SVG element that needs nothing else."""
    width, height = round(drawing.width), round(drawing.height)
    # One id a figure: a page may hold several, and a hidden one gives no pattern to the others.
    name = f"mlt-hatch-{zlib.crc32(repr(drawing.shapes).encode()):08x}"
    body = "".join(_svg_shape(shape, name) for shape in drawing.shapes)
    hatch = (
        f'<pattern id="{name}" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)">'
        f'<rect width="5" height="5" fill="{PALETTE["waste"]}" fill-opacity="0.08"/>'
        f'<rect width="1.7" height="5" fill="{PALETTE["waste"]}"/></pattern>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -4 {width + 16} {height + 8}" '
        f'width="{width + 16}" style="max-width:100%;height:auto;font-family:{FONT};'
        f'font-variant-numeric:tabular-nums" role="img" aria-label="{escape(alt)}">'
        f"<defs>{hatch}</defs>"
        f'<rect x="-8" y="-4" width="{width + 16}" height="{height + 8}" rx="6" '
        f'style="fill:{_color("bg")}"/>{body}</svg>'
    )


def _color(name: str) -> str:
    if not name:
        return ""
    variable = VARIABLES.get(name)
    return f"var({variable},{PALETTE[name]})" if variable else PALETTE[name]


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _svg_shape(shape: Shape, hatch: str) -> str:
    if isinstance(shape, Rect):
        box = f'x="{_n(shape.x)}" y="{_n(shape.y)}"'
        box += f' width="{_n(max(0.0, shape.width))}" height="{_n(max(0.0, shape.height))}"'
        fill = f"url(#{hatch})" if shape.fill == "hatch" else _color(shape.fill) or "none"
        stroke = f";stroke:{_color(shape.stroke)};stroke-width:0.8" if shape.stroke else ""
        return f'<rect {box} style="fill:{fill}{stroke}"/>'
    if isinstance(shape, Line):
        ends = f'x1="{_n(shape.x0)}" y1="{_n(shape.y0)}" x2="{_n(shape.x1)}" y2="{_n(shape.y1)}"'
        dots = ' stroke-dasharray="1.1 2.9"' if shape.dots else ""
        style = f"stroke:{_color(shape.color)};stroke-width:{_n(shape.width)}"
        return f'<line {ends}{dots} style="{style}"/>'
    if isinstance(shape, Path):
        return _svg_path(shape)
    if isinstance(shape, Mark):
        return _svg_mark(shape)
    weight = ";font-weight:650" if shape.bold else ""
    style = f"fill:{_color(shape.color)};font-size:{_n(shape.size)}px{weight}"
    anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
    return (
        f'<text x="{_n(shape.x)}" y="{_n(shape.y)}"{anchor} style="{style}">'
        f"{escape(shape.text)}</text>"
    )


def _svg_path(shape: Path) -> str:
    points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
    area = f'<polygon points="{points}" style="fill:{_color(shape.fill)}"/>' if shape.fill else ""
    if not shape.color:
        return area
    dash = f' stroke-dasharray="{" ".join(map(_n, shape.dash))}"' if shape.dash else ""
    style = f"fill:none;stroke:{_color(shape.color)};stroke-width:{_n(shape.width)}"
    return f'{area}<polyline points="{points}"{dash} style="{style};stroke-linejoin:round"/>'


def _svg_mark(mark: Mark) -> str:
    color, paper = _color(mark.color), _color("bg")
    if mark.kind in ("published", "star"):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in outline(mark))
        style = f"fill:{color if mark.kind == 'star' else paper};stroke:{color};stroke-width:1.3"
        return f'<polygon points="{points}" style="{style}"/>'
    x, y, r = _n(mark.x), _n(mark.y), _n(mark.radius)
    full = mark.kind == "measured"
    style = f"fill:{color if full else paper};stroke:{color};stroke-width:1.5"
    circle = f'<circle cx="{x}" cy="{y}" r="{r}" style="{style}"/>'
    if full:
        return circle
    top, bottom = _n(mark.y - mark.radius), _n(mark.y + mark.radius)
    return f'{circle}<path d="M{x} {top}A{r} {r} 0 0 0 {x} {bottom}Z" style="fill:{color}"/>'


# ── matplotlib ──────────────────────────────────────────────────────────────────────────────────


def matplotlib_figure(
    traces: Sequence[Trace],
    titles: Sequence[str] = (),
    subtitles: Sequence[str] = (),
    head: Headline | None = None,
) -> Figure:
    """The same picture as a matplotlib Figure (no pyplot: any thread may make one)."""
    head = head or headline(traces, titles)
    return to_matplotlib(draw(traces, head, subtitles))


def to_matplotlib(drawing: Drawing) -> Figure:
    """A drawing as a matplotlib Figure."""
    from matplotlib.figure import Figure

    width, height = drawing.width + 16, drawing.height + 8
    figure = Figure(figsize=(width / 100, height / 100), dpi=100, facecolor=PALETTE["bg"])
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-8, width - 8), ylim=(height - 4, -4))
    axes.set_axis_off()
    for shape in drawing.shapes:
        _add_shape(axes, shape)
    return figure


def _add_shape(axes: Axes, shape: Shape) -> None:
    from matplotlib.patches import Circle, Polygon, Rectangle, Wedge

    if isinstance(shape, Rect):
        hatched = shape.fill == "hatch"
        axes.add_patch(Rectangle(
            (shape.x, shape.y), max(0.0, shape.width), max(0.0, shape.height),
            facecolor="none" if hatched or not shape.fill else PALETTE[shape.fill],
            edgecolor=PALETTE["waste" if hatched else shape.stroke or shape.fill],
            linewidth=0 if hatched or not shape.stroke else 0.6,
            hatch="//////" if hatched else None,
        ))  # fmt: skip
    elif isinstance(shape, Line):
        axes.plot(
            (shape.x0, shape.x1), (shape.y0, shape.y1), color=PALETTE[shape.color],
            linewidth=shape.width * 0.72, linestyle=(0, (1.2, 2.6)) if shape.dots else "-",
        )  # fmt: skip
    elif isinstance(shape, Path):
        if shape.fill:
            axes.add_patch(Polygon(shape.points, facecolor=PALETTE[shape.fill], edgecolor="none"))
        if shape.color:
            xs, ys = zip(*shape.points, strict=True)
            style = (0, tuple(each / shape.width for each in shape.dash)) if shape.dash else "-"
            axes.plot(
                xs, ys, color=PALETTE[shape.color], linewidth=shape.width * 0.72, linestyle=style
            )
    elif isinstance(shape, Mark):
        color, place = PALETTE[shape.color], (shape.x, shape.y)
        if shape.kind in ("published", "star"):
            face = color if shape.kind == "star" else PALETTE["bg"]
            axes.add_patch(Polygon(outline(shape), facecolor=face, edgecolor=color, zorder=4))
            return
        full = shape.kind == "measured"
        axes.add_patch(Circle(
            place, shape.radius, facecolor=color if full else PALETTE["bg"], edgecolor=color,
            linewidth=1.2, zorder=4,
        ))  # fmt: skip
        if not full:
            axes.add_patch(Wedge(place, shape.radius, 90, 270, facecolor=color, zorder=4))
    else:
        axes.text(
            shape.x, shape.y, shape.text, color=PALETTE[shape.color], va="baseline",
            fontsize=shape.size * 0.72, fontweight="bold" if shape.bold else "normal",
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
            parse_math=False, zorder=5,
        )  # fmt: skip


def to_png(figure: Figure, dpi: int = 200) -> bytes:
    """A matplotlib figure as PNG bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


__all__ = [
    "StaticFigure", "alt_text", "matplotlib_figure", "static_figure", "table", "to_matplotlib",
    "to_png", "to_svg",
]  # fmt: skip
