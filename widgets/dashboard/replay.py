"""The tab *Replay*: recorded runs, played again. It needs no engine and disturbs nobody."""

from __future__ import annotations

import ipywidgets

from widgets.replay import Replay


class ReplayTab:
    """A widgets.replay.Replay on the dashboard's page."""

    def __init__(self) -> None:
        self.replay = Replay()

    def panel(self) -> ipywidgets.Widget:
        panel = self.replay.panel
        panel.add_class("mld-main")
        return panel

    def close(self) -> None:
        self.replay.close()
