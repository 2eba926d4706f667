"""A form of the page's own elements: each with a visible label, keys and a focus ring.

    form = Form([fields.slider("rate", "Arrivals a second", (0, 1, 2))], rate=1)
    form.on_change = lambda name, value: …     # the reader changed a field
    form.on_press = lambda name: …             # a button, or Enter in a text
    form["rate"] = 2                           # from the kernel; calls nobody
    form.turn_off("stop", "Nothing runs.")

Callbacks come on the kernel's thread and must return at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from widgets import assets
from widgets.dashboard import fields as kinds


class Form(anywidget.AnyWidget):
    """fields: of widgets.dashboard.fields. values: by name. off: name → why it does nothing now."""

    _esm = assets.module("shared/dom.js", "dashboard/form.js")
    _css = assets.style("dashboard/dashboard.css")

    title = traitlets.Unicode("Settings").tag(sync=True)
    fields = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    off = traitlets.Dict().tag(sync=True)

    def __init__(self, fields: Sequence[kinds.Field], title: str = "Settings", **values: Any):
        super().__init__(fields=list(fields), values=values, title=title)
        self.on_change: Callable[[str, Any], object] = lambda name, value: None
        self.on_press: Callable[[str], object] = lambda name: None
        self._known = dict(values)
        self._names = kinds.press_names(fields) | {f["name"] for f in fields if f["kind"] == "text"}
        self.observe(self._moved, names="values")
        self.on_msg(self._on_message)

    def __getitem__(self, name: str) -> Any:
        return self._known.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(**{name: value})

    def set(self, **values: Any) -> None:
        """Set fields from the kernel's side; nobody is called."""
        if any(self._known.get(name) != value for name, value in values.items()):
            self._known |= values
            self.values = dict(self._known)

    def turn_off(self, name: str, why: str = "") -> None:
        """Disable a field or a button, with the reason; "" enables it."""
        off = {each: reason for each, reason in self.off.items() if each != name}
        if why:
            off[name] = why
        if off != self.off:
            self.off = off

    def _moved(self, change: dict) -> None:
        found = kinds.changed(self.fields, self._known, change["new"])
        self._known |= found
        for name, value in found.items():
            self.on_change(name, value)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        if not isinstance(content, dict):
            return
        name = content.get("press") or content.get("submit")
        if name in self._names and name not in self.off:
            self.on_press(name)
