"""A recorded run, played again: of the course's recordings or of a trace file of one's own.

    from widgets.replay import Replay
    Replay("chat-continuous")        # a name, a path, a Trace; without one: the first of the list

Play, pause, scrub: one cursor moves timeline, strips, block map and histograms. It needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from widgets.replay.panel import Replay

__all__ = ["Replay"]


def __getattr__(name: str) -> object:
    if name == "Replay":  # the models beside it need no ipywidgets
        from widgets.replay.panel import Replay

        return Replay
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
