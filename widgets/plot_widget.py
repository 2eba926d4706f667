"""The base of the figures whose whole content is one small object: sent when it has changed.

    plot.publish()              # from a publisher, or after a change; sends only what is new
    plot.save_png("curve.png")  # matplotlib; save_csv writes the table
    plot.freeze()               # static figure, alt text and table, for saved notebooks

The content is the synced trait `data`, so a second view and a reload have it at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import traitlets

from widgets.canvas_widget import CanvasWidget
from widgets.figures import StaticFigure, to_matplotlib, to_png
from widgets.shapes import Drawing
from widgets.still import Table, static, to_csv


class PlotModel(Protocol):
    """What a plot shows. version: changes with the content."""

    version: int

    def as_dict(self) -> dict: ...

    def headline(self) -> str: ...

    def subtitle(self) -> str: ...

    def describe(self) -> str: ...

    def table(self) -> Table: ...

    @property
    def empty(self) -> bool: ...


class PlotWidget(CanvasWidget):
    """data: the model's content. All calls may come from any thread."""

    _what = "plot"
    _picture: Callable[[PlotModel, str, str], Drawing]  # of the model, a headline and a subtitle

    data = traitlets.Dict().tag(sync=True)

    def __init__(self, model: PlotModel, **traits: object) -> None:
        super().__init__(data=model.as_dict(), **traits)
        self.model = model
        self._guard = threading.RLock()
        self._sent = model.version
        self._own_words = False  # set_headline() was called: ours do not replace it

    def publish(self, *, heartbeat: bool = False) -> int:
        """Send what has changed; 1 if there was something."""
        with self._guard:
            if self.model.version != self._sent:
                self._sent = self.model.version
                self.frozen = ""
                self.data = self.model.as_dict()
                if not self._own_words:
                    self.headline, self.subtitle = self.model.headline(), self.model.subtitle()
                return 1
            if heartbeat:
                self.send({"kind": "heartbeat"})
            return 0

    def set_headline(self, text: str, subtitle: str | None = None, notes: object = ()) -> None:
        """Say this instead of what the figures say; "" goes back to them."""
        with self._guard:
            self._own_words = bool(text)
            self.headline = text or self.model.headline()
            self.subtitle = self.model.subtitle() if subtitle is None else subtitle

    def still(self) -> StaticFigure:
        with self._guard:
            return static(self._draw(), self._alt(), self.model.table())

    def to_csv(self) -> str:
        """The table as CSV."""
        with self._guard:
            return to_csv(*self.model.table())

    def save_csv(self, path: str | Path) -> Path:
        """Write the table; returns its path."""
        path = Path(path)
        path.write_text(self.to_csv(), encoding="utf-8")
        return path

    def save_png(self, path: str | Path, dpi: int = 200) -> Path:
        """Write the static figure as PNG; returns its path."""
        path = Path(path)
        with self._guard:
            drawing = self._draw()
        path.write_bytes(to_png(to_matplotlib(drawing), dpi))
        return path

    def _draw(self) -> Drawing:
        if self.model.empty:
            raise ValueError(f"This {self._what} has nothing to show yet.")
        self.publish()
        return self._picture(self.model, self.headline, self.subtitle)

    def _alt(self) -> str:
        return f"{self.headline} {self.model.describe()}".strip()
