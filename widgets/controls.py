"""Buttons and choosers: core ipywidgets with visible labels. They only start, stop and set.

A callback never waits and never touches an engine: it calls `start`, `stop` or sets a pace, and
the driver does the rest. A control that would do nothing now is disabled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ipywidgets

from widgets.legs import name_of

if TYPE_CHECKING:
    from widgets.compare import Comparison
    from widgets.playground import Playground
    from widgets.report import RunReport

ROW = {"display": "flex", "flex_flow": "row wrap", "align_items": "center", "margin": "0 0 6px"}


class RunButtons:
    """Run and Stop; Run is disabled while a run is on, Stop while none is."""

    def __init__(self, run, stop) -> None:
        self.run = ipywidgets.Button(
            description="Run", tooltip="Run both policies on the same requests"
        )
        self.stop = ipywidgets.Button(
            description="Stop", tooltip="Stop after the step in hand", disabled=True
        )
        self.run.on_click(lambda _: run())
        self.stop.on_click(lambda _: stop())
        for button, name in ((self.run, "run"), (self.stop, "stop")):
            button.layout.width = "84px"
            button.add_class(f"ml-{name}")

    def show(self, running: bool) -> None:
        """Enable what makes sense now."""
        self.run.disabled, self.stop.disabled = running, not running


def policy_chooser(label: str, comparison: Comparison, lane: str) -> ipywidgets.Dropdown:
    """A labelled list of policies for lane "a" or "b"."""
    chooser = ipywidgets.Dropdown(
        options=[(name_of(policy), policy) for policy in comparison.policies],
        value=getattr(comparison, lane),
        description=label,
        style={"description_width": "22px"},
        layout={"width": "190px"},
    )
    chooser.observe(lambda change: setattr(comparison, lane, change["new"]), names="value")
    return chooser


def pace_slider(comparison: Comparison) -> ipywidgets.FloatLogSlider:
    """Simulated seconds per second of wall time: 0.1 to 1,000."""
    slider = ipywidgets.FloatLogSlider(
        value=comparison.pace or 1.0, base=10, min=-1, max=3, step=0.25,
        description="Pace ×", readout_format=".1f", layout={"width": "300px"},
        tooltip="Simulated seconds per second",
    )  # fmt: skip

    def changed(change: dict) -> None:
        comparison.pace = min(max(change["new"], 0.1), 1000.0)
        if math.isfinite(comparison.pace):
            comparison.session.set_pace(comparison.pace)

    slider.observe(changed, names="value")
    return slider


def comparison_panel(comparison: Comparison) -> ipywidgets.VBox:
    """The panel of a Comparison: two policies to choose, Run, Stop, the timeline of both."""
    buttons = RunButtons(comparison.start, comparison.stop)
    choosers = [policy_chooser("A", comparison, "a"), policy_chooser("B", comparison, "b")]
    controls = [*choosers, buttons.run, buttons.stop]
    if comparison.llm.info.provenance == "simulated":
        controls.append(pace_slider(comparison))

    def started() -> None:
        buttons.show(True)
        for chooser in choosers:
            chooser.disabled = True
        choosers[0].value, choosers[1].value = comparison.a, comparison.b

    def ended(_: RunReport | None = None) -> None:
        buttons.show(False)
        for chooser in choosers:
            chooser.disabled = False

    comparison.session.on_start.append(started)
    comparison.session.on_end.append(ended)
    started() if comparison.running else ended()
    return ipywidgets.VBox(
        [ipywidgets.Box(controls, layout=ROW), comparison.timeline], layout={"width": "100%"}
    )


def playground_panel(play: Playground) -> ipywidgets.VBox:
    """The panel of a Playground: a prompt to send, a burst, the policy, Stop; answer, timeline."""
    prompt = ipywidgets.Text(
        placeholder="Ask something, then press Enter", description="Prompt",
        style={"description_width": "56px"}, layout={"flex": "1 1 260px"},
    )  # fmt: skip
    send = ipywidgets.Button(description="Send", layout={"width": "84px"})
    stop = ipywidgets.Button(description="Stop", layout={"width": "84px"})
    burst = ipywidgets.Button(
        description=f"Burst of {len(play.requests)}", layout={"width": "110px"},
        disabled=not play.requests,
    )  # fmt: skip
    policy = ipywidgets.Dropdown(
        options=[(name_of(each), each) for each in play.policies], description="Policy",
        style={"description_width": "48px"}, layout={"width": "190px"},
    )  # fmt: skip
    play.answer.widget = ipywidgets.HTML()

    def submit(_: object = None) -> None:
        if play.send(prompt.value):
            prompt.value = ""

    def show(running: bool) -> None:
        stop.disabled = not running

    send.on_click(submit)
    prompt.on_msg(lambda _, content, __: submit() if content.get("event") == "submit" else None)
    burst.on_click(lambda _: play.burst())
    stop.on_click(lambda _: play.stop())
    policy.observe(lambda change: play.swap(change["new"]), names="value")
    play.session.on_start.append(lambda: show(True))
    play.session.on_end.append(lambda _: show(False))
    show(play.session.running)
    rows = [ipywidgets.Box(row, layout=ROW) for row in ([prompt, send], [policy, burst, stop])]
    return ipywidgets.VBox([*rows, play.answer.widget, play.timeline], layout={"width": "100%"})
