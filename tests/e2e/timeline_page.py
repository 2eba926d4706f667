"""A timeline in a plain page: the real widget here, its view in a browser.

No Jupyter: `Wire` carries the widget's messages and traits to timeline_page.html and the view's
messages back.
"""

from __future__ import annotations

import base64
from pathlib import Path

from widgets.timeline import Timeline

HTML = Path(__file__).with_name("timeline_page.html")
TRAITS = (
    "lanes", "titles", "subtitles", "height", "expected_requests", "headline", "subtitle", "notes",
    "stale_message", "frozen", "cursor_name",
)  # fmt: skip


class Wire:
    """A Timeline whose messages go to a Playwright page."""

    def __init__(self, timeline: Timeline, page) -> None:
        self.timeline, self.page = timeline, page
        self.errors: list[str] = []
        self.lose = 0  # so many of the next messages get lost on the way
        self._out: list[tuple[dict, bytes | None]] = []
        timeline.send = self._send
        page.on("console", lambda message: message.type == "error" and self._note(message.text))
        page.on("pageerror", lambda error: self._note(str(error)))

    def _note(self, text: str) -> None:
        self.errors.append(text)

    def _send(self, content: dict, buffers: list[bytes] | None = None) -> None:
        self._out.append((content, bytes(buffers[0]) if buffers else None))

    def start(self, theme: str = "light") -> None:
        self.page.goto(HTML.as_uri())
        self.page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        self.page.evaluate(
            "options => window.page.start(options)",
            {"esm": self.timeline._esm, "css": self.timeline._css,
             "initial": self._traits()},
        )  # fmt: skip
        self.pump()

    def _traits(self) -> dict:
        return {name: getattr(self.timeline, name) for name in TRAITS}

    def pump(self) -> None:
        """Carry what is waiting, both ways, until nothing is."""
        self.page.evaluate("changes => window.page.set(changes)", self._traits())
        for _ in range(5):
            for content in self.page.evaluate("() => window.page.take()"):
                self.timeline._handle_custom_msg(content, [])
            if not self._out:
                return
            out, self._out = self._out, []
            lost, self.lose = min(self.lose, len(out)), max(0, self.lose - len(out))
            packed = [
                [content, None if data is None else base64.b64encode(data).decode()]
                for content, data in out[lost:]
            ]
            self.page.evaluate("messages => window.page.push(messages)", packed)

    def painted(self) -> None:
        """Wait until what was pushed is on the canvas."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
