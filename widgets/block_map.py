"""The block map: who holds which KV block, what is shared, cached, free, and just taken back.

    cursor = Cursor()
    timeline, blocks = Timeline(cursor=cursor), BlockMap(cursor=cursor)
    session.watch(timeline).watch(blocks)     # both follow the run; pointing in one moves both

It shows the step at the cursor; without one the newest of a run, and of a run that is over the
moment that conclude() tells of. How it is fed and sent: widgets.trace_widget.
"""

from __future__ import annotations

import traitlets

from widgets import assets
from widgets.block_story import BlockStory, block_figure, block_story
from widgets.blocks import BlockRing
from widgets.cursor import Cursor
from widgets.figures import StaticFigure
from widgets.trace_widget import TraceWidget

SOURCES = (
    *assets.FIGURE,
    *assets.LANE,
    "block_map/model.js",
    "block_map/layout.js",
    "block_map/paint.js",
    "block_map/view.js",
)


class BlockMap(TraceWidget):
    """A map of one run's KV blocks.

    colors: "owners" gives each request one of six tints; "soft" shows all alike and the highlighted
    request solid; "auto" is soft while a run is on, and where more than six hold blocks.
    """

    _esm = assets.module(*SOURCES)
    _css = assets.style("shared/figure.css", "block_map/block_map.css")
    _what = "block map"

    colors = traitlets.Enum(("auto", "owners", "soft"), "auto").tag(sync=True)
    notes = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self,
        title: str = "",
        *,
        colors: str = "auto",
        max_steps: int = 4096,
        cursor: Cursor | None = None,
    ) -> None:
        super().__init__(
            1, [title], most_lanes=1, max_steps=max_steps, make_ring=BlockRing, cursor=cursor,
            colors=colors,
        )  # fmt: skip

    def conclude(self) -> BlockStory:
        """Say what the blocks came to, and show that moment. ValueError when nothing was fed."""
        story = block_story(self.traces()[0])
        self.set_headline(story.text, notes=story.notes, lead=story.lead)
        return story

    def still(self) -> StaticFigure:
        return block_figure(self.traces()[0])
