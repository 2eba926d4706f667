"""The tab *Curve*: throughput against time per token, simulated GPUs beside this page's server.

The simulated lines are decode steps of the cost model; the server is swept over HTTP, as users
would load it: so many at a time, each sends its next request when its last one has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import ipywidgets

from widgets.curve import Curve
from widgets.dashboard import fields
from widgets.dashboard.form import Form
from widgets.dashboard.tab import Jobs, two_columns

if TYPE_CHECKING:
    from widgets.dashboard.live import LiveTab

DEVICES = {"A100": "A100-80GB-SXM", "H100": "H100-80GB-SXM", "H200": "H200-141GB-SXM"}
MODEL = "llama-3.1-8b"
USERS = ((4, "1, 2, 4"), (8, "1 to 8"), (16, "1 to 16"), (32, "1 to 32"))
LOADS = (1, 2, 4, 8, 16, 32)
REQUESTS = 3  # of each user, at each point; 8 at least
INPUT, OUTPUT = 64, 48  # tokens
LIMIT_MS = 30.0
SERVER = "server"


class CurveTab:
    """live: the tab whose engine is swept; None: there is none."""

    def __init__(self, live: LiveTab | None) -> None:
        self.live = live
        self.curve = Curve(slo_ms=LIMIT_MS)
        self.form = Form(
            [
                fields.buttons("go", ("sweep", "Sweep this server", "main-button")),
                fields.select("users", "At a time", USERS),
                fields.buttons("end", ("stop", "Stop")),
                fields.note("said"),
            ],
            "The sweep",
            users=16, said="",
        )  # fmt: skip
        self.form.on_press = self._press
        self._jobs = Jobs(self.form)
        self._stopping = threading.Event()
        for name, gpu in DEVICES.items():
            self.curve.add_device(gpu, name, MODEL, focus=name == "A100")
        self.curve.add_published("A100|H100|H200", "Llama-3.1-8B")
        self.form.turn_off("stop", "No sweep is on.")
        if live is None:
            self.form.turn_off("sweep", "No engine is running: `make dashboard` starts one.")

    def panel(self) -> ipywidgets.Widget:
        return two_columns(self.form, [self.curve])

    def close(self) -> None:
        self._stopping.set()

    def _press(self, name: str) -> None:
        if name == "stop":
            self._stopping.set()
        elif self._jobs.start(self._sweep):
            self._stopping.clear()

    def _sweep(self) -> None:
        """On its own thread: this visitor's arrivals pause meanwhile."""
        from minillm.bench.sweep import sweep

        live, form = self.live, self.form
        state = live.desk.state
        if not state:
            raise ValueError("The engine has not answered yet: try again in a moment.")
        loads = [each for each in LOADS if each <= form["users"]]
        rate = live.load.settings.rate
        live.load.change(rate=0.0)
        form.turn_off("sweep", "A sweep is on.")
        form.turn_off("stop", "")
        form["said"] = others(state, rate)
        try:
            self.curve.add_line(
                SERVER, f"This server: {state['model']}", provenance=state["provenance"],
                detail=state["device"], model=state["model"], load_name="concurrency",
                planned=loads, focus=True,
            )  # fmt: skip
            points = sweep(loads, self._run_point(state["model"]))
            for _ in self.curve.follow(SERVER, self._until_stopped(points)):
                pass
        finally:
            self.curve.finish(SERVER)
            live.load.change(rate=rate)
            form.turn_off("sweep", "")
            form.turn_off("stop", "No sweep is on.")
        if self._stopping.is_set():
            form["said"] = "Stopped: the curve has the points until then."

    def _run_point(self, model: str):
        from minillm.bench.client import Target
        from minillm.bench.load import Run, measure
        from minillm.bench.plan import Workload

        load = self.live.load
        target = Target(f"{load.url}/v1", model, api_key=load.key)
        workload = Workload("fixed", INPUT, OUTPUT)

        def run_point(users: float, number: int) -> Run:
            count = max(8, int(users) * REQUESTS)
            plan = workload.plan([0.0] * count, first=1000 * number)
            return measure(target, plan, max_concurrency=int(users), closed=True)

        return run_point

    def _until_stopped(self, points: Iterator[tuple[dict[str, Any], Any]]) -> Iterator:
        for point in points:
            yield point
            if self._stopping.is_set():
                return


def others(state: dict[str, Any], rate: float) -> str:
    """What disturbs the figures, if something does."""
    words = "Your own arrivals pause meanwhile." if rate else ""
    if state["running"] or state["waiting"]:
        words += " Requests that are still in the engine make the first points look slower."
    return words.strip()
