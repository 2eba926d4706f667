"""Every widget on real content, in a plain page: for tests, and as pictures to look at.

    python -m tests.e2e.gallery FOLDER [NAME …]    # each at 1280, 640 and 360 px, light and dark

Runs are simulated by the engine; nothing is drawn by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import anywidget

from minillm import LLM
from minillm.sim import GPUCostModel, SimulatedRunner
from minillm.sim.cluster_spec import parse_replicas
from minillm.sim.simulate import EngineOptions, make_workload, run_cluster, simulate_cluster
from tests.e2e.widget_page import WidgetPage
from tests.widgets.golden_plots import curve as golden_curve
from tests.widgets.runs import run, shared_run
from widgets.batch_slider import BatchSlider
from widgets.block_map import BlockMap
from widgets.cluster_view import ClusterView
from widgets.cursor import Cursor
from widgets.curve import Curve
from widgets.histogram import Histogram
from widgets.kv_bar import ReadsPanel
from widgets.lesson import requests_with, simulate
from widgets.question_chart import Axis, Chart
from widgets.questions import Predict, Quiz
from widgets.queue_view import QueueView
from widgets.roofline import Roofline
from widgets.routing import simulated_routers
from widgets.split import costs_table, pipeline_table
from widgets.strip_chart import StripChart
from widgets.throughput_cards import number_rows, numbers_table
from widgets.timeline import Timeline
from widgets.walk import Walk
from widgets.waste import waste_card, waste_table

WIDTHS = (1280, 640, 360)
GPUS = {"A100": "A100-80GB-SXM", "H100": "H100-80GB-SXM", "H200": "H200-141GB-SXM"}


def _fed(widget, *traces):
    for lane, trace in enumerate(traces):
        widget.feed(lane, trace)
        widget.publish()
        widget.finish(lane)
    widget.conclude()
    return widget


def timeline() -> Timeline:
    return _fed(Timeline(2, cursor=Cursor()), run("static"), run("continuous", num_blocks=52))


def timeline_alone() -> Timeline:
    llm = LLM.simulated()
    trace = simulate(llm, requests_with(llm, [100, 50, 150, 30]), "static", max_num_seqs=4)
    return _fed(Timeline(), trace)


def block_map() -> BlockMap:
    return _fed(BlockMap(cursor=Cursor()), shared_run())


def queue() -> QueueView:
    return _fed(QueueView(3, cursor=Cursor()), run("static"), run("dynamic"), run("continuous"))


def strips() -> StripChart:
    return _fed(StripChart(), run("continuous", num_blocks=200, runner=SimulatedRunner.for_gpu()))


def histogram() -> Histogram:
    widget = Histogram(2, slo_ms={"ttft": 500, "itl": 25})
    late = [(0.004 * i, 40 + i % 50, 8 + i % 40) for i in range(160)]
    return _fed(widget, run("static", late), run("continuous", late))


def curve() -> Curve:
    """Devices of the simulator, and one line that is being walked."""
    widget = Curve(30.0)
    for name, gpu in GPUS.items():
        widget.add_device(gpu, name, batches=(1, 8, 32, 64, 128, 256), focus=name == "A100")
    return widget


def curve_running() -> Curve:
    """Made-up points: one line still runs, one load failed, error bars, a published figure."""
    widget = Curve(30.0)
    widget.model = golden_curve()
    widget.publish()
    return widget


def roofline() -> Roofline:
    widget = Roofline()
    for name, gpu in GPUS.items():
        widget.add_gpu(gpu, name)
    return widget


def cluster() -> ClusterView:
    trace = {"trace": "azure2023-conv", "rate": 20.0, "requests": 200}
    replicas = parse_replicas("2xA100-80GB-SXM,1xL4")
    made, _, _ = run_cluster(
        replicas, make_workload(**trace), EngineOptions(max_num_seqs=16), fail="1@4s-7s"
    )
    view = ClusterView()
    view.replay(made)
    return view


def predict_choice() -> Predict:
    choices = ["15 %", "30 %", "45 %", "60 %"]
    made = Predict("share", "What share of the computed rows is thrown away?", choices=choices)
    made.answer = "30 %"
    return made


def predict_number() -> Predict:
    question = "How many times the tokens per second does continuous batching give?"
    return Predict("times", question, low=1, high=5, step=0.1, unit="×")


def _chart() -> Chart:
    x = Axis("ms per token", 5, 100, True, "ms")
    y = Axis("tokens per second", 50, 20_000, True, "tok/s")
    known = [(11.9, 84.0), (12.3, 640.0), (14.3, 2230.0)]
    return Chart(x, y, [("A100, batch 1 to 32", known)])


def predict_point() -> Predict:
    made = Predict("point", "Where will batch 64 lie?", chart=_chart())
    made.answer = [20.0, 3300.0]
    return made


def quiz() -> Quiz:
    made = Quiz.of("05")
    made.picked = [0, 1, None]
    return made


def walk() -> Walk:
    return Walk.of([(4, 4), (4, 1), (4, 6), (4, 6), (4, 5)], slots=3)


WIDGETS: dict[str, Callable[[], anywidget.AnyWidget]] = {
    made.__name__: made
    for made in (
        timeline, timeline_alone, block_map, queue, strips, histogram, curve, curve_running,
        roofline, cluster, predict_choice, predict_number, predict_point, quiz, walk,
    )
}  # fmt: skip


# ── cards: HTML, no script ──────────────────────────────────────────────────────────────────


def saw_number() -> str:
    predict = predict_number()
    predict.answer = 2.0
    predict.lock()
    return predict.saw(2.2, "Simulated, the three constants of this course.")._repr_html_()


def saw_point() -> str:
    predict = predict_point()
    predict.lock()
    return predict.saw((17.3, 3709.0), "Simulated, A100.")._repr_html_()


def batch_slider() -> str:
    slider = BatchSlider(gpus=GPUS, side=8192, batches=(1, 8, 32, 128, 512))
    return slider.readout.value + slider.table()._repr_html_()


def kv_bar() -> str:
    panel = ReadsPanel()
    return panel.shown.value + panel.table([(1, 512), (32, 512), (32, 8192)])._repr_html_()


def waste() -> str:
    llm = LLM.simulated()
    runs = {
        f"batch size {size}": simulate(
            llm, requests_with(llm, [100, 50, 150, 30]), "static", max_num_seqs=size
        )
        for size in (4, 2)
    }
    first = next(iter(runs.values()))
    return waste_card(first)._repr_html_() + waste_table(runs)._repr_html_()


def split() -> str:
    costs = {f"TP {tp}": GPUCostModel("L40S", "llama-3.1-70b", tp=tp) for tp in (2, 4, 8)}
    return costs_table(costs)._repr_html_() + pipeline_table(4, 4)._repr_html_()


def routing() -> str:
    trace = {"trace": "azure2023-conv", "rate": 20.0, "requests": 60}
    runs = {
        router: simulate_cluster("2xA100-80GB-SXM,1xL4", router=router, **trace)
        for router in ("round_robin", "least_conn")
    }
    return simulated_routers(runs, "Two A100 and one L4")._repr_html_()


def throughput_cards() -> str:
    rows = {name: number_rows(_simulated(gpu), (1, 8, 32, 128), 508) for name, gpu in GPUS.items()}
    return numbers_table(rows, ["◐ simulated"])._repr_html_()


def _simulated(gpu: str) -> LLM:
    runner = SimulatedRunner.for_gpu(gpu, "llama-3.1-8b")
    return LLM.simulated(runner=runner, num_blocks=8000, max_num_seqs=128)


CARDS: dict[str, Callable[[], str]] = {
    made.__name__: made
    for made in (
        saw_number, saw_point, batch_slider, kv_bar, waste, split, routing, throughput_cards,
    )
}  # fmt: skip


def show(page: WidgetPage, name: str) -> None:
    """Put a widget or a card on the page."""
    if name in WIDGETS:
        page.show(WIDGETS[name]())
    else:
        page.page.evaluate(
            "html => { document.getElementById('here').appendChild("
            "document.createElement('div')).innerHTML = html; }",
            CARDS[name](),
        )


def main(folder: str, *names: str) -> None:
    from playwright.sync_api import sync_playwright

    from tests.capabilities import find_program
    from tests.e2e.conftest import CHROMIUM_NAMES
    from tests.e2e.lab import CHROMIUM_ARGUMENTS

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    chromium = find_program("Chromium", *CHROMIUM_NAMES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=list(CHROMIUM_ARGUMENTS)
        )
        for name in names or (*WIDGETS, *CARDS):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = WidgetPage(context.new_page())
            show(page, name)
            for width in WIDTHS:
                page.page.set_viewport_size({"width": width, "height": 900})
                for theme in ("light", "dark"):
                    page.set_theme(theme)
                    page.page.wait_for_timeout(500)
                    page.painted()
                    path = out / f"{name}-{width}-{theme}.png"
                    page.page.screenshot(path=path, full_page=True)
            page.check_clean()
            context.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
