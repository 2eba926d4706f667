"""The knobs of a dynamic batcher, tried one by one: a table that the student's own runs fill.

knobs = Knobs(llm, requests)
knobs.run(text)     # a Triton config: serves the requests under it, adds a row, shows all rows
knobs.table()       # parameter, what it does, and what the runs say of its tradeoff
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from minillm.core import Arrival, Trace, summarize
from minillm.core.metrics import Tally
from widgets import cards
from widgets.batches import sent_batches
from widgets.numbers import number3, percent

if TYPE_CHECKING:
    from minillm.bench.triton_config import TritonBatching
    from minillm.llm import LLM

RUN_COLUMNS = (
    "max_queue_delay_microseconds", "preferred_batch_size", "max_batch_size", "mean batch",
    "latency p50", "p99", "engine busy",
)  # fmt: skip
KNOB_COLUMNS = ("parameter", "what it does", "the tradeoff, in your runs")
WHAT = {
    "max_queue_delay_microseconds": "how long the oldest request waits for company",
    "preferred_batch_size": "sizes that leave at once; others wait for the delay to pass",
    "max_batch_size": "the most that one batch holds; so many leave at once",
}


@dataclass(frozen=True, slots=True)
class KnobRun:
    """One config and what came of it. latency in ms, from arrival to the last token."""

    batching: TritonBatching
    mean_batch: float
    p50: float | None
    p99: float | None
    busy: float | None

    def cells(self) -> tuple[str, ...]:
        b = self.batching
        sizes = ", ".join(map(str, b.preferred_batch_size)) or "–"
        return (
            f"{b.max_queue_delay_microseconds:,}", sizes, str(b.max_batch_size),
            number3(self.mean_batch), _ms(self.p50), _ms(self.p99), percent(self.busy),
        )  # fmt: skip


class Knobs:
    """See the module's docstring. llm: a simulated one, so that a run takes a moment."""

    def __init__(self, llm: LLM, requests: Iterable[Arrival]) -> None:
        self.llm, self.requests = llm, list(requests)
        self.runs: list[KnobRun] = []
        self._trace: Trace | None = None

    def run(self, text: str) -> cards.Html:
        """Serve the requests under this config; all runs so far. ValueError says what is wrong."""
        from minillm.bench.triton_config import parse_triton
        from widgets.lesson import simulate

        batching = parse_triton(text)
        self._trace = simulate(self.llm, self.requests, "dynamic", **batching.settings)
        summary, tally = summarize(self._trace), Tally().take(self._trace)
        batches = sent_batches(self._trace)
        busy = tally.busy_s / summary.makespan_s if summary.makespan_s else None
        run = KnobRun(
            batching, len(self.requests) / max(1, len(batches)), summary.e2e_p50_ms,
            summary.e2e_p99_ms, busy,
        )  # fmt: skip
        self.runs = [r for r in self.runs if r.batching != batching] + [run]
        return self.all(batching.ignored)

    def all(self, ignored: Iterable[str] = ()) -> cards.Html:
        """Every run so far, a row each, the newest last."""
        title = f"{len(self.requests)} requests, the same in every run"
        where = cards.provenance(self._trace.header) if self._trace else ""
        rows = [run.cells() for run in self.runs]
        names = ", ".join(ignored)
        note = f"Without a counterpart here, and ignored: {names}." if names else ""
        html = cards.card(
            cards.head(title, where), cards.table(RUN_COLUMNS, rows),
            f'<p class="ml-note">{note}</p>' if note else "",
        )  # fmt: skip
        text = f"{title}\n{cards.text_table(RUN_COLUMNS, rows)}\n{where}"
        return cards.Html(html, f"{text}\n{note}".strip())

    def table(self) -> cards.Html:
        """What each knob does, and what it costs: two of your runs that differ in it alone."""
        rows = [(name, what, self._tradeoff(name)) for name, what in WHAT.items()]
        title = "The knobs, from your runs"
        where = cards.provenance(self._trace.header) if self._trace else ""
        html = cards.card(cards.head(title, where), cards.table(KNOB_COLUMNS, rows, left=True))
        return cards.Html(html, f"{title}\n{cards.text_table(KNOB_COLUMNS, rows)}\n{where}")

    def _tradeoff(self, name: str) -> str:
        pair = self._widest(name)
        if pair is None:
            return "not tried yet: run two configs that differ in it alone"
        a, b = pair
        before, after = (_value(getattr(run.batching, name)) for run in pair)
        return (
            f"{before} → {after}: mean batch {number3(a.mean_batch)} → {number3(b.mean_batch)}, "
            f"engine busy {percent(a.busy)} → {percent(b.busy)}, "
            f"latency p50 {_ms(a.p50)} → {_ms(b.p50)}, p99 {_ms(a.p99)} → {_ms(b.p99)}"
        ).replace("\u2009", "\u202f")  # no line ends before a unit

    def _widest(self, name: str) -> tuple[KnobRun, KnobRun] | None:
        """The two runs, alike in the other knobs, between which this one changes most."""
        others = [knob for knob in WHAT if knob != name]
        pairs = [
            sorted(pair, key=lambda run: getattr(run.batching, name))
            for pair in combinations(self.runs, 2)
            if all(getattr(pair[0].batching, k) == getattr(pair[1].batching, k) for k in others)
        ]
        return max(
            pairs, key=lambda pair: abs(pair[1].mean_batch - pair[0].mean_batch), default=None
        )


def _value(value: tuple[int, ...] | int) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]" if value else "none"
    return f"{value:,}"


def _ms(value: float | None) -> str:
    return "n/a" if value is None else f"{number3(value)}\u202fms"
