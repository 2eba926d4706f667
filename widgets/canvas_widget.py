"""The base of every canvas figure: the words around it, its cursor, its frozen form.

The browser's half is static/shared/figure.js. A subclass sets `_esm` and `_css` with
widgets.assets (FIGURE first) and gives `still()`, its static figure.
"""

from __future__ import annotations

from collections.abc import Iterable

import anywidget
import traitlets

from widgets.cursor import Cursor
from widgets.figures import StaticFigure


class CanvasWidget(anywidget.AnyWidget):
    """headline: the finding, above; lead: what else to know of it. subtitle: beside the provenance.

    cursor: shared with other figures.
    """

    headline = traitlets.Unicode("").tag(sync=True)
    lead = traitlets.Unicode("").tag(sync=True)
    subtitle = traitlets.Unicode("").tag(sync=True)
    stale_message = traitlets.Unicode("").tag(sync=True)
    frozen = traitlets.Unicode("").tag(sync=True)
    cursor_name = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *, cursor: Cursor | None = None, **traits: object) -> None:
        super().__init__(**traits)
        if cursor is not None:
            cursor.join(self)

    def set_headline(
        self, text: str, subtitle: str | None = None, notes: Iterable[dict] = (), lead: str = ""
    ) -> None:
        """The sentence above, the line beside the provenance ("same 14 requests, 6 slots").

        notes: what to point at, for the figures that show some. lead: the line below the sentence.
        """
        self.headline, self.lead = text, lead
        if subtitle is not None:
            self.subtitle = subtitle
        if self.has_trait("notes"):
            self.notes = list(notes)

    def stale(self, message: str) -> None:
        """Say that what is shown is no longer live; "" takes it back."""
        self.stale_message = message

    def still(self) -> StaticFigure:
        """What is shown as a static figure. Raises ValueError when there is nothing yet."""
        raise NotImplementedError

    def freeze(self) -> StaticFigure:
        """Put a static figure with alt text and a table in place of the live view.

        Shown as a cell's result it stays in a saved notebook; live views show it too, until the
        next run. Raises ValueError when there is nothing to show yet.
        """
        figure = self.still()
        self.frozen = figure.to_html(inline=True)
        self._still = figure
        return figure

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is not None and self.frozen:
            bundle[0]["text/html"] = self._still.to_html()
        return bundle
