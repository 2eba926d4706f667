"""Rooflines: roofs, dots, what they come to, and that measuring fills them."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from minillm import LLM
from minillm.sim.hardware import get_gpu
from tests.widgets.golden_plots import roofline
from widgets.roofline import HERE, Roofline
from widgets.roofline_model import RooflineModel, flops_text, product_cost, share_text


def test_a_product_computes_and_moves():
    assert product_cost(1, 4, 3, 2.0) == (24.0, 2.0 * (12 + 3 + 4))
    flop, moved = product_cost(1, 8192, 8192)
    assert flop / moved == pytest.approx(1.0, rel=1e-3)  # one row: one FLOP a byte in bf16
    flop, moved = product_cost(128, 8192, 8192)
    assert flop / moved == pytest.approx(124, rel=0.01)


def test_the_ridge_and_the_share_of_the_peak():
    model = roofline()
    device = model.devices["gpu"]
    assert device.ridge == pytest.approx(312e12 / 2039e9)
    assert device.share(device.dots[1]) == pytest.approx(device.dots[1].flops / 312e12)
    assert model.devices["here"].ridge is None
    assert (
        model.headline() == "At batch 1 A100 reaches 0.5\u2009% of its peak: it waits for memory."
    )


def test_simulated_dots_lie_under_their_roof():
    plot = Roofline()
    for gpu in ("A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM"):
        plot.add_gpu(gpu)
        spec, device = get_gpu(gpu), plot.model.devices[gpu]
        for dot in device.dots.values():
            assert dot.flops <= min(spec.peak_flops, dot.intensity * spec.bandwidth)
        shares = [device.share(device.dots[batch]) for batch in sorted(device.dots)]
        assert shares == sorted(shares)
        assert shares[0] < 0.01 < 0.5 < shares[-1]


def test_measuring_shows_the_roof_first_and_then_dot_by_dot(tiny, monkeypatch):
    monkeypatch.setattr("minillm.bench.roofline.SQUARE", {"cpu": 256})
    monkeypatch.setattr("minillm.bench.roofline.READ_BYTES", 8e6)
    monkeypatch.setattr("minillm.bench.calibrate.COLD_BYTES", 1e6)
    plot, seen = Roofline(), []
    for batch in plot.measuring(tiny, size=256, batches=(1, 16)):
        device = plot.data["devices"][0]
        seen.append((batch, [dot["batch"] for dot in device["dots"]]))
        assert device["provenance"] == "measured"
        assert device["peak_flops"] > 1e6
        assert device["bandwidth"] > 1e6
    assert seen == [(1, [1]), (16, [1, 16])]
    device = plot.model.devices[HERE]
    assert "256 × 256" in device.detail
    for dot in device.dots.values():  # the roof is the best that was seen
        assert dot.flops <= device.peak_flops * 1.000001
        assert dot.flops / dot.intensity <= device.bandwidth * 1.000001


def test_measuring_refuses_nonsense(tiny, monkeypatch):
    monkeypatch.setattr("minillm.bench.roofline.SQUARE", {"cpu": 256})
    monkeypatch.setattr("minillm.bench.roofline.READ_BYTES", 8e6)
    with pytest.raises(ValueError, match="n must be an integer"):
        list(Roofline().measuring(tiny, size=0))
    with pytest.raises(ValueError, match="this LLM is simulated"):
        list(Roofline().measuring(LLM.simulated()))


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "x", True])
def test_values_that_cannot_be_are_refused(value):
    model = RooflineModel()
    model.add_device("x", "X", "measured")
    with pytest.raises(ValueError, match="must be a number"):
        model.set_roof("x", value, 1e9)
    with pytest.raises(ValueError, match="must be a number"):
        model.add_dot("x", 1, 1.0, 1.0, value)
    with pytest.raises(ValueError, match="no device 'y'"):
        model.add_dot("y", 1, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="measured or simulated"):
        model.add_device("z", "Z", "guessed")


@pytest.mark.parametrize(
    ("share", "text"), [(0.0061, "0.6\u2009%"), (0.19, "19\u2009%"), (0.997, "99\u2009%"),
                        (0.0004, "0.04\u2009%"), (None, "n/a")],
)  # fmt: skip
def test_shares(share, text):
    assert share_text(share) == text


def test_flops():
    assert flops_text(312e12) == "312\u2009TFLOP/s"
    assert flops_text(21e9) == "21.0\u2009GFLOP/s"


def test_it_freezes(tmp_path):
    plot = Roofline("[B × 8192]·[8192 × 8192]")
    with pytest.raises(ValueError, match="nothing to show"):
        plot.freeze()
    plot.add_gpu("A100-80GB-SXM", "A100")
    plot.add_device("here", "This machine", "measured", detail="2 cores")
    plot.add_dot("here", 1, 2e6, 2e6, 1e-3)
    figure = plot.freeze()
    ElementTree.fromstring(figure.svg)
    assert "A100, simulated: at most 312 TFLOP/s and 2,040 GB/s, ridge at 153" in figure.alt
    assert figure.table.count("<tr>") == 1 + 5 + 1
    assert "measured 2 cores" in figure.table
    assert plot.save_png(tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
