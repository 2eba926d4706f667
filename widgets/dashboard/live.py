"""The tab *Live*: the engine that everybody on this page's server shares, and its controls.

What is set here holds for all visitors, who see it within a second. Arrivals are this visitor's
own, and stop when the page is closed.
"""

from __future__ import annotations

import time
from typing import Any

import ipywidgets

from minillm.core.config import POLICIES
from widgets.classroom import Desk, Exchange
from widgets.dashboard import fields, words
from widgets.dashboard.figures import LiveFigures
from widgets.dashboard.form import Form
from widgets.dashboard.load import Load

REFRESH_S = 0.25
HEADLINE_S = 1.0  # one that changes faster cannot be read
SLOTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
BUDGETS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RATES = (0, 0.1, 0.2, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LENGTHS = (8, 16, 32, 64, 96, 128, 192, 256)
PROMPTS = (*LENGTHS, 512, 1000)
BURST, LONG_WORDS, ANSWER = 16, 900, 160
TOPIC = "Summarise what follows in one sentence."


def live_form() -> Form:
    """The controls, from top to bottom as one uses them."""
    return Form(
        [
            fields.choice("policy", "Policy", POLICIES),
            fields.slider("max_num_seqs", "max_num_seqs", SLOTS),
            fields.slider("max_num_batched_tokens", "max_num_batched_tokens", BUDGETS),
            fields.slider("rate", "Your arrivals a second", RATES),
            fields.slider("prompt_len", "Prompts, median tokens", PROMPTS),
            fields.slider("output_len", "Outputs, median tokens", LENGTHS),
            fields.text("prompt", "Send a prompt of your own", "Type, then press Enter", rows=2),
            fields.buttons("send", ("prompt", "Send", "main-button"), ("long", "A long prompt")),
            fields.buttons("more", ("burst", f"Burst of {BURST}"), ("pause", "Pause")),
            fields.buttons("tools", ("clear", "Clear latencies")),
            fields.note("said"),
        ],
        "The engine and its load",
        prompt="", said="", prompt_len=64, output_len=64, rate=0,
    )  # fmt: skip


class LiveTab:
    """The tab's panel, its line to the engine and its load. Callbacks only set and enqueue."""

    def __init__(self, desk: Desk, load: Load, figures: LiveFigures) -> None:
        self.desk, self.load, self.figures = desk, load, figures
        self.form = live_form()
        self.form.on_change, self.form.on_press = self._change, self._press
        self.answers = ipywidgets.HTML()
        self._shown = self._headed = 0.0
        self._begun = False
        self._pointed: Exchange | None = None  # the question that was highlighted last
        self._wanted: dict[str, tuple[Any, float]] = {}  # asked for, not yet confirmed

    def panel(self) -> ipywidgets.Box:
        """Controls, figures, latencies: three columns, fewer where the window is narrow."""
        figures = self.figures
        columns = {
            "mld-side": [self.form],
            "mld-main mld-dims": [figures.timeline, figures.strips, figures.blocks],
            "mld-figures mld-dims": [figures.latencies, self.answers],
        }
        boxes = [ipywidgets.VBox(children) for children in columns.values()]
        for box, names in zip(boxes, columns, strict=True):
            for name in names.split():
                box.add_class(name)
        panel = ipywidgets.Box(boxes)
        panel.add_class("mld-live")
        return panel

    # ── what the reader does ────────────────────────────────────────────────────────────────

    def _change(self, name: str, value: Any) -> None:
        if name in ("policy", "max_num_seqs", "max_num_batched_tokens"):
            self._wanted[name] = value, time.monotonic()
            self.desk.control(**{name: value})
        elif name in ("rate", "prompt_len", "output_len"):
            self._begun = True
            self.load.change(**{name: value})

    def _press(self, name: str) -> None:
        if name == "prompt":
            if self.desk.ask(self.form["prompt"] or "", ANSWER):
                self.form["prompt"] = ""
        elif name == "long":
            self.desk.ask(long_prompt(), ANSWER)
        elif name == "burst":
            self.load.burst(BURST)
        elif name == "pause":
            self.desk.control(paused=not self.desk.state.get("paused"))
        elif name == "clear":
            self.figures.clear_latencies()

    # ── what the page shows, on the watch's publisher ───────────────────────────────────────

    def refresh(self) -> None:
        """Bring words and controls up to date, four times a second."""
        now = time.monotonic()
        if now - self._shown < REFRESH_S:
            return
        self._shown = now
        desk, figures = self.desk, self.figures
        self._begin(desk.state)
        feed = desk.feed
        paused = bool(desk.state.get("paused"))
        running = min(feed.running, feed.in_flight)
        waiting = feed.in_flight - running
        head = words.live_headline(figures.pulse.tok_s, running, waiting, paused)
        if now - self._headed >= HEADLINE_S:
            self._headed = now
            figures.timeline.set_headline(head)
        self._show_answers(desk.state.get("provenance") == "simulated")
        self._show_settings(desk.state, paused)

    def _show_answers(self, simulated: bool) -> None:
        """One's own prompts; the newest is highlighted in all figures once it has arrived."""
        exchanges, own = list(self.desk.exchanges), self.figures.own
        shown = words.answers(exchanges, own, simulated)
        if shown != self.answers.value:
            self.answers.value = shown
        if exchanges and exchanges[0] is not self._pointed:
            req = own.find(exchanges[0].request_id)
            if req is not None:
                self._pointed = exchanges[0]
                self.figures.cursor.move(req=req)

    def _begin(self, state: dict[str, Any]) -> None:
        """Who comes to an idle engine finds some load on it: there is something to see."""
        if self._begun or not state or state["running"] or state["waiting"]:
            return
        self._begun = True
        slow = state["provenance"] == "measured" and state["device"].startswith("CPU")
        wanted = {"rate": 1 if slow else 6, "output_len": 32 if slow else 96}
        self.load.change(**wanted)
        self.form.set(**wanted)

    def _show_settings(self, state: dict[str, Any], paused: bool) -> None:
        """What holds now, also where another visitor has set it."""
        if not state:
            return
        known = {name: state[name] for name in ("policy", "max_num_seqs", "max_num_batched_tokens")}
        now = time.monotonic()
        for name, (value, asked) in list(self._wanted.items()):
            if known[name] == value or now - asked > 2.0:
                del self._wanted[name]
            else:
                known[name] = value
        self.form.set(
            **known, said=said(self.desk.said, self.load), more={"pause": "Go on" if paused else ""}
        )
        only = "Only continuous batching has a token budget."
        off = "" if state["policy"] == "continuous" else only
        self.form.turn_off("max_num_batched_tokens", off)


def said(change: str, load: Load) -> str:
    """What came of the last change, and of the load."""
    parts = [change] if change else []
    if load.failed:
        parts.append(f"{load.failed:,} of your {load.sent:,} requests were refused or failed.")
    if load.held_back:
        parts.append(f"{load.held_back:,} were held back: too many are under way.")
    return " ".join(parts)


def long_prompt(words_count: int = LONG_WORDS) -> str:
    """A prompt long enough to hold up the others where prefill is not cut into chunks."""
    from minillm.bench.workload import read_prompts

    text = " ".join(read_prompts())
    return f"{TOPIC} " + " ".join((text.split() * 20)[:words_count])
