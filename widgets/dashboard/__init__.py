"""The dashboard: one engine, live, and four more ways to look at batching. Run by `make dashboard`.

    from widgets.dashboard import Dashboard
    Dashboard()          # the last line of notebooks/dashboard.ipynb

The kernel behind a page is a client of the engine server; it loads no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from widgets.dashboard.page import Dashboard

__all__ = ["Dashboard"]


def __getattr__(name: str) -> object:
    if name == "Dashboard":  # the models beside it need no ipywidgets
        from widgets.dashboard.page import Dashboard

        return Dashboard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
