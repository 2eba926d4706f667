"""Timeline, block map, queue and cluster in JupyterLab: one session feeds them, one cursor moves
them, a second view and a reload show the same, and nothing leaves the machine."""

from __future__ import annotations

from tests.e2e.lab import LabPage, LabServer, run_notebook
from tests.e2e.test_lab import write_notebook

MAKE = """
from minillm.sim.workload import Fixed, synthetic
from minillm.core import *
from minillm.sim.runner import SimulatedRunner
from minillm.sim.simulate import EngineOptions, run_cluster
from minillm.sim.cluster_spec import parse_replicas
from widgets.block_map import BlockMap
from widgets.cluster_view import ClusterView
from widgets.cursor import Cursor
from widgets.queue_view import QueueView
from widgets.session import EngineSession
from widgets.timeline import Timeline

config = EngineConfig(CacheConfig(40, 16, True), SchedulerConfig(max_num_seqs=4), "continuous")
cursor = Cursor()
timeline, blocks, queue = Timeline(cursor=cursor), BlockMap(cursor=cursor), QueueView(cursor=cursor)
session = EngineSession(LLMEngine(config, SimulatedRunner()))
session.watch(timeline).watch(blocks).watch(queue)
timeline
"""
CLUSTER = """
specs = parse_replicas("2xA100-80GB-SXM")
work = synthetic(60, 10.0, seed=4, inputs=Fixed(200), outputs=Fixed(20))
cluster, _, _ = run_cluster(specs, work, EngineOptions(max_num_seqs=4), fail="1@2s-4s")
shown = ClusterView()
shown.replay(cluster)
shown
"""
RUN = """
params = SamplingParams(60, ignore_eos=True)
arrivals = [
    Arrival(f"r{i}", tuple(range(60 * i, 60 * i + 90)), params, time=0.02 * i) for i in range(12)
]
session.start(arrivals, pace=2.0)
report = await session.finished()
len(report.traces[0].steps)
"""
READY = """count => {
    const roots = [...document.querySelectorAll(".mlt")];
    window.figures = roots.map((root) => root.parentElement.figureView).filter(Boolean);
    return window.figures.length >= count;
}"""


def test_one_session_feeds_all_one_cursor_moves_them_and_a_reload_keeps_them(
    lab: LabServer, page: LabPage
):
    cells = [MAKE, "blocks", "queue", CLUSTER, RUN, "blocks"]
    name = write_notebook(lab, "figures.ipynb", *cells)
    page.page.set_viewport_size({"width": 1280, "height": 3900})
    assert run_notebook(page, name) == []
    steps = page.cells()[4]["outputs"][-1]["data"]["text/plain"]
    page.page.wait_for_function(READY, arg=5, timeout=60_000)
    count = f"() => window.figures.filter((f) => f.lane?.stepCount === {steps}).length === 2"
    page.page.wait_for_function(count, timeout=60_000)
    page.page.wait_for_function(
        f"() => window.figures[0].lanes[0].stepCount === {steps}"
        f" && window.figures[1].lane.stepCount === {steps} && window.figures[2].over",
        timeout=60_000,
    )
    headlines = page.page.locator(".mlt-headline").all_inner_texts()
    assert "tokens per second" in headlines[0]
    assert "pool" in headlines[1] or "blocks" in headlines[1]
    assert "in the system" in headlines[2]
    assert headlines[3].startswith("Replica 1 fails at 2.00")
    page.page.locator(".mlt-over").nth(1).focus()
    page.page.keyboard.press("Home")
    page.page.keyboard.press("Shift+ArrowRight")
    page.page.keyboard.press("ArrowDown")
    at = page.page.evaluate("() => window.figures.map(({ link }) => [link.t, link.req])")
    assert at[0] == at[1] == at[2] != [None, None]
    assert at[3] == [None, None]
    assert page.page.evaluate("() => window.figures[1].shown") == 10
    page.set_theme("JupyterLab Dark")
    page.page.wait_for_function("() => window.figures.every(figure => figure.theme.dark)")
    # A second view is there already, and a reload of the page finds what the kernel has.
    page.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
    page.page.reload()
    page.page.wait_for_function(READY, arg=5, timeout=120_000)
    page.page.wait_for_function(count, timeout=60_000)
    page.check_clean()
