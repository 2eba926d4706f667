"""Static figures: valid, self-contained, with words and a table that say the same."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from html import unescape

import pytest

from minillm.core.trace import Trace
from tests.widgets.golden import header
from tests.widgets.runs import FOURTEEN, run
from widgets.drawing import draw
from widgets.figures import matplotlib_figure, static_figure, to_png
from widgets.headline import headline
from widgets.shapes import Rect, Text, tick_step


@pytest.fixture(scope="module")
def pair():
    return [run("static"), run("continuous", num_blocks=52)]


def shapes(trace, kind):
    drawing = draw([trace], headline([trace]))
    return [shape for shape in drawing.shapes if isinstance(shape, Rect) and shape.fill == kind]


def test_svg_is_valid_and_needs_nothing_else(pair):
    figure = static_figure(pair)
    root = ElementTree.fromstring(figure.svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == figure.alt
    rest = figure.svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in rest
    assert "<script" not in rest
    assert len(figure.svg) < 200_000


def test_words_and_table_say_what_was_run(pair):
    figure = static_figure(pair)
    assert "Continuous batching: 2.2× the tokens per second." in figure.alt
    assert "simulated, A100 80 GB" in figure.alt
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", figure.table)
    assert cells[7:10] == ["Static", "151", "892\u2009ms"]
    assert "n = 14, too few for p99" in cells
    html = figure._repr_html_()
    assert html.count("<table>") == 1
    assert html.count("<svg") == 0  # an image: markup would be stripped where it is not trusted
    shown = re.search(r'<img alt="([^"]+)" src="data:image/svg\+xml;base64,([^"]+)">', html)
    assert unescape(shown[1]) == figure.alt
    assert base64.b64decode(shown[2]).decode() == figure.svg


def test_padding_is_drawn_as_large_as_it_is(pair):
    static, continuous = pair
    # Legend's swatch apart, continuous batching has no hatch.
    assert len(shapes(continuous, "hatch")) == 1
    hatched = shapes(static, "hatch")
    assert len(hatched) > 12
    dead = sum(s.t_end - s.t_start for s in static.steps for row in s.rows if row.kind == 2)
    scale = (960 - 34 - 150) / (static.steps[-1].t_end * 1.06)
    cell = (15.5 - 4) * 0.75
    drawn = sum(r.width for r in hatched if r.height == pytest.approx(cell))
    prompts = sum(
        (s.t_end - s.t_start) * row.n_padding / (row.n_padding + row.n_tokens)
        for s in static.steps for row in s.rows if row.kind == 0
    )  # fmt: skip
    assert drawn == pytest.approx((dead + prompts) * scale, rel=0.02)


def test_preemption_and_its_recompute_are_drawn(pair):
    static, continuous = pair
    assert not shapes(static, "pre")
    assert len(shapes(continuous, "pre")) == 3  # 260 tokens again in chunks of ≤ 128


def test_titles_and_prompts_are_escaped(pair):
    figure = static_figure(pair, ['<img src=x onerror="1">', "b & c"])
    ElementTree.fromstring(figure.svg)
    assert "<img src=x" not in figure.to_html()
    assert "<img src=x" not in figure.to_html(inline=True)
    assert "b &amp; c" in figure.svg


def test_two_figures_on_a_page_share_no_pattern_id(pair):
    names = {re.search(r'pattern id="([^"]+)"', static_figure([t]).svg)[1] for t in pair}
    assert len(names) == 2


def test_many_requests_stay_in_bounds():
    many = [(0.002 * i, 20 + i % 50, 4 + i % 30) for i in range(120)]
    trace = run("continuous", many, slots=32, budget=512)
    drawing = draw([trace], headline([trace]))
    assert drawing.height < 800
    right = [s.x + s.width for s in drawing.shapes if isinstance(s, Rect)]
    assert max(right) <= drawing.width
    letters = [s for s in drawing.shapes if isinstance(s, Text) and s.text == "A"]
    assert letters == []


def test_of_very_many_requests_the_newest_are_drawn():
    many = [(0.001 * i, 8, 3) for i in range(700)]
    trace = run("continuous", many, slots=64, budget=512)
    drawing = draw([trace], headline([trace]))
    assert drawing.height < 800
    ends = [s for s in drawing.shapes if isinstance(s, Rect) and (s.width, s.fill) == (2, "ink")]
    assert len(ends) == 256 + 1  # and the key's


def test_a_run_without_steps_still_has_a_figure():
    figure = static_figure([Trace(header())])
    ElementTree.fromstring(figure.svg)
    assert "no request has finished" in figure.alt
    assert "n/a" in figure.table


def test_svg_file(pair, tmp_path):
    path = static_figure(pair).save_svg(tmp_path / "figure.svg")
    ElementTree.fromstring(path.read_text(encoding="utf-8"))


def test_matplotlib_makes_the_same_picture():
    trace = run("static", FOURTEEN[:6])
    figure = matplotlib_figure([trace])
    words = {text.get_text() for text in figure.axes[0].texts}
    assert "Static" in words
    assert "of rows padding" in words
    png = to_png(figure, dpi=60)
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5_000


def test_ticks_are_round():
    assert tick_step(2.56, 9) == (0.5, 1)
    assert tick_step(2.2, 9) == (0.25, 2)
    assert tick_step(47, 9) == (10.0, 0)
    step, decimals = tick_step(0.0123, 9)
    assert (step, decimals) == (pytest.approx(0.002), 3)
