"""Two ways to load one engine, and their latencies live: a closed loop, then an open one.

    ab = LoadPair(llm, users=8, requests=100, overload=1.5)
    ab.start()                    # returns at once; the panel has Run and Stop too
    ab                            # histograms of both runs on shared axes
    result = await ab.finished()  # figures of both; result.ratio

Closed: `users` at a time, each sends its next request when its last one has ended. Open: the same
requests come by chance, `overload` times as often as the closed loop was served, whether or not
anybody has been answered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import ipywidgets

from minillm.core import Trace
from widgets import cards
from widgets.background import Background
from widgets.histogram import Histogram
from widgets.live import Control, Pacer, own_pace
from widgets.numbers import number3, seconds

if TYPE_CHECKING:
    from minillm.bench.load import Run
    from minillm.bench.summary import SLO
    from minillm.llm import LLM

COLUMNS = (
    "", "came", "served", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "E2E p99", "goodput",
)  # fmt: skip
NAMES = ("Closed loop", "Open loop")
STOP_LIMIT_S = 10.0


@dataclass(frozen=True, repr=False)
class LoadResult:
    """runs, traces: the closed loop's, then the open one's (fewer where it was stopped)."""

    runs: tuple[Run, ...]
    traces: tuple[Trace, ...]
    slo: SLO
    picture: str = ""

    @cached_property
    def summaries(self) -> list[dict]:
        """Figures of each run, as `minillm bench run` gives them."""
        from minillm.bench.summary import summarize_run

        return [summarize_run(run.requests, self.slo) for run in self.runs]

    @property
    def named(self) -> dict[str, tuple[Run, Trace]]:
        """The loops, "closed" and "open" → its run and trace."""
        return dict(zip(("closed", "open"), zip(self.runs, self.traces, strict=True), strict=False))

    @property
    def ratio(self) -> float | None:
        """p99 of TTFT, open ÷ closed; None where one of them has none."""
        found = [summary["p99_ttft_ms"] for summary in self.summaries]
        return found[1] / found[0] if len(found) == 2 and all(found) else None

    @property
    def service_rate(self) -> float | None:
        """Requests a second that the engine served in the closed loop."""
        return self.summaries[0]["request_throughput"] if self.summaries else None

    @property
    def stopped(self) -> bool:
        return len(self.runs) < 2 or any(run.interrupted for run in self.runs)

    @property
    def title(self) -> str:
        if self.stopped:
            return "Stopped before the end: the figures count what was done until then."
        if self.ratio is None:
            return "Nothing to compare: one of the runs completed nothing."
        return f"Open loop: {number3(self.ratio)}× the closed loop’s TTFT at p99."

    def rows(self) -> list[tuple]:
        return [
            (
                name, _rate(summary["request_rate_sent"]), _rate(summary["request_throughput"]),
                *(_ms(summary[key]) for key in (
                    "median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "p99_e2el_ms",
                )),
                _rate(summary["request_goodput"]),
            )
            for name, summary in zip(NAMES, self.summaries, strict=False)
        ]  # fmt: skip

    def notes(self) -> list[str]:
        """What a reader has to know beside the figures."""
        found = [f"Rates are requests per second. Goodput: {self.slo}."]
        few = [summary["samples"]["ttft"] for summary in self.summaries if summary["few_for_p99"]]
        if few:
            found.append(f"p99 of {min(few)} requests is close to the slowest one.")
        return found

    def __repr__(self) -> str:
        where = cards.provenance(self.traces[0].header)
        return "\n".join([self.title, cards.text_table(COLUMNS, self.rows()), *self.notes(), where])

    def _repr_html_(self) -> str:
        notes = "".join(f'<p class="ml-note">{note}</p>' for note in self.notes())
        still = ""
        if self.picture:  # stays in a saved notebook
            summary = "<summary>The histograms as a picture</summary>"
            still = f"<details>{summary}{self.picture}</details>"
        where = cards.provenance(self.traces[0].header)
        return cards.card(
            cards.head(self.title, where), cards.table(COLUMNS, self.rows()), notes, still
        )


class LoadPair:
    """See the module's docstring. longest: output tokens at most. settings: SchedulerConfig's.

    The engine has as many slots as there are users, so that the closed loop just fills it.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        users: int,
        requests: int,
        overload: float = 1.5,
        longest: int = 64,
        slo: SLO | None = None,
        threads: bool | None = None,
        **settings: object,
    ) -> None:
        from minillm.bench.plan import Workload
        from minillm.bench.summary import SLO

        if requests < 2 * users or users < 1:
            raise ValueError(f"Give ≥ 2 requests a user, got {requests} for {users} users.")
        if not overload > 0:
            raise ValueError(f"The overload must be above 0, got {overload!r}.")
        self.llm, self.users, self.requests, self.overload = llm, users, requests, overload
        self.slo = slo or SLO(ttft_ms=500, tpot_ms=50)
        self.settings = {"max_num_seqs": users, "enable_prefix_caching": False, **settings}
        self.workload = Workload("prompts", max_output_len=longest)
        self._background = Background(threads=threads)
        self._stopping = threading.Event()
        self._done: list[tuple[Run, Trace]] = []
        limits = {"ttft": self.slo.ttft_ms, "itl": self.slo.tpot_ms}
        self.histogram = Histogram(
            2, scale="log", slo_ms={name: ms for name, ms in limits.items() if ms is not None}
        )
        self._panel()

    def start(self) -> LoadPair:
        """Run both loops and return at once; a run that is on is stopped first."""
        if self._background.running:
            self.stop()
            self._background.join(STOP_LIMIT_S)
        self._stopping.clear()
        self._done = []
        for lane, name in enumerate(NAMES):
            self.histogram.reset(lane, None, name)
        self._buttons(running=True)
        self._background.start(self._job)
        return self

    def stop(self) -> None:
        """End the run after the step in hand."""
        self._stopping.set()

    async def finished(self) -> LoadResult:
        """Wait for both loops; their figures."""
        await self._background.wait()
        for error in self._background.errors:
            raise error
        if not self._done:
            raise RuntimeError("Nothing has been started: call start() first.")
        runs, traces = zip(*self._done, strict=True)
        empty = self.histogram.model.empty
        picture = "" if empty else self.histogram.still().svg
        return LoadResult(runs, traces, self.slo, picture)

    # ── the two runs ────────────────────────────────────────────────────────────────────────

    def _job(self) -> Iterator[float]:
        from minillm.bench.summary import summarize_run

        try:
            yield from self._load(0, None)
            rate = summarize_run(self._done[0][0].requests)["request_throughput"]
            if rate and not self._stopping.is_set():
                yield from self._load(1, self.overload * rate)
        finally:
            self.histogram.conclude()
            self._buttons(running=False)

    def _load(self, lane: int, rate: float | None) -> Iterator[float]:
        """rate: requests a second of the open loop; None: the closed one. Yields naps."""
        from minillm.bench.arrivals import send_times
        from minillm.bench.inprocess import run_engine
        from minillm.bench.load import Run

        engine = self.llm.new_engine("continuous", **self.settings)
        title = f"{NAMES[lane]}: " + (f"{self.users} users" if rate is None else _rate(rate) + "/s")
        self.histogram.reset(lane, engine.trace.header, title)
        plan, read = self.workload.plan(send_times(self.requests, rate, seed=1)), 0
        run, closed = Run(len(plan)), rate is None
        turns = run_engine(
            run, engine, plan, lambda planned: self.llm.encode(planned.prompt),
            self.users if closed else None, closed,
        )  # fmt: skip
        pacer = Pacer(Control(pace=own_pace(engine)), engine)
        for _ in turns:
            read += self.histogram.feed(lane, engine.trace.records[read:])
            self.histogram.publish()
            if self._stopping.is_set():
                break
            yield pacer.ahead()
        turns.close()  # a run that was stopped ends all requests, and keeps what there is
        self.histogram.feed(lane, engine.trace.records[read:])
        self.histogram.finish(lane)
        self._done.append((run, engine.trace))

    # ── what is seen ────────────────────────────────────────────────────────────────────────

    def _panel(self) -> None:
        from widgets.controls import ROW, RunButtons

        self._run_buttons = RunButtons(self.start, self.stop)
        self._run_buttons.run.tooltip = "Run the closed loop, then the open one"
        row = ipywidgets.HBox(
            [self._run_buttons.run, self._run_buttons.stop], layout=ipywidgets.Layout(**ROW)
        )
        self.panel = ipywidgets.VBox([row, self.histogram])

    def _buttons(self, running: bool) -> None:
        self._run_buttons.show(running)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


def _rate(value: float | None) -> str:
    return "n/a" if value is None else number3(value)


def _ms(value: float | None) -> str:
    return "n/a" if value is None else seconds(value / 1e3)
