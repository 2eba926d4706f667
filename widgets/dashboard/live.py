"""The tab *Live*: the engine that everybody on this page's server shares, and its controls.

What is set here holds for all visitors of that engine, who see it within a second. Which engine one
looks at, and one's arrivals, are one's own; these stop when the page is closed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets

from minillm.core.config import POLICIES
from widgets.classroom import Desk, Exchange
from widgets.dashboard import fields, words
from widgets.dashboard.engines import HERE, Engines, Line
from widgets.dashboard.figures import LiveFigures
from widgets.dashboard.form import Form
from widgets.dashboard.load import Load
from widgets.dashboard.tab import Jobs

if TYPE_CHECKING:
    from widgets.dashboard.requests import KnownRequest

REFRESH_S = 0.25
HEADLINE_S = 1.0  # one that changes faster cannot be read
CONFIRM_S = 2.0  # what was asked for is shown so long before the engine has confirmed it
SLOTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
BUDGETS = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
RATES = (0, 0.1, 0.2, 0.5, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
LENGTHS = (8, 16, 32, 64, 96, 128, 192, 256)
PROMPTS = (*LENGTHS, 512, 1000)
BURST, LONG_WORDS, ANSWER = 16, 900, 160
MOST_PASTED = 40_000  # characters: far more than fits, so that the engine says how much does
TOPIC = "Summarise what follows in one sentence."
ENGINE_FIELDS = (
    "device", "policy", "enable_chunked_prefill", "max_num_seqs", "max_num_batched_tokens",
)  # fmt: skip
NO_LOAD = {"rate": 0, "prompts": "words", "prompt_len": 64, "output_len": 64}
ONLY_CONTINUOUS = "Only continuous batching has a token budget and cuts prompts into chunks."
WHOLE = "Chunked prefill is off: a step has room for a whole prompt."
REAL = "The questions have 5 to 120 tokens."


def live_form(engines: Engines) -> Form:
    """The controls, from top to bottom as one uses them."""
    return Form(
        [
            fields.select("device", "Engine", engines.choices() or [(HERE, "none")]),
            fields.note("missing"),
            fields.choice("policy", "Policy", POLICIES),
            fields.choice("enable_chunked_prefill", "Chunked prefill", ("on", "off"), wide=True),
            fields.slider("max_num_seqs", "max_num_seqs", SLOTS),
            fields.slider("max_num_batched_tokens", "max_num_batched_tokens", BUDGETS),
            fields.slider("rate", "Your arrivals a second", RATES),
            fields.choice("prompts", "Your prompts", ("words", "questions"), wide=True),
            fields.slider("prompt_len", "Prompts, median tokens", PROMPTS),
            fields.slider("output_len", "Outputs, median tokens", LENGTHS),
            fields.text(
                "prompt", "Send a prompt of your own", "Type or paste, then press Enter",
                rows=3, most=MOST_PASTED,
            ),
            fields.buttons("send", ("prompt", "Send", "main-button"), ("long", "A long prompt")),
            fields.buttons("more", ("burst", f"Burst of {BURST}"), ("pause", "Pause")),
            fields.buttons("tools", ("clear", "Clear latencies")),
            fields.note("said"),
        ],
        "The engine and its load",
        prompt="", said="", missing=engines.missing, **NO_LOAD,
    )  # fmt: skip


class LiveTab:
    """The tab's panel and its line to an engine. Callbacks only set and enqueue.

    on_publish: called ten times a second on the line's publisher, before `refresh`.
    """

    def __init__(self, engines: Engines, figures: LiveFigures) -> None:
        self.engines, self.figures = engines, figures
        self.form = live_form(engines)
        self.form.on_change, self.form.on_press = self._change, self._press
        self.card, self.answers = ipywidgets.HTML(), ipywidgets.HTML()
        self.on_publish: list[Callable[[], object]] = []
        self._jobs = Jobs(self.form)
        self._shown = self._headed = 0.0
        self._followed = False
        self._fresh()
        self.line = self._line_to(engines.first)

    def _fresh(self) -> None:
        self._begun = False  # whether this visitor has sent load to this engine
        self._pointed: Exchange | None = None  # the question that was highlighted last
        self._wanted: dict[str, tuple[Any, float]] = {}  # asked for, not yet confirmed

    @property
    def desk(self) -> Desk:
        return self.line.desk

    @property
    def load(self) -> Load:
        return self.line.load

    def panel(self) -> ipywidgets.Box:
        """Controls, figures, latencies: three columns, fewer where the window is narrow."""
        figures = self.figures
        columns = {
            "mld-side": [self.form],
            "mld-main mld-dims": [figures.timeline, figures.strips, figures.blocks],
            "mld-figures mld-dims": [self.card, figures.latencies, self.answers],
        }
        boxes = [ipywidgets.VBox(children) for children in columns.values()]
        for box, names in zip(boxes, columns, strict=True):
            for name in names.split():
                box.add_class(name)
        panel = ipywidgets.Box(boxes)
        panel.add_class("mld-live")
        return panel

    def follow(self) -> None:
        """Begin to follow the engine: somebody looks. Harmless when it is followed."""
        if not self._followed:
            self._followed = True
            self.line.start()

    def close(self) -> None:
        self.line.close()

    def _line_to(self, url: str) -> Line:
        line = Line(url, self.engines.key, self.figures, self._looked_at)
        line.desk.on_publish += [self._publish]
        return line

    def _publish(self) -> None:
        for call in self.on_publish:
            call()
        self.refresh()

    def _looked_at(self) -> KnownRequest | None:
        """The request that is pointed at."""
        return self.figures.requests.get(self.figures.cursor.req)

    # ── what the reader does ────────────────────────────────────────────────────────────────

    def _change(self, name: str, value: Any) -> None:
        if name == "device" and self.engines.address(value) != self.line.url:
            self._jobs.start(lambda: self._move(value), "Connecting …")
        elif name in ENGINE_FIELDS:
            self._ask_for(name, value)
        elif name in NO_LOAD:
            self._begun = True
            self.load.change(**{name: value})

    def _ask_for(self, name: str, value: Any) -> None:
        self._wanted[name] = value, time.monotonic()
        if name == "enable_chunked_prefill":
            value = value == "on"
        self.desk.control(**{name: value})

    def _move(self, choice: str) -> None:
        """Look at another engine from now on; this visitor's load on the last one ends."""
        self.line.close()
        self._fresh()
        self.form.set(**NO_LOAD)
        self.line = self._line_to(self.engines.address(choice))
        if choice != HERE:
            self._ask_for("device", choice)
        self.line.start()

    def _press(self, name: str) -> None:
        if name == "prompt":
            if self.desk.ask(self.form["prompt"] or "", ANSWER):
                self.form["prompt"] = ""
        elif name == "long":
            self.desk.ask(long_prompt(random.randrange(1_000_000)), ANSWER)
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
        self._show_texts(desk.state.get("provenance") == "simulated")
        self._show_settings(desk.state, paused)

    def _show_texts(self, simulated: bool) -> None:
        """The request that is pointed at, and one's own prompts, of which the newest is pointed at
        in all figures once it has arrived."""
        exchanges, requests = list(self.desk.exchanges), self.figures.requests
        if exchanges and exchanges[0] is not self._pointed:
            known = requests.named(exchanges[0].request_id)
            if known is not None:
                self._pointed = exchanges[0]
                self.figures.cursor.move(req=known.req)
        known = self._looked_at()
        mine = next((e for e in exchanges if known and e.request_id == known.id), None)
        own = (mine.question, mine.error) if mine else ("", "")
        card = words.request_card(known, self.line.reader.of(known), simulated, *own)
        answers = words.answers(exchanges, requests, known.req if known else None)
        for widget, shown in ((self.card, card), (self.answers, answers)):
            if widget.value != shown:
                widget.value = shown

    def _begin(self, state: dict[str, Any]) -> None:
        """Who comes to an idle engine finds some load on it: there is something to see."""
        if self._begun or not state or state["running"] or state["waiting"]:
            return
        self._begun = True
        slow = state["provenance"] == "measured" and state["device"].startswith("CPU")
        wanted = {"rate": 1 if slow else 6, "output_len": 32 if slow else 96}
        if state["provenance"] == "measured":  # whose answers one can read
            wanted["prompts"] = "questions"
        self.load.change(**wanted)
        self.form.set(**wanted)

    def _show_settings(self, state: dict[str, Any], paused: bool) -> None:
        """What holds now, also where another visitor has set it."""
        if not state:
            return
        known = {name: state[name] for name in ENGINE_FIELDS}
        known["enable_chunked_prefill"] = "on" if state["enable_chunked_prefill"] else "off"
        if self.line.url == self.engines.measured:
            known["device"] = HERE
        now = time.monotonic()
        for name, (value, asked) in list(self._wanted.items()):
            if known[name] == value or now - asked > CONFIRM_S:
                del self._wanted[name]
            else:
                known[name] = value
        self.form.set(
            **known, said=said(self.desk.said, self.load), more={"pause": "Go on" if paused else ""}
        )
        off = "" if state["policy"] == "continuous" else ONLY_CONTINUOUS
        self.form.turn_off("enable_chunked_prefill", off)
        whole = "" if state["enable_chunked_prefill"] else WHOLE
        self.form.turn_off("max_num_batched_tokens", off or whole)
        self.form.turn_off("prompt_len", REAL if self.load.settings.prompts == "questions" else "")


def said(change: str, load: Load) -> str:
    """What came of the last change, and of the load."""
    parts = [change] if change else []
    if load.failed:
        parts.append(f"{load.failed:,} of your {load.sent:,} requests were refused or failed.")
    if load.held_back:
        parts.append(f"{load.held_back:,} were held back: too many are under way.")
    return " ".join(parts)


def long_prompt(number: int, words_count: int = LONG_WORDS) -> str:
    """A prompt long enough to hold up the others where prefill is not cut into chunks.

    number: begins it, so that no prefix cache has it from the last time.
    """
    from minillm.bench.workload import read_prompts

    text = " ".join(read_prompts())
    return f"No. {number}. {TOPIC} " + " ".join((text.split() * 20)[:words_count])
