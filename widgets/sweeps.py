"""A sweep of one engine, live: more and more users at a time, a point of the curve for each.

    sweep = LiveSweep(llm, loads=(1, 2, 4, 8, 16), output=32)
    sweep.curve.add_device("A100-80GB-SXM", "A100")   # beside it, what the simulator says
    sweep.start()                     # returns at once; the panel has Run and Stop too
    sweep                             # the curve
    table = await sweep.finished()    # every point in figures; sweep.gain(8)

Each point is a closed loop on the engine of this process, with as many slots as users.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import ipywidgets

from widgets import cards
from widgets.background import Background
from widgets.curve import Curve
from widgets.numbers import number3, plain
from widgets.real import machine_name

if TYPE_CHECKING:
    from minillm.bench.load import Run
    from minillm.llm import LLM

HERE = "here"
STOP_LIMIT_S = 10.0
COLUMNS = ("users at a time", "tok/s in all", "ms per token", "tok/s per user")


class LiveSweep:
    """See the module's docstring. prompt, output: tokens of each request; rounds: of each user.

    slo_ms: the limit on the time between tokens that the chart begins with.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        loads: Iterable[int] = (1, 2, 4, 8, 16),
        prompt: int = 32,
        output: int = 32,
        rounds: int = 3,
        slo_ms: float | None = 50.0,
        threads: bool | None = None,
    ) -> None:
        self.llm, self.loads = llm, tuple(loads)
        if not self.loads or self.loads[0] < 1 or list(self.loads) != sorted(set(self.loads)):
            raise ValueError(f"The loads must rise from at least 1, got {self.loads}.")
        self.prompt, self.output, self.rounds = prompt, output, rounds
        self.curve = Curve(slo_ms=slo_ms)
        self._background = Background(threads=threads)
        self._stopping = threading.Event()
        self._panel()

    def start(self) -> LiveSweep:
        """Walk through the loads and return at once; a sweep that is on is stopped first."""
        if self._background.running:
            self.stop()
            self._background.join(STOP_LIMIT_S)
        self._stopping.clear()
        info = self.llm.info
        self.curve.add_line(
            HERE, machine_name(self.llm), provenance=info.provenance,
            detail=f"{info.device}, {info.model} {info.dtype}",
            model=info.model, load_name="concurrency", planned=self.loads, focus=True,
        )  # fmt: skip
        self._buttons.show(running=True)
        self._background.start(self._job)
        return self

    def stop(self) -> None:
        """End the sweep after the step in hand."""
        self._stopping.set()

    async def finished(self) -> cards.Html:
        """Wait for the sweep to end; its points as a table."""
        await self._background.wait()
        for error in self._background.errors:
            raise error
        return self.table()

    def gain(self, load: int) -> float | None:
        """Tokens a second at this load ÷ those of the first; None where one was not measured."""
        first, point = (self._points().get(each) for each in (self.loads[0], load))
        return None if first is None or point is None else point.tok_s / first.tok_s

    def slowdown(self, load: int) -> float | None:
        """Time per token at this load ÷ that of the first; None where one was not measured."""
        first, point = (self._points().get(each) for each in (self.loads[0], load))
        return None if first is None or point is None else point.ms / first.ms

    def table(self) -> cards.Html:
        """A row a load."""
        rows = [
            (plain(load), number3(point.tok_s), number3(point.ms), number3(1e3 / point.ms))
            for load, point in sorted(self._points().items())
        ]
        info = self.llm.info
        where = (
            f"{cards.GLYPHS[info.provenance]} {info.provenance}: {info.device}, "
            f"{info.model} {info.dtype}"
        )
        title = self.curve.headline if rows else "Nothing has been measured yet."
        if self._stopping.is_set():
            title = "Stopped: the table has the points until then."
        html = cards.card(cards.head(title, where), cards.table(COLUMNS, rows))
        return cards.Html(html, f"{title}\n{cards.text_table(COLUMNS, rows)}\n{where}")

    def _points(self) -> dict:
        line = self.curve.model.lines.get(HERE)
        return {} if line is None else {point.load: point for point in line.drawn}

    def _job(self) -> Iterator[float]:
        from minillm.bench.sweep import sweep

        try:
            self._serve(1, 2, first=900_000)  # a warm-up: the first run of all is slow
            for _ in self.curve.follow(HERE, sweep(self.loads, self._run_point)):
                yield 0.0
                if self._stopping.is_set():
                    break
        finally:
            self.curve.finish(HERE)
            self._buttons.show(running=False)

    def _run_point(self, load: float, number: int) -> Run:
        return self._serve(int(load), max(4, int(load) * self.rounds), first=10_000 * number)

    def _serve(self, users: int, count: int, first: int) -> Run:
        """first: number of the first prompt, so that no run's prefixes answer another's."""
        from minillm.bench.inprocess import measure_engine
        from minillm.bench.plan import Workload

        plan = Workload("fixed", self.prompt, self.output).plan([0.0] * count, first=first)
        return measure_engine(
            self.llm.new_engine("continuous", max_num_seqs=users), plan,
            lambda planned: self.llm.encode(planned.prompt),
            max_concurrency=users, closed=True, progress=self._progress,
        )  # fmt: skip

    def _progress(self, _: Run) -> None:
        if self._stopping.is_set():
            raise KeyboardInterrupt  # measure_engine ends all requests and keeps what there is

    def _panel(self) -> None:
        from widgets.controls import ROW, RunButtons

        self._buttons = RunButtons(self.start, self.stop)
        self._buttons.run.tooltip = "Walk through all loads"
        row = ipywidgets.HBox(
            [self._buttons.run, self._buttons.stop], layout=ipywidgets.Layout(**ROW)
        )
        self.panel = ipywidgets.VBox([row, self.curve])

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)
