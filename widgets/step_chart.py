"""Step time over the tokens that it computes: one decode step, then prompts, point by point.

    chart = StepChart()
    chart                                    # live: an SVG that grows
    await chart.measure(llm, (8, 64, 512))   # a real LLM, or LLM.simulated(…)
    chart.table()

Both axes are logarithmic. An SVG in an HTML widget: it needs no canvas and no script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from widgets import cards
from widgets.axes import Scale, log_range
from widgets.figures import to_svg
from widgets.labels import Labels
from widgets.numbers import number3, seconds
from widgets.real import machine_name
from widgets.shapes import Drawing, Line, Mark, Path, Shape, Text

if TYPE_CHECKING:
    from minillm.llm import LLM

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 320.0, 64.0, 24.0, 30.0, 52.0
COLUMNS = ("", "tokens", "one step", "× a decode step", "per token")
STYLES = {"measured": ("decode", ()), "simulated": ("ink", (5, 4))}


@dataclass(slots=True)
class Curve:
    """One LLM's steps. points: tokens in the step → seconds; 1 token is a decode step."""

    name: str
    provenance: str
    detail: str
    points: dict[int, float] = field(default_factory=dict)

    def ratio(self, tokens: int) -> float:
        """How many decode steps a prompt of so many tokens takes."""
        return self.points[tokens] / self.points[1]


class StepChart:
    """See the module's docstring. curves: by name, in the order in which they were measured."""

    def __init__(self) -> None:
        import ipywidgets

        self.curves: dict[str, Curve] = {}
        self.widget = ipywidgets.HTML()
        self.widget.value = cards.card("<p>No step has been measured yet.</p>")

    async def measure(
        self, llm: LLM, prompts: Iterable[int], name: str = "", *, tries: int = 1
    ) -> Curve:
        """Run each prompt alone, whole, and show its step; the fastest of `tries` counts.

        name: "" is your machine, the recorded one, or the simulated GPU.
        The decode step is the one that follows the shortest prompt. Raises ValueError for prompts
        that do not fit.
        """
        from minillm.bench.step_times import run_steps, seconds_of

        info, name = llm.info, name or machine_name(llm)
        curve = Curve(name, info.provenance, f"{info.device}, {info.model} {info.dtype}")
        self.curves[name] = curve
        for prompt in sorted(prompts):
            for _ in range(tries):
                run = run_steps(llm, 1, prompt, 2 if curve.points else 4)
                found = {prompt: seconds_of(run.prefill)}
                if len(curve.points) < 2:
                    found[1] = seconds_of(run.decode)
                for tokens, took in found.items():
                    curve.points[tokens] = min(took, curve.points.get(tokens, took))
                await asyncio.sleep(0)
            self.show()
        return curve

    def show(self) -> None:
        """Draw what there is."""
        self.widget.value = cards.card(cards.head(self.headline()), cards.broad(self.svg()))

    def headline(self) -> str:
        """What the shortest and the longest prompt of the last curve cost."""
        curve = list(self.curves.values())[-1]
        prompts = sorted(tokens for tokens in curve.points if tokens > 1)
        short, long = prompts[0], prompts[-1]
        text = f"{curve.name}: a prompt of {short:,} tokens takes as long as {_steps(curve, short)}"
        return text + ("." if short == long else f", one of {long:,} as {_steps(curve, long)}.")

    def table(self, tokens: Iterable[int] | None = None) -> cards.Html:
        """Every step (or those with so many tokens), a row each; it stays in a saved page."""
        wanted = None if tokens is None else {1, *tokens}
        rows = [
            (curve.name, "decode" if count == 1 else f"{count:,}", seconds(took),
             f"{number3(curve.ratio(count))}×", _small(took / count))
            for curve in self.curves.values()
            for count, took in sorted(curve.points.items())
            if wanted is None or count in wanted
        ]  # fmt: skip
        where = "\n".join(_origin(curve) for curve in self.curves.values())
        title = self.headline()
        still = cards.broad(self.svg())
        picture = f"<details><summary>The chart as a still picture</summary>{still}</details>"
        note = where.replace("\n", "; ").replace("◐ ", "◐\u00a0")  # no line ends behind the sign
        html = cards.card(cards.head(title, note), cards.table(COLUMNS, rows), picture)
        return cards.Html(html, f"{title}\n{cards.text_table(COLUMNS, rows)}\n{where}")

    def svg(self) -> str:
        """The curves as one SVG with a text alternative."""
        curves = [curve for curve in self.curves.values() if curve.points]
        xs = log_range([count for curve in curves for count in curve.points], 1.25)
        ys = log_range([ms * 1e3 for curve in curves for ms in curve.points.values()], 1.6)
        x = Scale(*xs, LEFT, WIDTH - RIGHT, True)
        y = Scale(*ys, HEIGHT - BOTTOM, TOP, True)
        shapes = _axes(x, y)
        labels = Labels((LEFT, TOP - 14, WIDTH - RIGHT + 10, HEIGHT - BOTTOM))
        for curve in curves:
            shapes += _curve(curve, x, y, labels)
        return to_svg(Drawing(WIDTH, HEIGHT, shapes), self.describe())

    def describe(self) -> str:
        """The chart in words."""
        parts = ["Milliseconds of a step over the tokens that it computes, both logarithmic."]
        for curve in self.curves.values():
            points = "; ".join(
                f"{count:,}: {seconds(took)}" for count, took in sorted(curve.points.items())
            )
            parts.append(f"{curve.name}, {curve.provenance}: {points}.")
        return " ".join(parts).replace("\u2009", " ")

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.widget._repr_mimebundle_(**kwargs)


def _axes(x: Scale, y: Scale) -> list[Shape]:
    shapes: list[Shape] = [Text(0, TOP - 14, "ms per step", "ink2", 11.5)]
    for value, name in y.ticks():
        shapes.append(Line(x.start, y.at(value), x.end, y.at(value), "grid"))
        shapes.append(Text(x.start - 8, y.at(value) + 4, name, "ink3", 11, False, "end"))
    shapes.append(Line(x.start, y.start, x.end, y.start, "line"))
    for value, name in x.ticks():
        shapes.append(Line(x.at(value), y.start, x.at(value), y.start + 4, "line"))
        shapes.append(Text(x.at(value), y.start + 18, name, "ink3", 11, False, "middle"))
    words = "tokens computed in the step: 1 is a decode step, the others are prompts"
    shapes.append(Text(x.end, y.start + 38, words, "ink2", 11.5, False, "end"))
    return shapes


def _curve(curve: Curve, x: Scale, y: Scale, labels: Labels) -> list[Shape]:
    color, dash = STYLES[curve.provenance]
    points = [(x.at(count), y.at(took * 1e3)) for count, took in sorted(curve.points.items())]
    marks = [Mark(*point, curve.provenance, color) for point in points]
    for mark in marks:
        labels.block((mark.x - 5, mark.y - 5, mark.x + 5, mark.y + 5))
    words = f"{cards.GLYPHS[curve.provenance]} {curve.name}, {curve.provenance}"
    name = labels.beside(
        words, *points[0], size=12, gap=12, color="ink", bold=True, force=True,
        sides=("ne", "se", "n", "s", "e"),
    )  # fmt: skip
    return [Path(points, color, 1.8, dash), *marks, *name]


def _steps(curve: Curve, tokens: int) -> str:
    """1.03 decode steps."""
    return f"{number3(curve.ratio(tokens))} decode steps"


def _small(took: float) -> str:
    return seconds(took) if took >= 1e-3 else f"{number3(took * 1e6)}\u2009µs"


def _origin(curve: Curve) -> str:
    return f"{cards.GLYPHS[curve.provenance]} {curve.provenance}: {curve.name}, {curve.detail}"
