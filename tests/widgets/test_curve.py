"""The throughput curve: points from runs, the sweet spot, the front, words, a static figure."""

from __future__ import annotations

import csv
import json
import math
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.bench.load import Run
from minillm.bench.record import ClientRequest
from minillm.bench.sweep import sweep
from minillm.sim.step_table import step_table
from tests.widgets.golden_plots import FOLDER, GOLDEN, curve
from widgets.curve import SOURCES, Curve
from widgets.curve_model import CurveModel
from widgets.published import published_points


@pytest.mark.parametrize("name", GOLDEN)
def test_the_golden_content_is_current(name):
    written = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(GOLDEN[name]())) == written


def test_a_point_is_the_median_of_its_runs_with_their_range():
    point = curve().lines["here"].points[1]
    assert (point.ms, point.tok_s, point.p99_ms) == (21.0, 48.0, 31.5)
    assert point.as_dict()["ms_range"] == [20.0, 22.0]
    assert point.as_dict()["tok_range"] == [46.0, 50.0]


def test_the_sweet_spot_follows_the_limit():
    model = curve()
    line = model.lines["gpu"]
    assert (model.sweet_spot(line).point.load, model.sweet_spot(line).at_end) == (128, False)
    model.slo_ms = 100
    assert (model.sweet_spot(line).point.load, model.sweet_spot(line).at_end) == (256, True)
    model.slo_ms = 5
    assert model.sweet_spot(line) is None
    assert model.headline() == "A100: no load keeps 5\u2009ms per token."


def test_words():
    model = curve()
    assert model.headline() == (
        "A100: 64× the tokens per second at batch 128, for 2× the time per token."
    )
    assert "within 30" in model.subtitle()
    note = model.as_dict()["note"]
    assert "different models" in note
    assert "≥" not in note  # no line ends within the limit
    words = model.describe()
    assert "This machine, measured" in words
    assert "H200, an engine, published" in words


def test_the_walk_knows_what_runs_and_what_comes():
    model = CurveModel()
    model.add_line("x", "X", provenance="measured", planned=(1, 2, 4), runs=2)
    assert model.lines["x"].upcoming == 1
    model.begin("x", 1)
    assert model.lines["x"].running == (1, 1)
    assert model.lines["x"].upcoming == 2
    model.add_run("x", 1, 10, 100)
    model.begin("x", 1)
    assert model.lines["x"].running == (1, 2)
    model.finish("x")
    assert (model.lines["x"].running, model.lines["x"].upcoming) == (None, None)


def test_a_load_that_completed_nothing_is_listed_and_not_drawn():
    line = curve().as_dict()["lines"][1]
    assert line["failed"] == [2]
    assert [point["load"] for point in line["points"]] == [1, 4]


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "3", True])
def test_values_that_cannot_be_are_refused(value):
    model = CurveModel()
    model.add_line("x", "X", provenance="measured")
    with pytest.raises(ValueError, match="must be a number"):
        model.add_run("x", 1, value, 100)
    with pytest.raises(ValueError, match="must be a number"):
        CurveModel(value)
    assert model.empty


def test_unknown_lines_and_kinds_are_refused():
    model = CurveModel()
    with pytest.raises(ValueError, match="There is no line 'x'"):
        model.add_run("x", 1, 1, 1)
    with pytest.raises(ValueError, match="measured or simulated"):
        model.add_line("x", "X", provenance="published")
    with pytest.raises(ValueError, match="load_name"):
        model.add_line("x", "X", provenance="measured", load_name="users")


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 1e4)), min_size=1, max_size=30))
def test_nobody_beats_a_point_of_the_front(pairs):
    model = CurveModel()
    model.add_line("x", "X", provenance="measured")
    for load, (ms, tok) in enumerate(pairs, 1):
        model.add_run("x", load, ms, tok)
    ahead = [point for _, point in model.front()]
    for point in ahead:
        assert not any(ms <= point.ms and tok > point.tok_s for ms, tok in pairs)
    for ms, tok in pairs:
        assert any(point.ms <= ms and point.tok_s >= tok for point in ahead)


# ── what feeds it ───────────────────────────────────────────────────────────────────────────


def test_simulated_devices_come_from_the_step_table():
    model = CurveModel()
    table = step_table("A100-80GB-SXM", batches=(1, 128, 4096))
    model.add_step_table(table, "A100")
    line = model.lines["A100-80GB-SXM"]
    assert line.provenance == "simulated"
    assert [point.load for point in line.drawn] == [1, 128]  # 4,096 do not fit
    assert line.drawn[0].tok_s == pytest.approx(table["steps"][0]["tok_s"])


def test_published_points_carry_their_source():
    points = published_points("H200", "Llama-3-8B")
    assert [(p.ms, round(p.tok_s)) for p in points] == [(7.62, 131)]
    assert "AccelMark" in points[0].source
    assert "7.62 ms" in points[0].source
    assert published_points("no such GPU") == []


def test_it_follows_a_sweep_of_the_load_generator():
    curve = Curve()
    curve.add_line("here", "Here", provenance="measured", load_name="concurrency", planned=[1, 2])
    chunks = [0.1, 0.12, 0.14]
    done = ClientRequest(0, 0.0, 8, 0.0, chunks, chunks[-1], 10, len(chunks), "length")
    run = Run(1, [done])
    seen = []
    for summary in curve.follow("here", sweep([1, 2], lambda load, number: run)):
        seen.append(summary["load"])
        assert len(curve.data["lines"][0]["points"]) == len(seen)
    assert seen == [1, 2]
    line = curve.data["lines"][0]
    assert line["done"]
    assert line["points"][1]["ms"] == pytest.approx(20)


# ── the widget ──────────────────────────────────────────────────────────────────────────────


def shown() -> Curve:
    widget = Curve(30.0)
    widget.model = curve()
    widget.publish()
    return widget


def test_the_limit_moves_words_and_table():
    widget = shown()
    assert "batch 128" in widget.headline
    widget.slo_ms = 20.0
    assert "batch 32" in widget.headline
    assert [row[1] for row in widget.model.table()[1] if "★" in row[1]] == ["batch 32 ★"]


def test_a_headline_of_ones_own_stays():
    widget = shown()
    widget.set_headline("Look at this.")
    widget.add_run("gpu", 512, 80, 7000)
    assert widget.headline == "Look at this."
    widget.set_headline("")
    assert widget.headline.startswith("A100")


def test_the_static_figure_has_chart_words_and_table(tmp_path):
    widget = shown()
    figure = widget.freeze()
    root = ElementTree.fromstring(figure.svg)
    assert root.attrib["aria-label"].startswith("A100: 64×")
    assert "http" not in figure.svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert figure.table.count("<tr>") == 1 + 4 + 2 + 1
    assert widget.frozen
    assert "text/html" in widget._repr_mimebundle_()[0]
    rows = list(csv.DictReader(widget.save_csv(tmp_path / "a.csv").read_text().splitlines()))
    assert rows[2]["load"] == "batch 128 ★"
    assert rows[-1]["source"] == "published: a page, 7.5 ms"
    png = widget.save_png(tmp_path / "a.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    widget.add_run("gpu", 300, 50, 6900)
    assert widget.frozen == ""


def test_nothing_to_show_yet():
    with pytest.raises(ValueError, match="nothing to show"):
        Curve().freeze()


def test_the_script_is_one_module_without_imports():
    esm = Curve._esm
    assert "\nimport " not in esm
    assert " as " not in "".join(line for line in esm.splitlines() if line.startswith("import"))
    assert "http" not in esm.replace("http://www.w3.org", "")
    assert SOURCES[-1] == "curve/view.js"
