"""Golden content of the plots: what Python sends, and what it finds in it. JavaScript reads both.

Run `python -m tests.widgets.golden_plots` when a format changes, and look at the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

from minillm.core.trace import TraceHeader
from tests.widgets import golden
from widgets.curve_model import CurveModel, Published
from widgets.distribution import bars
from widgets.histogram_drawing import edges, span
from widgets.histogram_model import HistogramModel, floored
from widgets.roofline_drawing import _ranges
from widgets.roofline_model import RooflineModel, flops_text, product_cost, share_text
from widgets.strip_model import ENGINE, StripModel
from widgets.strip_wire import decode_strips

FOLDER = Path(__file__).resolve().parent.parent / "golden"


def curve() -> CurveModel:
    """A simulated and a measured line, a running point, a failed load, a published figure."""
    model = CurveModel(30.0)
    model.add_line("gpu", "A100", provenance="simulated", detail="8B bf16", model="8b", focus=True,
                   planned=(1, 32, 128, 256))  # fmt: skip
    for load, ms, tok in ((1, 12.0, 84.0), (32, 14.5, 2200.0), (128, 24.0, 5400.0)):
        model.add_run("gpu", load, ms, tok)
    model.add_run("gpu", 256, 38.0, 6700.0)
    model.finish("gpu")
    model.add_line("here", "This machine", provenance="measured", detail="2 cores", model="135m",
                   load_name="concurrency", planned=(1, 2, 4, 8), runs=3)  # fmt: skip
    for ms, tok in ((20.0, 50.0), (22.0, 46.0), (21.0, 48.0)):
        model.add_run("here", 1, ms, tok, ms * 1.5)
    model.add_run("here", 2, None, None)
    model.add_run("here", 4, 40.0, 100.0, 55.0)
    model.begin("here", 4)
    model.add_published(Published("H200, an engine", 7.5, 133.0, "a page, 7.5 ms", "1 user"))
    return model


def curve_golden() -> dict:
    model = curve()
    spots = {}
    for limit in (None, 5.0, 22.0, 30.0, 38.0):
        model.slo_ms = limit
        found = {key: model.sweet_spot(line) for key, line in model.lines.items()}
        spots[str(limit)] = {k: [s.point.load, s.at_end] if s else None for k, s in found.items()}
    front = [[line.key, point.load] for line, point in model.front()]
    model.slo_ms = 30.0
    return {"data": model.as_dict(), "spots": spots, "front": front}


def strip_model() -> StripModel:
    """The golden trace's strips; of a measured run, so that bandwidth is there."""
    model = StripModel(weight_bytes=1e6, kv_token_bytes=100.0)
    config = {"max_num_seqs": 2}
    model.reset(TraceHeader("measured", "golden", "none", "float32", "static", 64, 16, config))
    for ring in model.rings:
        ring.stream = golden.STREAM
    model.extend(golden.records())
    model.done = True
    return model


def strips_golden() -> dict:
    message, data = strip_model().message(ENGINE, 0, 0)
    frame = decode_strips(data)
    spelt = {**frame._asdict(), "samples": [[t, values] for t, values in frame.samples]}
    return {"message": message, "frame": spelt, "strips": strip_model().as_dicts()}


def histogram() -> HistogramModel:
    """Two runs with limits; a tail that a linear axis cuts off."""
    model = HistogramModel(2, {"ttft": 500.0, "itl": 25.0})
    model.reset(0, golden.header(), "Static")
    model.extend(0, golden.records())
    model.reset(1, golden.header(), "Continuous")
    for i in range(150):
        model.add("ttft", 0.02 + 0.001 * i + (3.0 if i == 149 else 0.0), 1)
        model.add("itl", 0.01 + 0.0001 * i, 1)
    return model


def histogram_golden() -> dict:
    model = histogram()
    found = {}
    for name in ("ttft", "itl"):
        for log in (False, True):
            low, high = span(model, name, log)
            ends = edges(low, high, log, 20)
            counts = [bars(lane.found[name].bins(), ends) for lane in model.lanes]
            found[f"{name}-{'log' if log else 'linear'}"] = {"span": [low, high], "counts": counts}
    shares = {str(share): floored(share) for share in (0.0, 0.419, 0.989, 0.9996, 0.995, 1.0)}
    return {"data": model.as_dict(), "bars": found, "shares": shares}


def roofline() -> RooflineModel:
    """A GPU with its roof, and a machine whose roof is not known yet."""
    model = RooflineModel("[B × 8192]·[8192 × 8192]")
    model.add_device("gpu", "A100", "simulated", peak_flops=312e12, bandwidth=2039e9)
    for batch, seconds in ((1, 93.1e-6), (32, 96e-6), (512, 290e-6)):
        model.add_dot("gpu", batch, *product_cost(batch, 8192, 8192), seconds)
    model.add_device("here", "This machine", "measured", detail="2 cores")
    model.add_dot("here", 1, *product_cost(1, 1536, 1536), 5e-4)
    model.begin("here", 8)
    return model


def roofline_golden() -> dict:
    model = roofline()
    ridges = {key: device.ridge for key, device in model.devices.items()}
    xs, ys = _ranges(list(model.devices.values()))
    dots = [(device, dot) for device in model.devices.values() for dot in device.dots.values()]
    shares = [share_text(device.share(dot)) for device, dot in dots]
    flops = [flops_text(dot.flops) for _, dot in dots]
    ranges = {"x": list(xs), "y": list(ys)}
    return {"data": model.as_dict(), "ridges": ridges, "ranges": ranges, "shares": shares,
            "flops": flops}  # fmt: skip


GOLDEN = {
    "curve": curve_golden,
    "strips": strips_golden,
    "histogram": histogram_golden,
    "roofline": roofline_golden,
}


def write() -> None:
    (FOLDER / "strips.bin").write_bytes(strip_model().message(ENGINE, 0, 0)[1])
    for name, make in GOLDEN.items():
        text = json.dumps(make(), indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
