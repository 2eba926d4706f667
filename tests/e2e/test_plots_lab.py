"""The plots in JupyterLab: a run feeds them, a second view and a reload show them, offline."""

from __future__ import annotations

import json

from tests.e2e.lab import LabPage, LabServer, run_notebook
from tests.e2e.test_lab import write_notebook

SET_UP = """
from minillm.core import Arrival, CacheConfig, EngineConfig, LLMEngine, SamplingParams
from minillm.core import SchedulerConfig
from minillm.sim import SimulatedRunner
from minillm.telemetry import Sampler
from widgets.cursor import Cursor
from widgets.curve import Curve
from widgets.histogram import Histogram
from widgets.roofline import Roofline
from widgets.session import EngineSession
from widgets.strip_chart import StripChart

cursor = Cursor()
strips, latencies = StripChart(cursor=cursor), Histogram(slo_ms={"ttft": 200})
config = EngineConfig(CacheConfig(400, 16, False), SchedulerConfig(max_num_seqs=8), "continuous")
engine = LLMEngine(config, SimulatedRunner.for_gpu())
arrivals = [
    Arrival(f"r{i}", tuple(range(3, 40)), SamplingParams(max_tokens=20 + i, ignore_eos=True),
            time=0.05 * i)
    for i in range(40)
]
session = EngineSession(engine).watch(strips).watch(latencies)
session.start(arrivals, pace=4.0)
strips
"""
LAST = """
report = await session.finished()
curve, roofs = Curve(slo_ms=30), Roofline()
curve.add_device("A100-80GB-SXM", "A100", batches=(1, 32, 128, 256))
roofs.add_gpu("A100-80GB-SXM", "A100")
session.close()
"""
PAINTED = """() => [...document.querySelectorAll('canvas.mlt-over')].map(canvas => {
    if (!canvas.width) return 0;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let n = 0;
    for (let i = 3; i < pixels.length; i += 4) n += pixels[i] > 0;
    return n;
})"""
ALL_PAINTED = (
    f"n => {{ const ink = ({PAINTED})(); return ink.length >= n && ink.every(i => i > 4000); }}"
)


def test_the_plots_live_in_a_notebook(lab: LabServer, page: LabPage):
    name = write_notebook(
        lab, "plots.ipynb", SET_UP, "latencies", LAST, "curve", "roofs", "strips"
    )  # fmt: skip
    assert run_notebook(page, name) == []
    tab = page.page
    for number, cells in ((0, 1), (3, 1), (5, 1)):
        page.show_cell(f"test-{number}")
        tab.wait_for_function(ALL_PAINTED, arg=cells, timeout=30_000)
    page.show_cell("test-0")
    assert "rows in use" in tab.locator(".mlt-headline").first.inner_text()
    page.set_theme("JupyterLab Dark")
    page.set_theme("JupyterLab Light")
    page.check_clean()
    # Saved and opened again: the kernel and its views are still there.
    tab.evaluate("() => { void window.jupyterapp.commands.execute('docmanager:save'); }")
    tab.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    page.open_notebook(name)
    page.show_cell("test-3")
    tab.wait_for_function(ALL_PAINTED, arg=1, timeout=30_000)
    tab.locator(".mlt-headline", has_text="A100: 64× the tokens per second").wait_for()
    tab.locator(".mlt-headline", has_text="rows in use").first.wait_for()
    assert page.external_requests == []
    saved = json.loads((lab.root / name).read_text(encoding="utf-8"))
    assert len(json.dumps(saved)) < 500_000
