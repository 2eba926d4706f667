"""The dashboard as one widget: head, tabs, and what runs beside them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

import ipywidgets

from widgets.classroom import Desk
from widgets.dashboard.figures import LiveFigures
from widgets.dashboard.frame import Frame
from widgets.dashboard.live import ABSENT_S, LiveTab
from widgets.dashboard.load import Load
from widgets.dashboard.words import engine_status, origin

URL, KEY = "MINILLM_DASHBOARD_URL", "MINILLM_DASHBOARD_KEY"
NO_ENGINE = (
    '<div class="mld-words"><h2>No engine is running here</h2><p>Close this and run '
    "<code>make dashboard</code>: it starts one. The other tabs work without.</p></div>"
)


class Dashboard:
    """See the package's docstring. url, key: of the engine server; None: from the environment."""

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        self.url, self.key = url or os.environ.get(URL, ""), key or os.environ.get(KEY, "")
        self.makers: dict[str, Callable[[], ipywidgets.Widget]] = {
            "Live": self._live_panel,
        }
        self.frame = Frame(list(self.makers))
        self.body = ipywidgets.Box()
        self.body.add_class("mld-body")
        self.root = ipywidgets.VBox([self.frame, self.body])
        self.root.add_class("mld")
        self.live: LiveTab | None = None
        self._panels: dict[str, ipywidgets.Widget] = {}
        self._sampler = None
        if self.url:
            self._follow()
        self.frame.observe(lambda change: self._show(change["new"]), names="selected")
        self._show(0)
        atexit.register(self.close)

    def close(self) -> None:
        """End what runs beside the page."""
        atexit.unregister(self.close)
        if self.live is not None:
            self.live.load.close()
            self.live.desk.close()
        if self._sampler is not None:
            self._sampler.stop()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.root)

    # ── the engine ──────────────────────────────────────────────────────────────────────────

    def _follow(self) -> None:
        from minillm.telemetry import Sampler

        self._sampler = Sampler().start()
        figures = LiveFigures(self._sampler)
        desk = Desk(self.url, self.key, figures, at_once=False)
        self.live = LiveTab(desk, Load(self.url, self.key).start(), figures)
        desk.on_publish += [self._refresh, self.live.refresh]
        self.frame.on_here = self._woken
        desk.start()

    def _woken(self) -> None:
        """The page is there: on this thread, so that it does not wait for the publisher."""
        self.live.desk.quiet = False

    def _refresh(self) -> None:
        """Ten times a second, on the watch's publisher."""
        desk, frame, live = self.live.desk, self.frame, self.live
        frame.beat()
        live.load.paused = frame.presence.absent_for > ABSENT_S
        if frame.presence.absent:
            desk.quiet = True
        frame.trouble = f"The engine is gone. {desk.trouble}" if desk.trouble else ""
        frame.origin = origin(desk.state)
        pulse, state = live.figures.pulse, desk.state
        frame.status = (
            "" if desk.trouble else
            engine_status(pulse.age_s, desk.feed.running, bool(state.get("paused")))
        )  # fmt: skip

    # ── tabs ────────────────────────────────────────────────────────────────────────────────

    def _show(self, index: int) -> None:
        """Put the tab's panel on the page; made when it is first wanted."""
        name = list(self.makers)[index]
        if name not in self._panels:
            self._panels[name] = self.makers[name]()
        self.body.children = (self._panels[name],)

    def _live_panel(self) -> ipywidgets.Widget:
        return self.live.panel() if self.live is not None else ipywidgets.HTML(NO_ENGINE)
