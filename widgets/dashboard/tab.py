"""What the simulated tabs share: a form at the left, figures at the right, one job at a time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import ipywidgets

from widgets.background import Background
from widgets.dashboard.form import Form


def two_columns(form: Form, figures: Sequence[ipywidgets.Widget]) -> ipywidgets.Box:
    """The panel of a tab."""
    boxes = [ipywidgets.VBox([form]), ipywidgets.VBox(list(figures))]
    for box, name in zip(boxes, ("mld-side", "mld-main"), strict=True):
        box.add_class(name)
    panel = ipywidgets.Box(boxes)
    panel.add_class("mld-two")
    return panel


class Jobs:
    """Runs one function at a time beside the page: on a thread, so that it stays awake.

    What it raises as ValueError, RuntimeError or ConnectionError is said in the form's note.
    """

    def __init__(self, form: Form, note: str = "said") -> None:
        self.form, self.note = form, note
        self._background = Background(name="minillm-job")

    @property
    def busy(self) -> bool:
        return self._background.running

    def start(self, job: Callable[[], object], saying: str = "") -> bool:
        """Start it; False while another one runs."""
        if self.busy:
            return False
        self.form[self.note] = saying
        self._background.start(functools.partial(self._run, job))
        return True

    def _run(self, job: Callable[[], object]) -> Iterator[float]:
        yield 0.0
        try:
            job()
        except (ValueError, RuntimeError, OSError) as error:
            self.form[self.note] = str(error)
