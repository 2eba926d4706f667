"""The dashboard as one widget: head, tabs, and what runs beside them."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets

from widgets.background import Background, threads_work
from widgets.dashboard.engines import Engines
from widgets.dashboard.figures import LiveFigures
from widgets.dashboard.frame import BEAT_S, Frame
from widgets.dashboard.live import LiveTab
from widgets.dashboard.words import engine_status, origin

KEPT_SAMPLES = 300  # of this machine's telemetry: half a minute, more than the strips show
NO_ENGINE = (
    '<div class="mld-words"><h2>No engine is running here</h2><p>Close this and run '
    "<code>make dashboard</code>: it starts one. The other tabs work without.</p></div>"
)
NO_CLASS = (
    '<div class="mld-words"><h2>A class needs the installed course</h2><p>A browser tab cannot '
    "connect to a server. With the course installed, <code>make dashboard</code> joins a class."
    "</p></div>"
)


class Dashboard:
    """See the package's docstring. url, key: of an engine server; None: from the environment.

    Nothing is followed before a page has said that it is there: a kernel may be started early.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        self.engines = Engines(url, key=key or "") if url else Engines.from_environment()
        self.makers: dict[str, Callable[[], ipywidgets.Widget]] = {
            "Live": self._live_panel, "Compare": self._compare, "Curve": self._curve,
            "Cluster": self._cluster, "Replay": self._replay, "Class": self._class,
        }  # fmt: skip
        self.frame = Frame(list(self.makers))
        self.body = ipywidgets.Box()
        self.body.add_class("mld-body")
        self.root = ipywidgets.VBox([self.frame, self.body])
        self.root.add_class("mld")
        self.live: LiveTab | None = None
        self.tabs: dict[str, Any] = {}  # those that were opened, by name
        self._panels: dict[str, ipywidgets.Widget] = {}
        self._sampler = None
        self._stopping = threading.Event()
        self._beats = Background(name="minillm-beat")
        if self.engines.first:
            self._make_live()
        self.frame.on_here = self._woken
        self._beats.start(self._beat)
        self.frame.observe(lambda change: self._show(change["new"]), names="selected")
        self._show(0)
        atexit.register(self.close)

    def close(self) -> None:
        """End what runs beside the page."""
        atexit.unregister(self.close)
        self._stopping.set()
        self._beats.wake()
        self._beats.join(2 * BEAT_S)
        for tab in self.tabs.values():
            if hasattr(tab, "close"):
                tab.close()
        if self.live is not None:
            self.live.close()
        if self._sampler is not None:
            self._sampler.stop()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.root)

    # ── the engine ──────────────────────────────────────────────────────────────────────────

    def _make_live(self) -> None:
        import httpx  # noqa: F401 (needed to follow: loaded now, while a kernel waits for its page)

        from minillm.telemetry import Sampler

        self._sampler = Sampler(keep=KEPT_SAMPLES)
        self.live = LiveTab(self.engines, LiveFigures(self._sampler))
        self.live.on_publish += [self._refresh]

    def _beat(self) -> Iterator[float]:
        """Say that the kernel lives; stop working for a page that is gone."""
        presence = self.frame.presence
        while not self._stopping.is_set():
            self.frame.beat()
            if self.live is not None:
                self.live.load.paused = presence.absent
            if presence.absent:
                self._be_quiet(True)
            yield BEAT_S / 2

    def _woken(self) -> None:
        """The page has said that it is there."""
        self._be_quiet(False)
        if self.live is not None:
            self._sampler.start()
            self.live.follow()

    def _be_quiet(self, quiet: bool) -> None:
        if self.live is not None:
            self.live.desk.quiet = quiet
        if "Class" in self.tabs:
            self.tabs["Class"].quiet(quiet)

    def _refresh(self) -> None:
        """Ten times a second, on the watch's publisher."""
        desk, frame, live = self.live.desk, self.frame, self.live
        gone = "The engine is gone." if desk.state else "The engine does not answer yet."
        frame.trouble = f"{gone} {desk.trouble}" if desk.trouble else ""
        frame.origin = origin(desk.state)
        pulse, state = live.figures.pulse, desk.state
        frame.status = (
            "" if desk.trouble else
            engine_status(pulse.age_s, desk.feed.in_flight, bool(state.get("paused")))
        )  # fmt: skip

    # ── tabs ────────────────────────────────────────────────────────────────────────────────

    def _show(self, index: int) -> None:
        """Put the tab's panel on the page; made when it is first wanted."""
        name = list(self.makers)[index]
        if name not in self._panels:
            self._panels[name] = self.makers[name]()
        self.body.children = (self._panels[name],)

    def _live_panel(self) -> ipywidgets.Widget:
        if self.live is not None:
            return self.live.panel()
        if threads_work():
            return ipywidgets.HTML(NO_ENGINE)
        from widgets.dashboard.here import HereTab

        return self._open("Live", HereTab())

    # Each is imported when it is first opened: a page is ready sooner.

    def _compare(self) -> ipywidgets.Widget:
        from widgets.dashboard.compare import CompareTab

        return self._open("Compare", CompareTab())

    def _curve(self) -> ipywidgets.Widget:
        from widgets.dashboard.curve import CurveTab

        return self._open("Curve", CurveTab(self.live))

    def _cluster(self) -> ipywidgets.Widget:
        from widgets.dashboard.cluster import ClusterTab

        return self._open("Cluster", ClusterTab())

    def _replay(self) -> ipywidgets.Widget:
        from widgets.dashboard.replay import ReplayTab

        return self._open("Replay", ReplayTab())

    def _class(self) -> ipywidgets.Widget:
        if not threads_work():
            return ipywidgets.HTML(NO_CLASS)
        from widgets.dashboard.class_tab import ClassTab

        return self._open("Class", ClassTab())

    def _open(self, name: str, tab: Any) -> ipywidgets.Widget:
        self.tabs[name] = tab
        return tab.panel()
