"""Widgets in a plain page: the real ones here, their views in a browser.

No Jupyter: `WidgetPage` carries messages and traits to widget_page.html and back. There
`window.views[i]` is the newest view of widget i, `window.view` the newest of all, and
`window.widgets[i]` has its `views`, `view()` for one more and `listeners()`.
"""

from __future__ import annotations

import base64
from pathlib import Path

import anywidget

HTML = Path(__file__).with_name("widget_page.html")
OF_JUPYTER = {"comm", "keys", "layout", "log", "tabbable", "tooltip"}


class WidgetPage:
    """Widgets on a Playwright page. errors: what went to the console; external: what left it.

    lose: so many of the next messages get lost on the way.
    """

    def __init__(self, page, *widgets: anywidget.AnyWidget, theme: str = "light") -> None:
        self.page = page
        self.widgets: list[anywidget.AnyWidget] = []
        self.errors: list[str] = []
        self.external: list[str] = []
        self.lose = 0
        self._out: list[list] = []
        self._told: list[dict] = []  # the traits that each widget's views know
        page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._on_request)
        page.goto(HTML.as_uri())
        self.set_theme(theme)
        for widget in widgets:
            self.show(widget)

    def _on_request(self, request) -> None:
        if not request.url.startswith(("data:", "blob:", HTML.as_uri())):
            self.external.append(request.url)

    def set_theme(self, theme: str) -> None:
        self.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)

    def show(self, widget: anywidget.AnyWidget, width: int | None = None) -> None:
        """Open a view of it at the end of the page; what it sent before is gone."""
        out: list = []
        widget.send = lambda content, buffers=None: out.append(
            (content, bytes(buffers[0]) if buffers else None)
        )
        self.widgets.append(widget)
        self._out.append(out)
        self._told.append(traits(widget))
        self.page.evaluate(
            "options => window.show(options)",
            {"esm": widget._esm, "css": widget._css, "initial": self._told[-1], "width": width},
        )
        self.pump()

    def view(self, number: int = 0) -> None:
        """One more view of a widget."""
        self.page.evaluate("n => window.widgets[n].view()", number)
        self.pump()

    def close(self, number: int = 0, view: int = -1) -> None:
        """Close a view of a widget."""
        self.page.evaluate("([n, v]) => window.widgets[n].views.at(v).close()", [number, view])

    def pump(self, *, wait: bool = True) -> None:
        """Carry what is waiting, both ways, until nothing is; wait: until it is painted."""
        for _ in range(5):
            said = [self._carry(number) for number in range(len(self.widgets))]
            if not any(said):
                break
        if wait:
            self.painted()

    def _carry(self, number: int) -> bool:
        """What a widget's views say, then what it has to say; whether there was anything."""
        widget = self.widgets[number]
        said = self.page.evaluate("n => window.widgets[n].take()", number)
        for name, value in said["changed"].items():
            setattr(widget, name, value)
        for content, parts in said["sent"]:
            widget._handle_custom_msg(content, [base64.b64decode(part) for part in parts])
        now = traits(widget)
        if now != self._told[number] or said["changed"]:
            self._told[number] = now
            self.page.evaluate(
                "([n, traits]) => window.widgets[n].fromKernel(traits)", [number, now]
            )
        out = self._out[number][:]
        self._out[number].clear()
        lost, self.lose = min(self.lose, len(out)), max(0, self.lose - len(out))
        packed = [
            [content, None if data is None else base64.b64encode(data).decode()]
            for content, data in out[lost:]
        ]
        if packed:
            self.page.evaluate("([n, all]) => window.widgets[n].push(all)", [number, packed])
        return bool(out or said["sent"])

    def painted(self) -> None:
        """Wait until what came is on the canvas."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def check_clean(self) -> None:
        """No error on the console and no request that left the page."""
        assert self.errors == []
        assert self.external == []


def traits(widget: anywidget.AnyWidget) -> dict:
    """What a widget's view may read."""
    names = [name for name in widget.traits(sync=True) if not name.startswith("_")]
    return {name: getattr(widget, name) for name in names if name not in OF_JUPYTER}
