"""The cursor that the views of a session share: one time and one request.

    cursor = Cursor()
    timeline, blocks = Timeline(cursor=cursor), BlockMap(cursor=cursor)
    cursor.move(t=0.481, req=11)          # every view points there
    cursor.observe(lambda c: show(c.req)) # the reader moved it, in whichever view
    number = cursor.play()                # a playback takes it …
    while cursor.advance(number, t): …    # … and moves it on until somebody else points

In the browser the views tell each other at once, without the kernel (static/shared/link.js); the
kernel hears of it at most five times a second. No ipywidgets here: a view is anything that has a
`cursor_name`, `send(dict)` and `on_msg(call)`, as every anywidget with that trait does.
"""

from __future__ import annotations

import itertools
import math
import secrets
import threading
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
    index (None: nobody). playing: number of the playback that moves it (0: none does). `name`
    tells cursors apart where several notebooks share one page."""

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)
        self.t: float | None = None
        self.req: int | None = None
        self.playing = 0
        self._plays = itertools.count(1)
        self._guard = threading.Lock()  # a playback, a cell and the reader may point at once
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
        """Point elsewhere, in every view; a playback ends. ValueError for no time or no index."""
        place = self.t if t is KEEP else t, self.req if req is KEEP else req
        if not _is_place(*place):
            raise ValueError(
                f"A cursor points at seconds ≥ 0 and a request's index ≥ 0, got {t=!r}, {req=!r}."
            )
        self._take(*place, playing=0)
        self._tell()

    def play(self) -> int:
        """Let a playback move it: the number that advance() takes. One before ends."""
        with self._guard:
            self.playing = next(self._plays)
            return self.playing

    def advance(self, number: int, t: float) -> bool:
        """The playback of that number comes to t; False, and no move, once somebody took over."""
        if not self._take(t, self.req, number, only_if=number):
            return False
        self._tell()
        return True

    def rest(self, number: int) -> None:
        """The playback of that number has ended."""
        if self._take(self.t, self.req, 0, only_if=number):
            self._tell()

    def _tell(self) -> None:
        content = {"kind": "cursor", "t": self.t, "req": self.req}
        if self.playing:
            content["playing"] = self.playing
        for view in self._views:
            view.send(content)

    def _take(
        self, t: float | None, req: int | None, playing: int, only_if: int | None = None
    ) -> bool:
        """Take a position over and tell the observers of a change; False when it is not its turn.

        only_if: the playback that must be on.
        """
        with self._guard:
            if only_if is not None and self.playing != only_if:
                return False
            changed = (t, req, playing) != (self.t, self.req, self.playing)
            self.t, self.req, self.playing = t, req, playing
        for call in list(self._calls) if changed else ():
            call(self)
        return True

    def _on_message(self, _view: object, content: object, _buffers: object) -> None:
        """A view of the browser says where the reader points now; what is odd is ignored."""
        moved = content.get("cursor") if isinstance(content, dict) else None
        if isinstance(moved, dict) and _is_place(moved.get("t"), moved.get("req")):
            self._take(moved.get("t"), moved.get("req"), playing=0)


def _is_place(t: object, req: object) -> bool:
    if t is not None and not (_is_number(t) and math.isfinite(t) and t >= 0):
        return False
    return req is None or (isinstance(req, int) and _is_number(req) and req >= 0)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
