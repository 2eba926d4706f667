"""What a student sees: live views of a run, their controls, and static figures.

Imports minillm, never the other way round; `widgets.frames`, `widgets.headline` and
`widgets.figures` need no ipywidgets. `join` and `teach` are a class's two ends.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from widgets.classroom import Desk, Seat

if sys.platform == "emscripten":
    from widgets import tab

    tab.install()


def join(url: str, code: str, nickname: str) -> Seat:
    """Take a seat in a class: widgets.classroom.join."""
    from widgets import classroom

    return classroom.join(url, code, nickname)


def teach(url: str, key: str) -> Desk:
    """The instructor's desk: widgets.classroom.teach."""
    from widgets import classroom

    return classroom.teach(url, key)
