"""The JavaScript and CSS of a widget as one string each, with no bundler and no URL.

The sources are small ES modules beside each other in static/<widget>/, so that node and a plain
page can import them as they are; a widget needs one module. `module(paths)` joins the files in
order and leaves out the imports between them (names are unique across the files).
"""

from __future__ import annotations

import re
from pathlib import Path

# What every canvas figure is built on, in order of need; before the widget's own files.
FIGURE = (
    "shared/theme.js", "shared/format.js", "shared/axis.js", "shared/pen.js", "shared/dom.js",
    "shared/keys.js", "shared/card.js", "shared/link.js", "shared/feed.js", "shared/figure.js",
    "shared/player.js",
)  # fmt: skip
LANE = ("shared/decode.js", "shared/lane.js")  # a run, from the frames of widgets.frames
STATIC = Path(__file__).parent / "static"
_LOCAL_IMPORT = re.compile(r'^import\s[^;]*?from\s+"\.{1,2}/[^"]+";\n', re.MULTILINE)


def module(*names: str) -> str:
    """The files `names` of static/ as one ES module."""
    parts = [(STATIC / name).read_text(encoding="utf-8") for name in names]
    return "\n".join(_LOCAL_IMPORT.sub("", part) for part in parts)


def style(*names: str) -> str:
    """The style sheets `names` of static/ as one."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)
