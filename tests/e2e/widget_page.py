"""Any widget of ours in a plain page: the real widget here, its views in a browser.

No Jupyter: `Page` carries messages and traits to widget_page.html and back.
"""

from __future__ import annotations

import base64
from pathlib import Path

import anywidget

HTML = Path(__file__).with_name("widget_page.html")
INNER = ("layout", "comm", "tooltip", "tabbable", "log", "keys")


class Page:
    """Widgets on a Playwright page. errors: what went to the console; external: what left it."""

    def __init__(self, page, theme: str = "light") -> None:
        self.page = page
        self.errors: list[str] = []
        self.external: list[str] = []
        self._shown: list[tuple[anywidget.AnyWidget, list]] = []
        page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._on_request)
        page.goto(HTML.as_uri())
        self.set_theme(theme)

    def _on_request(self, request) -> None:
        if not request.url.startswith(("data:", "blob:", HTML.as_uri())):
            self.external.append(request.url)

    def set_theme(self, theme: str) -> None:
        self.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)

    def show(self, widget: anywidget.AnyWidget, width: int | None = None) -> None:
        """Open a view of it at the end of the page."""
        out: list = []
        widget.send = lambda content, buffers=None: out.append(
            (content, bytes(buffers[0]) if buffers else None)
        )
        self._shown.append((widget, out))
        self.page.evaluate(
            "options => window.show(options)",
            {"esm": widget._esm, "css": widget._css, "initial": _traits(widget), "width": width},
        )
        self.pump()

    def pump(self) -> None:
        """Carry what is waiting, both ways, until nothing is; then wait until it is painted."""
        for _ in range(5):
            waiting = False
            for number, (widget, out) in enumerate(self._shown):
                said = self.page.evaluate("n => window.widgets[n].take()", number)
                for name, value in said["changed"].items():
                    setattr(widget, name, value)
                for content in said["sent"]:
                    widget._handle_custom_msg(content, [])
                traits = _traits(widget)
                self.page.evaluate(
                    "([n, traits]) => window.widgets[n].fromKernel(traits)", [number, traits]
                )
                packed = [[c, None if d is None else base64.b64encode(d).decode()] for c, d in out]
                out.clear()
                if packed:
                    self.page.evaluate(
                        "([n, all]) => window.widgets[n].push(all)", [number, packed]
                    )
                waiting = waiting or bool(packed or said["sent"])
            if not waiting:
                break
        self.painted()

    def painted(self) -> None:
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def check_clean(self) -> None:
        assert self.errors == []
        assert self.external == []


def _traits(widget: anywidget.AnyWidget) -> dict:
    names = [name for name in widget.keys if not name.startswith("_") and name not in INNER]
    return {name: getattr(widget, name) for name in names}
