"""The panels of lesson 8: paste a prompt and choose a budget; a budget and its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import ipywidgets

from minillm.core import Trace
from widgets import cards
from widgets.controls import ROW, RunButtons
from widgets.shapes import PALETTE
from widgets.stalls import measure_stall, stall_sentence, step_picture

if TYPE_CHECKING:
    from widgets.long_prompt import LongPrompt

LABEL = {"description_width": "initial"}


def long_prompt_panel(long: LongPrompt) -> ipywidgets.VBox:
    """The panel of a LongPrompt."""
    prompt = ipywidgets.Textarea(
        value=long.prompt, placeholder="Paste a long prompt", description="The long prompt",
        rows=4, style=LABEL, layout={"width": "99%"},
    )  # fmt: skip
    budget = ipywidgets.SelectionSlider(
        options=[(f"{each:,}", each) for each in long.budgets],
        value=min(long.budgets, key=lambda each: abs(each - (long.b or each))),
        description="B: max_num_batched_tokens", style=LABEL, layout={"width": "440px"},
        continuous_update=False,
    )  # fmt: skip
    buttons = RunButtons(lambda: long.start(budget.value, prompt=prompt.value), long.stop)
    buttons.run.tooltip = "Run A (the prompt whole), then B (in chunks)"

    def started() -> None:
        buttons.show(True)
        prompt.disabled = budget.disabled = True

    def ended(_: object = None) -> None:
        buttons.show(False)
        prompt.disabled = budget.disabled = False

    long.session.on_start.append(started)
    long.session.on_end.append(ended)
    started() if long.session.running else ended()
    row = ipywidgets.Box([budget, buttons.run, buttons.stop], layout=ROW)
    return ipywidgets.VBox([prompt, row, long.timeline], layout={"width": "100%"})


class BudgetSlider(ipywidgets.VBox):
    """A token budget, and at once what it does on a simulated GPU.

    run(budget): the trace of one run; each budget is run once. budgets: in tokens.
    """

    def __init__(
        self, run: Callable[[int], Trace], budgets: Sequence[int], value: int | None = None
    ) -> None:
        self._run, self._runs = run, {}
        self.slider = ipywidgets.SelectionSlider(
            options=[(f"{each:,}", each) for each in budgets], value=value or budgets[-1],
            description="max_num_batched_tokens", style=LABEL, layout={"width": "520px"},
            continuous_update=False,
        )  # fmt: skip
        self.picture = ipywidgets.HTML()
        self.slider.observe(lambda change: self.show(change["new"]), names="value")
        self.show(self.slider.value)
        super().__init__([self.slider, self.picture], layout={"width": "100%"})

    def trace(self, budget: int) -> Trace:
        """The run with this budget."""
        if budget not in self._runs:
            self._runs[budget] = self._run(budget)
        return self._runs[budget]

    def show(self, budget: int) -> None:
        """Draw this budget's run."""
        trace = self.trace(budget)
        self.picture.value = budget_card(trace, budget).html


def _themed(svg: str) -> str:
    """The picture in a card's own colours, which follow the page's theme."""
    for name in ("decode", "prefill", "ok", "ok_text"):
        color = PALETTE[name]
        svg = svg.replace(color, f"var(--ml-{name.replace('_', '-')}, {color})")
    return svg


def budget_card(trace: Trace, budget: int) -> cards.Html:
    """One run as a sentence and a picture."""
    sentence = stall_sentence(measure_stall(trace), f"{budget:,}")
    note = "Each dash is a step: as wide as it lasts, as high as the gap it makes for everyone."
    where = cards.provenance(trace.header)
    html = cards.card(
        cards.head(sentence, where), _themed(step_picture(trace).svg),
        f'<p class="ml-note">{note} Blue: the others alone. Amber: a part of a prompt besides.</p>',
    )  # fmt: skip
    return cards.Html(html, f"{sentence}\n{where}")
