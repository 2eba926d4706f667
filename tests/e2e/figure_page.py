"""Widgets in a plain page: the real ones here, their views in a browser.

No Jupyter: `Wire` carries the widgets' messages and traits to figure_page.html and their views'
messages back. `page.evaluate("() => window.view")` is the last view, `window.views[i]` that of
widget i.
"""

from __future__ import annotations

import base64
from pathlib import Path

HTML = Path(__file__).with_name("figure_page.html")
OF_JUPYTER = {"comm", "keys", "layout", "tabbable", "tooltip"}


class Wire:
    """Widgets whose messages go to a Playwright page."""

    def __init__(self, page, *widgets) -> None:
        self.page, self.widgets = page, widgets
        self.errors: list[str] = []
        self.requests: list[str] = []  # that left the page
        self.lose = 0  # so many of the next messages get lost on the way
        self._out: list[list] = [[] for _ in widgets]
        for out, widget in zip(self._out, widgets, strict=True):
            widget.send = lambda content, buffers=None, out=out: out.append(
                (content, bytes(buffers[0]) if buffers else None)
            )
        page.on("console", lambda message: message.type == "error" and self._note(message.text))
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", self._on_request)

    def _note(self, text: str) -> None:
        self.errors.append(text)

    def _on_request(self, request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.requests.append(request.url)

    def start(self, theme: str = "light") -> None:
        self.page.goto(HTML.as_uri())
        self.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        for widget in self.widgets:
            options = {"esm": widget._esm, "css": widget._css, "initial": traits(widget)}
            self.page.evaluate("options => window.page.start(options)", options)
        self.pump()

    def pump(self) -> None:
        """Carry what is waiting, both ways, until nothing is."""
        for i, widget in enumerate(self.widgets):
            self.page.evaluate("([i, now]) => window.page.set(i, now)", [i, traits(widget)])
        for _ in range(5):
            for i, widget in enumerate(self.widgets):
                for content in self.page.evaluate("i => window.page.take(i)", i):
                    widget._handle_custom_msg(content, [])
            if not any(self._out):
                return
            for i in range(len(self.widgets)):
                self._push(i)

    def _push(self, i: int) -> None:
        out = self._out[i][:]
        self._out[i].clear()
        lost, self.lose = min(self.lose, len(out)), max(0, self.lose - len(out))
        packed = [
            [content, None if data is None else base64.b64encode(data).decode()]
            for content, data in out[lost:]
        ]
        if packed:
            self.page.evaluate("([i, messages]) => window.page.push(i, messages)", [i, packed])

    def forget(self) -> None:
        """What was sent while nobody looked is gone."""
        for out in self._out:
            out.clear()

    def painted(self) -> None:
        """Wait until what was pushed is on the canvas."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def check_clean(self) -> None:
        """No error on the console and no request that left the page."""
        assert self.errors == []
        assert self.requests == []


def traits(widget) -> dict:
    """What a widget's view may read."""
    names = [name for name in widget.traits(sync=True) if not name.startswith("_")]
    return {name: getattr(widget, name) for name in names if name not in OF_JUPYTER}
