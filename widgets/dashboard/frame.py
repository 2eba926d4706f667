"""The page's head: tabs, what is served, the banner that says what is gone, and who is there.

The kernel beats, the page answers: a page whose kernel is gone says so within 5 s, and a kernel
whose page is gone falls silent, so that the server may end it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import anywidget
import traitlets

from widgets import assets

BEAT_S = 1.0
# A page says every 2 s that it is there. A hidden one may be woken only once a minute: it is quiet
# meanwhile, and keeps its kernel, because its connection stays open.
ABSENT_S = 20.0


class Presence:
    """Whether anybody looks at the page. clock(): seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard = self._beaten = clock()

    def heard(self) -> None:
        """The page has said that it is there."""
        self._heard = self._clock()

    @property
    def absent_for(self) -> float:
        """Seconds since the page was heard last."""
        return self._clock() - self._heard

    @property
    def absent(self) -> bool:
        return self.absent_for > ABSENT_S

    def beat_due(self) -> bool:
        """Whether it is time for a beat; True counts as one."""
        now = self._clock()
        if self.absent or now - self._beaten < BEAT_S:
            return False
        self._beaten = now
        return True


class Frame(anywidget.AnyWidget):
    """tabs: their names; selected: an index. origin: {provenance, where}. trouble: the banner."""

    _esm = assets.module("shared/dom.js", "shared/theme.js", "dashboard/frame.js")
    _css = assets.style("dashboard/dashboard.css")

    tabs = traitlets.List(traitlets.Unicode()).tag(sync=True)
    selected = traitlets.Int(0).tag(sync=True)
    origin = traitlets.Dict().tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    trouble = traitlets.Unicode("").tag(sync=True)

    def __init__(self, tabs: Sequence[str]) -> None:
        super().__init__(tabs=list(tabs))
        self.presence = Presence()
        self.on_here: Callable[[], object] = lambda: None
        self.on_msg(self._on_message)

    def beat(self) -> None:
        """Say that the kernel lives, once a second; call it as often as you like."""
        if self.presence.beat_due():
            self.send({"kind": "beat"})

    @traitlets.validate("selected")
    def _valid_tab(self, proposal: dict) -> int:
        return min(max(proposal["value"], 0), len(self.tabs) - 1)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        if isinstance(content, dict) and content.get("here"):
            self.presence.heard()
            self.on_here()
