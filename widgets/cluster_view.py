"""The cluster: replicas behind a router, their load over time, who failed and who came back.

    view = ClusterView()
    view.replay(cluster, names)            # a simulated cluster that has served, as a replay
    view.watch(header); view.sample(t, supervisor.status()); view.publish()      # a running one

The model is widgets.cluster_model's; a view shows the tick at the cursor, and Play runs through it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from html import escape

from widgets import assets
from widgets.canvas_widget import CanvasWidget
from widgets.cluster_model import ClusterHeader, ClusterHistory, Status, simulated_history
from widgets.cursor import Cursor
from widgets.figures import StaticFigure, to_svg
from widgets.numbers import percent, plural, seconds
from widgets.shapes import Drawing, Line, Path, Rect, Shape, Text

SOURCES = (
    *assets.FIGURE,
    "cluster/decode.js",
    "cluster/layout.js",
    "cluster/paint.js",
    "cluster/view.js",
)
WIDTH, STRIP, PITCH = 720, 44, 66  # of the static figure


class ClusterView(CanvasWidget):
    """One cluster. cursor: shared with other views, its time counts from the first request."""

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "cluster/cluster.css")

    def __init__(self, *, cursor: Cursor | None = None) -> None:
        super().__init__(cursor=cursor)
        self.history: ClusterHistory | None = None
        self._sent = -1  # the tick that comes next for all views; −1: they need everything
        self._guard = threading.RLock()
        self.on_msg(self._on_message)

    def replay(self, cluster: object, names: Sequence[str] = (), *, ticks: int = 1200) -> str:
        """Show a minillm.sim.cluster.Cluster that has served; returns the headline."""
        self.show(simulated_history(cluster, names, ticks=ticks))
        return self.conclude()

    def watch(self, header: ClusterHeader) -> ClusterHistory:
        """Begin with a cluster that runs: feed it with sample()."""
        return self.show(ClusterHistory(header))

    def show(self, history: ClusterHistory) -> ClusterHistory:
        """Show this history from now on, live or over."""
        with self._guard:
            self.history, self._sent = history, -1
        self.set_headline("")
        self.stale_message = self.frozen = ""
        self.publish()
        return history

    def sample(self, t: float, statuses: Iterable[Status]) -> None:
        """Take one sample of a running cluster. Raises ValueError before watch()."""
        with self._guard:
            self._known().sample(t, statuses)

    def publish(self) -> int:
        """Send the views what is new; returns the bytes sent."""
        with self._guard:
            history = self.history
            if history is None or (self._sent == history.next and not history.done):
                return 0
            message, data = history.message(None if self._sent < 0 else self._sent)
            self._sent = history.next
            self.send(message, [data])
        return len(data)

    def finish(self) -> None:
        """The cluster has ended: views show the whole instead of following."""
        with self._guard:
            self._known().done = True
        self.publish()

    def conclude(self) -> str:
        """Say what came of it. Raises ValueError when nothing was shown yet."""
        text, lead = cluster_headline(self._known())
        self.set_headline(text, lead=lead)
        return text

    def still(self) -> StaticFigure:
        return cluster_figure(self._known())

    def _known(self) -> ClusterHistory:
        if self.history is None or not self.history.header.names:
            raise ValueError("There is no cluster yet: call replay() or watch() first.")
        return self.history

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """A view says hello: it gets what comes after its last tick, or everything."""
        if not isinstance(content, dict) or not isinstance(content.get("hello"), int):
            return
        with self._guard:
            history = self.history
            if history is None:
                return
            known = content.get("stream") == history.stream
            message, data = history.message(content["hello"] if known else None)
            self.send(message, [data])


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def cluster_headline(history: ClusterHistory) -> tuple[str, str]:
    """The first failure and what it did to the others; else how evenly the load lies."""
    names = history.header.names
    last = history.ticks[-1][1] if history.ticks else ()
    sent = [load.sent for load in last if load.sent is not None]
    total = sum(sent)
    lead = ""
    if total and len(sent) == len(names):
        shares = " · ".join(f"{i}: {percent(n / total)}" for i, n in enumerate(sent))
        lead = f"Share of {total:,} requests sent, by replica: {shares}."
        if len(names) > 8:
            lead = (
                f"Of {total:,} requests sent, the busiest replica had "
                f"{percent(max(sent) / total)}, the idlest {percent(min(sent) / total)}."
            )
    failure = next((event for event in history.events if event.kind == "fail"), None)
    if failure is not None:
        lost = "" if failure.lost is None else f" with {plural(failure.lost, 'request')} on it"
        text = f"Replica {failure.replica} fails at {seconds(failure.t)}{lost}."
        before, during = _worst_queues(history, failure.replica, failure.t)
        if during is not None:
            text += f"\nThe longest queue of the others: {before or 0:,} before, {during:,} after."
        return text, lead
    waits = [load.waiting or 0 for _, loads in history.ticks for load in loads]
    longest = max(waits, default=0)
    what = f"at most {longest:,} wait on one of them" if longest else "nobody ever waits"
    return f"{plural(len(names), 'replica')} behind {history.header.router}: {what}.", lead


def _worst_queues(history: ClusterHistory, replica: int, t: float) -> tuple[int | None, int | None]:
    """The longest queue on another replica before t, and from t until that one is back."""
    back = [e.t for e in history.events if e.kind == "return" and e.replica == replica and e.t > t]
    until = min(back, default=float("inf"))
    before: list[int] = []
    during: list[int] = []
    for at, loads in history.ticks:
        if at > until:
            break
        waits = [load.waiting for i, load in enumerate(loads) if i != replica]
        (before if at < t else during).extend(w for w in waits if w is not None)
    return max(before, default=None), max(during, default=None)


# ── the static figure ───────────────────────────────────────────────────────────────────────────


def cluster_figure(history: ClusterHistory) -> StaticFigure:
    """Each replica's load over time on one scale, and a table of their figures."""
    text, lead = cluster_headline(history)
    header = history.header
    alt = (
        f"Cluster of {plural(len(header.names), 'replica')} behind {header.router}. {text} {lead} "
        f"{header.provenance}, {header.device}, {header.model}."
    ).replace("\n", " ")
    svg = to_svg(_draw(history, text), alt)
    return StaticFigure(svg, alt.replace("\u2009", " "), _table(history))


def _draw(history: ClusterHistory, text: str) -> Drawing:
    header, ticks = history.header, list(history.ticks)
    glyph = {"measured": "●", "simulated": "◐"}.get(header.provenance, "◇")
    end = ticks[-1][0] if ticks else 1.0
    top = max([1, *((load.running or 0) + (load.waiting or 0) for _, row in ticks for load in row)])
    words = f"{glyph} {header.provenance} {header.device}, {header.model}"
    shapes: list[Shape] = [
        *(Text(0, 16 + 22 * i, part, "ink", 16, True) for i, part in enumerate(text.split("\n"))),
        Text(0, 62, f"{words}; blue runs, grey waits, hatched: down", "ink2", 11.5),
    ]
    for replica, name in enumerate(header.names):
        y = 78 + replica * PITCH
        shapes.append(Text(0, y + 12, f"{replica} · {name}", "ink", 12, True))
        shapes += _strip(ticks, replica, y + 18, end, top)
    bottom = 78 + len(header.names) * PITCH
    shapes.append(Text(WIDTH, bottom + 12, seconds(end), "ink3", 11, anchor="end"))
    return Drawing(WIDTH, bottom + 18, shapes)


def _strip(ticks: list, replica: int, y: float, end: float, top: int) -> list[Shape]:
    base, unit = y + STRIP, STRIP / top
    shapes: list[Shape] = []
    every = max(1, len(ticks) // 600)
    running, both, down = [], [], []
    for t, loads in ticks[::every]:
        load, x = loads[replica], t / end * WIDTH
        running.append((x, base - (load.running or 0) * unit))
        both.append((x, base - ((load.running or 0) + (load.waiting or 0)) * unit))
        if not load.up:
            down.append(x)
    if len(running) > 1:
        for points, fill in ((both, "line"), (running, "soft")):
            shapes.append(Path([(0, base), *points, (points[-1][0], base)], fill=fill))
        shapes.append(Path(running, "decode", 1.2))
    step = WIDTH * every / max(1, len(ticks) - 1)
    shapes += [Rect(x, y, step + 0.5, STRIP, "hatch") for x in down]
    return [*shapes, Line(0, base, WIDTH, base, "line")]


def _table(history: ClusterHistory) -> str:
    heads = ("", "Requests sent", "Most running", "Most waiting", "Most KV in use", "Down")
    cells = "".join(f'<th scope="col">{name}</th>' for name in heads)
    rows = ""
    for replica, name in enumerate(history.header.names):
        loads = [row[replica] for _, row in history.ticks]
        values = (
            _most([load.sent for load in loads], "{:,}"),
            _most([load.running for load in loads], "{:,}"),
            _most([load.waiting for load in loads], "{:,}"),
            _most([load.kv for load in loads], "{:.0%}"),
            plural(
                sum(e.kind == "fail" and e.replica == replica for e in history.events), "failure"
            ),
        )
        rows += f'<tr><th scope="row">{replica} · {escape(name)}</th>'
        rows += "".join(f"<td>{value}</td>" for value in values) + "</tr>"
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def _most(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return form.format(max(known)) if known else "n/a"
