"""The tab *Compare*: two policies, or two settings, on the same requests and one time axis.

Simulated in this page's own kernel, on a virtual clock: it needs no engine and disturbs nobody.
"""

from __future__ import annotations

import ipywidgets

from minillm.core.config import POLICIES
from widgets import cards, report
from widgets.dashboard import fields
from widgets.dashboard.compare_model import WORKLOADS, Side, arrivals, titles
from widgets.dashboard.form import Form
from widgets.dashboard.tab import two_columns
from widgets.headline import policy_subtitle
from widgets.legs import Leg
from widgets.live import Control
from widgets.session import EngineSession
from widgets.timeline import Timeline

GPUS = ("A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM", "L4")
SLOTS, BUDGETS = (1, 2, 4, 6, 8, 12, 16, 32, 64), (64, 128, 256, 512, 1024, 2048, 4096, 8192)
BLOCKS = (256, 384, 512, 768, 1024, 2048)
COUNTS, RATES = (8, 14, 20, 30, 40), (2, 4, 8, 12, 16, 24, 40)
PACES = ((1.0, "real time"), (4.0, "4 times as fast"), (100.0, "at once"))
DEFAULTS = {
    "workload": "mixed", "gpu": GPUS[0], "count": 20, "rate": 12, "pace": 4.0, "said": "",
    "a_policy": "static", "b_policy": "continuous",
}  # fmt: skip


def side_fields(side: str) -> list[fields.Field]:
    name = side.upper()
    return [
        fields.choice(f"{side}_policy", f"{name}: policy", POLICIES, wide=True),
        fields.slider(f"{side}_max_num_seqs", f"{name}: max_num_seqs", SLOTS),
        fields.slider(f"{side}_max_num_batched_tokens", f"{name}: max_num_batched_tokens", BUDGETS),
        fields.choice(f"{side}_chunked", f"{name}: chunked prefill", ("on", "off"), wide=True),
        fields.slider(f"{side}_num_blocks", f"{name}: KV blocks", BLOCKS),
    ]


def compare_form() -> Form:
    plain = Side()
    values = {
        f"{side}_{name}": getattr(plain, name)
        for side in "ab"
        for name in ("max_num_seqs", "max_num_batched_tokens", "chunked", "num_blocks")
    }
    return Form(
        [
            fields.buttons("run", ("run", "Run", "main-button"), ("stop", "Stop")),
            fields.note("said"),
            fields.select("workload", "Requests", WORKLOADS.items()),
            fields.slider("count", "How many", COUNTS),
            fields.slider("rate", "Arrivals a second", RATES),
            fields.select("gpu", "Simulated GPU, Llama-3.1-8B", GPUS),
            fields.select("pace", "Pace", PACES),
            *side_fields("a"),
            *side_fields("b"),
        ],
        "Two sides and their requests",
        **{**values, **DEFAULTS},
    )  # fmt: skip


class CompareTab:
    """Runs A, then B, each into a lane of one timeline."""

    def __init__(self, *, threads: bool | None = None) -> None:
        self.form = compare_form()
        self.form.on_press, self.form.on_change = self._press, self._change
        self.timeline = Timeline(lanes=2, titles=["Static", "Continuous"])
        self.table = ipywidgets.HTML()
        self.session = EngineSession(None, threads=threads)
        self.session.watch(self.timeline, 0).watch(self.timeline, 1)
        self.session.on_end.append(self._ended)
        self._titles = list(self.timeline.titles)
        self._show_running(False)

    def panel(self) -> ipywidgets.Widget:
        return two_columns(self.form, [self.timeline, self.table])

    def side(self, which: str) -> Side:
        """The settings of side "a" or "b"."""
        names = ("policy", "max_num_seqs", "max_num_batched_tokens", "chunked", "num_blocks")
        return Side(**{name: self.form[f"{which}_{name}"] for name in names})

    def start(self) -> bool:
        """Run both; False, with the reason in the form, for what cannot be."""
        form, sides = self.form, (self.side("a"), self.side("b"))
        try:
            engines = [side.engine(form["gpu"]) for side in sides]
            requests = arrivals(form["workload"], form["count"], form["rate"])
        except ValueError as error:
            form["said"] = str(error)
            return False
        self.stop()
        self._titles = titles(*sides)
        for lane, engine in enumerate(engines):
            header = engine.trace.header
            self.timeline.reset(lane, header, self._titles[lane], policy_subtitle(header))
        self.timeline.expected_requests = len(requests)
        self.table.value = ""
        form["said"] = ""
        plan = [Leg(engine, tuple(requests), lane) for lane, engine in enumerate(engines)]
        self.session.start_legs(plan, Control(pace=form["pace"]))
        self._show_running(True)
        return True

    def stop(self) -> None:
        """End a run after the step in hand."""
        self.session.stop()
        self.session.join()

    def close(self) -> None:
        self.session.close()

    def _press(self, name: str) -> None:
        if name == "run":
            self.start()
        elif name == "stop":
            self.session.stop()

    def _change(self, name: str, value: object) -> None:
        if name == "pace":
            self.session.set_pace(value)

    def _ended(self, found: report.RunReport) -> None:
        self._show_running(False)
        rows = [
            (self._titles[lane], *report.figures(trace)[1:])
            for lane, trace in sorted(found.traces.items())
        ]
        where = cards.provenance(found.trace.header)
        self.table.value = cards.card(
            cards.head("In figures", where), cards.table(("side", *report.COLUMNS[1:]), rows)
        )

    def _show_running(self, running: bool) -> None:
        self.form.turn_off("run", "A run is on." if running else "")
        self.form.turn_off("stop", "" if running else "Nothing runs.")
