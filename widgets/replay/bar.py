"""What a replay is steered with: the list of runs, a file of one's own, play, pace, scrub, export.

The browser's half is static/replay/bar.js. It only asks; widgets.replay.panel does it.
"""

from __future__ import annotations

from collections.abc import Callable

import anywidget
import traitlets

from minillm.recordings import MOST_BYTES
from widgets import assets
from widgets.cursor import Cursor

SOURCES = (
    "shared/theme.js", "shared/format.js", "shared/axis.js", "shared/pen.js", "shared/dom.js",
    "shared/keys.js", "shared/link.js", "shared/save.js", "replay/transfer.js", "replay/bar.js",
)  # fmt: skip
PACES = ((0.1, "slow motion, 1/10"), (1.0, "real time"), (4.0, "4 times as fast"), (0, "in 3 s"))
ALL_AT_ONCE = 0  # the pace that stands for "the whole run in 3 s"
ASKS = ("play", "pause", "choose", "pace", "export", "part", "upload", "bytes")


class ReplayBar(anywidget.AnyWidget):
    """runs: [{name, title, group}] in order. chosen: a name of theirs, "" for a file of one's own.

    about: widgets.replay.words.about. starts: when each step begins, end: of the run, in seconds.
    note: {text, wrong: whether it is bad news, turn: how often something was said}.
    on_ask(what, content, parts): of the page.
    """

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "replay/bar.css")

    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    chosen = traitlets.Unicode("").tag(sync=True)
    own = traitlets.Unicode("").tag(sync=True)
    about = traitlets.Dict().tag(sync=True)
    starts = traitlets.List(traitlets.Float()).tag(sync=True)
    end = traitlets.Float(0.0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    paces = traitlets.List().tag(sync=True)
    pace = traitlets.Float(1.0).tag(sync=True)
    note = traitlets.Dict({"text": "", "wrong": False, "turn": 0}).tag(sync=True)
    most_bytes = traitlets.Int(MOST_BYTES).tag(sync=True)
    cursor_name = traitlets.Unicode("").tag(sync=True)

    def __init__(self, cursor: Cursor, **traits: object) -> None:
        super().__init__(paces=[list(pair) for pair in PACES], **traits)
        self.on_ask: Callable[[str, dict, list], object] = lambda what, content, parts: None
        cursor.join(self)
        self.on_msg(self._on_message)

    def say(self, words: str, *, wrong: bool = False) -> None:
        """A sentence below the buttons, also where it is the same again; "" takes it back."""
        self.note = {"text": words, "wrong": wrong, "turn": self.note["turn"] + 1}

    @property
    def said(self) -> str:
        """What stands below the buttons."""
        return self.note["text"]

    def _on_message(self, _widget: object, content: object, buffers: object) -> None:
        """The page asks: {"ask": one of ASKS, …}; what is odd is ignored."""
        if isinstance(content, dict) and content.get("ask") in ASKS:
            self.on_ask(content["ask"], content, list(buffers or ()))
