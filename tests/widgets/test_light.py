"""The models of the plots run with the standard library alone: in a browser tab, too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BLOCKED = (
    "torch", "numpy", "psutil", "pynvml", "matplotlib", "ipywidgets", "anywidget", "traitlets",
    "IPython",
)  # fmt: skip
CODE = """
import json, sys
for name in json.loads(sys.argv[1]): sys.modules[name] = None
from minillm.core import (Arrival, CacheConfig, EngineConfig, LLMEngine, SamplingParams,
                          SchedulerConfig, drive)
from minillm.sim import SimulatedRunner
from minillm.sim.step_table import step_table
from widgets import (answers, curve_drawing, histogram_drawing, question_chart, roofline_drawing,
                     strip_drawing, strip_words)
from widgets.curve_model import CurveModel
from widgets.histogram_model import HistogramModel
from widgets.published import published_points
from widgets.roofline_model import RooflineModel
from widgets.still import static
from widgets.strip_model import StripModel

config = EngineConfig(CacheConfig(100, 16, False), SchedulerConfig(max_num_seqs=4), "continuous")
engine = LLMEngine(config, SimulatedRunner.for_gpu())
arrivals = [Arrival(f"r{i}", (3, 4, 5), SamplingParams(4 + i, ignore_eos=True)) for i in range(6)]
for _ in drive(engine, arrivals): pass
strips, latencies, curve, roofs = StripModel(), HistogramModel(), CurveModel(30), RooflineModel()
strips.reset(engine.trace.header)
strips.extend(engine.trace.records)
latencies.extend(0, engine.trace.records)
curve.add_step_table(step_table(batches=(1, 8)), "A100")
curve.add_published(published_points("H200")[0])
roofs.add_device("x", "X", "measured", peak_flops=1e12, bandwidth=1e10)
roofs.add_dot("x", 1, 1e6, 1e6, 1e-3)
figures = [
    static(strip_drawing.draw(strips, ""), "", strip_words.table(strips)),
    static(histogram_drawing.draw(latencies, "", ""), "", latencies.table()),
    static(curve_drawing.draw(curve, "", ""), "", curve.table()),
    static(roofline_drawing.draw(roofs, "", ""), "", roofs.table()),
]
print(json.dumps([len(figure.svg) for figure in figures]))
"""


def test_models_and_static_figures_need_nothing_installed():
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(BLOCKED)],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(size > 2_000 for size in json.loads(done.stdout))
