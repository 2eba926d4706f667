"""A run as a file for other tools: CSV, PNG, the Trace Event Format that Perfetto opens."""

from __future__ import annotations

from minillm.core.export import chrome_text, csv_text
from minillm.core.trace import Trace
from widgets.figures import matplotlib_figure, to_png

FORMATS = ("csv", "png", "chrome")


def exported(trace: Trace, to: str) -> tuple[str, str, bytes] | None:
    """(suffix, MIME type, content); None for a PNG where there is no matplotlib.

    Raises ValueError for an unknown format.
    """
    if to == "csv":
        return ".csv", "text/csv", csv_text(trace).encode()
    if to == "chrome":
        return ".trace.json", "application/json", chrome_text(trace).encode()
    if to == "png":
        try:
            return ".png", "image/png", to_png(matplotlib_figure([trace]))
        except ImportError:
            return None
    raise ValueError(f"A run can be exported as {', '.join(FORMATS)}, got {to!r}.")
