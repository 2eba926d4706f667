"""Replay: the bar, and the figures that follow its cursor."""

from __future__ import annotations

import threading
from functools import cached_property
from html import escape
from pathlib import Path

from minillm.core.trace import Trace
from minillm.recordings import (
    Recording,
    load_recording,
    recordings,
    trace_from_bytes,
)
from widgets import cards
from widgets.block_map import BlockMap
from widgets.cursor import Cursor
from widgets.figures import StaticFigure
from widgets.histogram import Histogram
from widgets.replay import words
from widgets.replay.bar import ALL_AT_ONCE, ReplayBar
from widgets.replay.export import FORMATS, exported
from widgets.replay.files import Downloads, Upload
from widgets.replay.model import MOST_STEPS, ReplayModel, Situation
from widgets.replay.player import Player
from widgets.replay.worker import Worker
from widgets.strip_chart import StripChart
from widgets.timeline import Timeline

STRIPS = ("running", "waiting", "output_rate", "kv")
Source = str | Path | bytes | Recording | Trace


class Replay:
    """A run, played again. source: the name of a recording, a Recording, a trace file's path or
    bytes, or a Trace; None: the first recording.

    threads: None chooses by capability. Raises ValueError (a trace that cannot be read; the line
    is named) and OSError (a file that cannot).
    """

    def __init__(self, source: Source | None = None, *, threads: bool | None = None) -> None:
        self.cursor = cursor = Cursor()
        self.bar = ReplayBar(cursor, runs=[_entry(each) for each in recordings()])
        self.timeline = Timeline(cursor=cursor, max_steps=MOST_STEPS, veil=True)
        self.strips = StripChart(cursor=cursor, max_samples=3 * MOST_STEPS, only=STRIPS)
        self.blocks = BlockMap(cursor=cursor, max_steps=MOST_STEPS)
        self.latencies = Histogram()
        self.text = cards.Html("", "")
        self.player = Player(cursor, threads=threads, changed=self._show_playing)
        self.worker = Worker(threads=threads, failed=self._failed)
        self.upload, self.downloads = Upload(), Downloads()
        self.recording: Recording | None = None
        self.model: ReplayModel | None = None
        self._words = None  # an ipywidgets.HTML, once there is a panel
        self._file = ""
        self._guard = threading.RLock()  # a cell loads a run, the worker follows the cursor
        self.bar.on_ask = self._asked
        self.load(source)
        cursor.observe(lambda _: self.worker.do("follow", self._follow))

    # ── a run ───────────────────────────────────────────────────────────────────────────────

    def load(self, source: Source | None = None) -> None:
        """Show another run; what is shown stays if it cannot be read. Errors as the class's."""
        recording, name, trace = _resolved(source)
        model = ReplayModel(trace)
        with self._guard:
            self._show(model, recording, name)

    def _show(self, model: ReplayModel, recording: Recording | None, name: str) -> None:
        self.player.pause()
        self.recording, self.model, self._file = recording, model, name
        self._situation, self._position = Situation(), 0
        header = model.trace.header
        for view in (self.timeline, self.strips, self.blocks, self.latencies):
            view.reset(0, header)
        for view in (self.timeline, self.blocks):
            view.titles, view.subtitles = [""], [""]
        self.cursor.move(t=None, req=None)
        for view in (self.timeline, self.strips, self.blocks):
            view.feed(0, model.trace)
            view.publish()
            view.finish(0)
            view.conclude()
        self.player.load(model.end)
        self._show_run(model, name)
        self._follow()

    def _show_run(self, model: ReplayModel, name: str) -> None:
        bar = self.bar
        bar.chosen = self.recording.name if self.recording else ""
        bar.own = "" if self.recording else name
        bar.about = words.about(self.recording, model.trace.header, model.left_out)
        bar.starts, bar.end = [round(t, 6) for t in model.starts], model.end
        bar.pace = ALL_AT_ONCE if self.player.pace is None else self.player.pace
        bar.say("")

    # ── time ────────────────────────────────────────────────────────────────────────────────

    def play(self, pace: float | None = 1.0) -> Replay:
        """Play from the cursor on and return at once. pace: run's seconds a second; None: 3 s."""
        self.player.pace = pace
        self.bar.pace = ALL_AT_ONCE if pace is None else pace
        self.player.play()
        return self

    def pause(self) -> None:
        self.player.pause()

    async def finished(self) -> None:
        """Wait until the playback has ended and the figures have caught up."""
        await self.player.finished()
        await self.worker.idle()

    def close(self) -> None:
        """End what runs beside the cells."""
        self.player.close()
        self.worker.close()

    def _show_playing(self) -> None:
        self.bar.playing = self.player.playing

    def _follow(self) -> None:
        """Bring histograms and words to where the cursor is."""
        with self._guard:
            self._follow_to(self.cursor.t)

    def _follow_to(self, t: float | None) -> None:
        model = self.model
        to = model.position(t)
        if to < self._position:
            self._situation, self._position = Situation(), 0
            self.latencies.reset(0, model.trace.header)
        new = model.between(self._position, to)
        self._position = to
        self._situation.take(new)
        self.latencies.feed(0, new)
        self.latencies.finish()
        self.text = words.moment(model, self._situation, t)
        if self._words is not None:
            self._words.value = self.text.html

    # ── what the page asks ──────────────────────────────────────────────────────────────────

    def _asked(self, what: str, content: dict, parts: list) -> None:
        """On the kernel's thread: only sets and enqueues."""
        if what == "play":
            self.player.play()
        elif what == "pause":
            self.player.pause()
        elif what == "pace":
            self._set_pace(content.get("pace"))
        elif what == "choose":
            name = content.get("name")
            if isinstance(name, str) and (self.recording is None or name != self.recording.name):
                self.worker.do("open", lambda: self.load(load_recording(name)))
        elif what == "export" and content.get("to") in FORMATS:
            self.worker.do("export", lambda: self._export(content["to"], content.get("by")))
        elif what == "part":
            self._send_part(content)
        else:
            self._take_file(what, content, parts)

    def _set_pace(self, pace: object) -> None:
        if pace in [value for value, _ in self.bar.paces]:
            self.player.pace = None if pace == ALL_AT_ONCE else pace
            self.bar.pace = pace

    def _take_file(self, what: str, content: dict, parts: list) -> None:
        try:
            if what == "upload":
                self.upload.begin(*(content.get(key) for key in ("number", "name", "size")))
                return
            whole = self.upload.add(content.get("number"), bytes(parts[0]) if parts else b"")
        except ValueError as error:
            self.bar.say(str(error), wrong=True)
            return
        if whole is not None:
            name, data = whole
            self.worker.do("open", lambda: self._open(name, data))

    def _open(self, name: str, data: bytes) -> None:
        try:
            trace = trace_from_bytes(data)
            self.load(trace)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        self._file = self.bar.own = name

    def _export(self, to: str, by: object) -> None:
        name = (self.recording.name if self.recording else Path(self._file).stem) or "trace"
        made = exported(self.model.trace, to)
        if made is None:  # no matplotlib: the page saves what it has painted
            self.bar.send({"kind": "picture", "by": by, "name": f"{name}.png"})
            return
        suffix, mime, content = made
        self.bar.send({**self.downloads.offer(f"{name}{suffix}", mime, content), "by": by})

    def _send_part(self, content: dict) -> None:
        found = self.downloads.part(content.get("number"), content.get("part"))
        if found is None:
            self.bar.say("That file is no longer kept: press the button again.", wrong=True)
            return
        message, data = found
        self.bar.send({**message, "by": content.get("by")}, [data])

    def _failed(self, error: Exception) -> None:
        self.bar.say(str(error), wrong=True)

    # ── what a notebook shows ───────────────────────────────────────────────────────────────

    @cached_property
    def panel(self):
        """Bar, figures and words, as one widget."""
        import ipywidgets

        self._words = ipywidgets.HTML(self.text.html)
        figures = [self.timeline, self.strips, self.blocks, self.latencies]
        return ipywidgets.VBox([self.bar, *figures, self._words], layout={"width": "100%"})

    def freeze(self) -> StaticFigure:
        """Static figures in place of the live ones; returns that of the timeline, with the words.

        As a cell's result it stays in a saved notebook.
        """
        for view in (self.strips, self.blocks, self.latencies):
            view.freeze()
        still = self.timeline.freeze()
        note = f"<p>{escape(self.bar.about['made'])}</p>" if self.bar.about["made"] else ""
        return StaticFigure(still.svg, still.alt, f"{still.table}{note}{self.text.html}")

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)


def _entry(recording: Recording) -> dict:
    glyph = cards.GLYPHS[recording.header.provenance]
    group = f"{recording.header.provenance}: {recording.device}, {recording.model}"
    return {"name": recording.name, "title": f"{glyph} {recording.title}", "group": group}


def _resolved(source: Source | None) -> tuple[Recording | None, str, Trace]:
    """(recording, file name, trace) of what Replay takes. A text: a recording's name, or a path."""
    if source is None:
        source = recordings()[0]
    elif isinstance(source, str) and not ("/" in source or "\\" in source or "." in source):
        source = load_recording(source)
    if isinstance(source, Recording):
        return source, "", source.trace
    if isinstance(source, Trace):
        return None, "this notebook’s trace", source
    if isinstance(source, bytes):
        return None, "trace", trace_from_bytes(source)
    path = Path(source)
    return None, path.name, trace_from_bytes(path.read_bytes())
