"""The cursor that the views of a session share: one time and one request.

    cursor = Cursor()
    timeline, blocks = Timeline(cursor=cursor), BlockMap(cursor=cursor)
    cursor.move(t=0.481, req=11)          # every view points there
    cursor.observe(lambda c: show(c.req)) # the reader moved it, in whichever view

In the browser the views tell each other at once, without the kernel (static/shared/link.js); the
kernel hears of it at most five times a second. No ipywidgets here: a view is anything that has a
`cursor_name`, `send(dict)` and `on_msg(call)`, as every anywidget with that trait does.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Protocol

KEEP: object = object()  # leaves a value as it is


class Pointing(Protocol):
    """A view that can join."""

    cursor_name: str

    def send(self, content: dict) -> object: ...

    def on_msg(self, callback: Callable[[object, object, object], None]) -> object: ...


class Cursor:
    """t: seconds since the run's first request (None: nowhere). req: the highlighted request's
    index (None: nobody). `name` tells cursors apart where several notebooks share one page."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self.t: float | None = None
        self.req: int | None = None
        self._views: list[Pointing] = []
        self._calls: list[Callable[[Cursor], None]] = []

    def join(self, view: Pointing) -> None:
        """Let a view share this cursor. Twice the same changes nothing."""
        if view in self._views:
            return
        self._views.append(view)
        view.cursor_name = self.name
        view.on_msg(self._on_message)

    def observe(self, call: Callable[[Cursor], None]) -> None:
        """Have `call(cursor)` called after each change, whoever made it."""
        self._calls.append(call)

    def move(self, *, t: float | object | None = KEEP, req: int | object | None = KEEP) -> None:
        """Point elsewhere, in every view. Raises ValueError for what is no time or no index."""
        if not self._set(self.t if t is KEEP else t, self.req if req is KEEP else req):
            raise ValueError(
                f"A cursor points at seconds ≥ 0 and a request's index ≥ 0, got {t=!r}, {req=!r}."
            )
        for view in self._views:
            view.send({"kind": "cursor", "t": self.t, "req": self.req})

    def _set(self, t: object, req: object) -> bool:
        """Take over a position and tell the observers; False, and no change, for no position."""
        if t is not None and not (_is_number(t) and math.isfinite(t) and t >= 0):
            return False
        if req is not None and not (isinstance(req, int) and _is_number(req) and req >= 0):
            return False
        if (t, req) != (self.t, self.req):
            self.t, self.req = t, req
            for call in list(self._calls):
                call(self)
        return True

    def _on_message(self, _view: object, content: object, _buffers: object) -> None:
        """A view of the browser says where the reader points now; what is odd is ignored."""
        moved = content.get("cursor") if isinstance(content, dict) else None
        if isinstance(moved, dict):
            self._set(moved.get("t"), moved.get("req"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
