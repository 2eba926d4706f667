"""Queues without an engine: arrivals and service times in, a trace of events out, and a slider.

trace = fifo_trace(arrivals, services)             # first come, first served, one at a time
arrivals, services = random_queue(4, 0.2, 300)     # 4 a second, 0.2 s each on average, 300 s
theory_card([trace, …], service=0.2, rates=[4, …]) # a sample beside the endless queue
QueueLab(service=0.2)                              # the rate as a slider above the queue

What a QueueView shows of it is a simulation: gaps and service times are drawn, none is measured.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from functools import cached_property

from minillm.core.trace import RequestEvent, Trace, TraceHeader, letter
from widgets import cards
from widgets.numbers import number3, percent, seconds
from widgets.queue_model import queue_figures

COLUMNS = (
    "arrivals/s", "load ρ", "mean wait", "endless queue", "in the system, L", "endless queue",
)  # fmt: skip


def fifo_trace(
    arrivals: Sequence[float], services: Sequence[float], servers: int = 1, what: str = ""
) -> Trace:
    """Events of a queue in front of `servers` equal ones, first come, first served. Seconds.

    what: how the times were made, for the line that says where the figures come from.
    """
    if len(arrivals) != len(services):
        raise ValueError(f"{len(arrivals)} arrivals were given for {len(services)} services.")
    if servers < 1:
        raise ValueError(f"A queue needs at least one server, got {servers!r}.")
    device = "one server" if servers == 1 else f"{servers:,} servers"
    config = {"max_num_seqs": servers}
    trace = Trace(TraceHeader("simulated", device, what, "", "fcfs", 1, 1, config=config))
    if not all(service > 0 for service in services):
        raise ValueError(f"A service takes more than 0 s, got {min(services)!r}.")
    free = [0.0] * servers  # when each server is free again: a heap
    events = []
    for place, index in enumerate(sorted(range(len(arrivals)), key=lambda i: arrivals[i])):
        start = max(arrivals[index], heapq.heappop(free))
        end = start + services[index]
        heapq.heappush(free, end)
        # At one instant somebody ends first, then others come, then one of them is let in.
        for rank, (t, name) in enumerate(
            ((end, "finish"), (arrivals[index], "arrive"), (start, "admit"))
        ):
            events.append((t, rank, place, name))
    for t, _, place, name in sorted(events):
        data = {"reason": "length"} if name == "finish" else {}
        trace.add(RequestEvent(t, place, letter(place), name, data))
    return trace


def random_queue(
    rate: float, service: float, length: float, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Exponential gaps and service times up to `length` seconds: arrivals, services.

    Another rate stretches the same gaps: what differs between two rates is the rate.
    """
    for name, value in (("rate", rate), ("service", service), ("length", length)):
        if not value > 0:
            raise ValueError(f"The {name} must be above 0, got {value!r}.")
    chance, arrivals, services, now = random.Random(seed), [], [], 0.0
    while True:
        now += chance.expovariate(1.0) / rate
        need = chance.expovariate(1.0) * service
        if now >= length:
            return arrivals, services
        arrivals.append(now)
        services.append(need)


def crowd(
    users: int, think: float, answer: float, length: float, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Users who think, ask, read the answer and think again, for `length` seconds.

    think, answer: seconds on average, exponential. Everybody is served at once: arrivals, services.
    """
    chance, arrivals, services = random.Random(seed), [], []
    asks = [(chance.expovariate(1 / think), user) for user in range(users)]
    heapq.heapify(asks)
    while asks and asks[0][0] < length:
        now, user = asks[0]
        need = chance.expovariate(1 / answer)
        arrivals.append(now)
        services.append(need)
        heapq.heapreplace(asks, (now + need + chance.expovariate(1 / think), user))
    return arrivals, services


def theory(rate: float, service: float) -> tuple[float, float] | None:
    """Mean wait (s) and mean number in the system of an endless queue like that; None: no end.

    M/M/1: exponential gaps and service times, one server. ρ = λ·s, Wq = ρ·s / (1 − ρ),
    L = ρ / (1 − ρ) (Kleinrock, Queueing Systems 1, 1975).
    """
    load = rate * service
    if load >= 1:
        return None
    return load * service / (1 - load), load / (1 - load)


def theory_card(traces: Sequence[Trace], rates: Sequence[float], service: float) -> cards.Html:
    """Each sample's mean wait and number in the system beside the endless queue's."""
    rows = []
    for trace, rate in zip(traces, rates, strict=True):
        found, endless = queue_figures(trace), theory(rate, service)
        wait, number = ("grows", "grows") if endless is None else (
            seconds(endless[0]), number3(endless[1])
        )  # fmt: skip
        rows.append((
            f"{rate:g}", percent(rate * service), seconds(found and found.wait), wait,
            number3(found and found.mean), number,
        ))  # fmt: skip
    title = "This sample, and the endless queue of the same kind"
    where = cards.provenance(traces[0].header) if traces else ""
    html = cards.card(cards.head(title, where), cards.table(COLUMNS, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(COLUMNS, rows)}\n{where}")


class QueueLab:
    """A queue and a slider for its arrival rate. service, length: seconds; rate: arrivals/s."""

    def __init__(
        self, service: float = 0.2, rate: float = 2.5, length: float = 60, seed: int = 0
    ) -> None:
        self.service, self.length, self.seed = service, length, seed
        self.trace = self.set_rate(rate)

    def set_rate(self, rate: float) -> Trace:
        """Simulate the same sample at another rate, and show it."""
        arrivals, services = random_queue(rate, self.service, self.length, self.seed)
        self.rate = rate
        self.trace = fifo_trace(arrivals, services, what="exponential gaps and service times")
        self._show()
        return self.trace

    @cached_property
    def view(self):
        """The queue as dots, and the numbers in the system below."""
        from widgets.queue_view import QueueView

        return QueueView(titles=["One server"])

    @cached_property
    def panel(self):
        """Slider and queue, as one widget."""
        import ipywidgets

        slider = ipywidgets.FloatSlider(
            value=self.rate, min=0.5, max=round(1.2 / self.service, 1), step=0.25,
            description="λ, arrivals/s", continuous_update=False, readout_format=".2f",
            style={"description_width": "90px"}, layout={"width": "420px"},
        )  # fmt: skip
        slider.observe(lambda change: self.set_rate(change["new"]), names="value")
        return ipywidgets.VBox([slider, self.view], layout={"width": "100%"})

    def _show(self) -> None:
        view = self.view
        load = self.rate * self.service
        view.subtitles = [f"{self.rate:g} arrivals/s, load {percent(load)}"]
        view.feed(0, self.trace)
        view.finish(0)
        if self.trace.events:
            view.conclude()

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)
