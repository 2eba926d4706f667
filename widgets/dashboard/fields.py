"""What a form asks for: its fields as plain data, and whether a value is one of theirs.

Pure Python; widgets.dashboard.form shows them. A field is {"name", "kind", "label", …}, kinds:
choice, range and select (one of `options`: [[value, words]]), text, buttons ([[name, words, look]])
and note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Field = dict[str, Any]
MOST_TEXT = 400


def choice(name: str, label: str, options: Iterable[Any], *, wide: bool = False) -> Field:
    """One of a few, all in view. options: values, or (value, words). wide: side by side."""
    return _chosen("choice", name, label, options) | {"wide": wide}


def select(name: str, label: str, options: Iterable[Any]) -> Field:
    """One of many, in a list that opens."""
    return _chosen("select", name, label, options)


def slider(name: str, label: str, options: Iterable[Any], unit: str = "") -> Field:
    """A slider over these numbers."""
    spaced = f" {unit}" if unit else ""
    return _chosen("range", name, label, ((each, f"{each:,}{spaced}") for each in options))


def text(
    name: str, label: str, placeholder: str = "", *,
    rows: int = 0, most: int = MOST_TEXT, secret: bool = False,
) -> Field:  # fmt: skip
    """A line of text, or `rows` of them; Enter submits it."""
    return {
        "name": name, "kind": "text", "label": label, "placeholder": placeholder, "rows": rows,
        "most": most, "secret": secret,
    }  # fmt: skip


def buttons(name: str, *options: Sequence[str]) -> Field:
    """Buttons in a row: (name, words) or (name, words, "main-button")."""
    return {"name": name, "kind": "buttons", "label": "", "options": [list(o) for o in options]}


def note(name: str) -> Field:
    """A sentence that the kernel sets."""
    return {"name": name, "kind": "note", "label": ""}


def _chosen(kind: str, name: str, label: str, options: Iterable[Any]) -> Field:
    pairs = [list(o) if isinstance(o, tuple) else [o, str(o)] for o in options]
    if not pairs:
        raise ValueError(f"The field {name!r} needs at least one option.")
    return {"name": name, "kind": kind, "label": label, "options": pairs}


def is_fine(field: Mapping[str, Any], value: object) -> bool:
    """Whether the field can have that value: what a browser sends is not believed."""
    if field["kind"] == "text":
        return isinstance(value, str) and len(value) <= field["most"]
    if field["kind"] in ("choice", "select", "range"):
        known = [each for each, _ in field["options"]]
        return any(value == each and type(value) is type(each) for each in known)
    return False


def changed(
    fields: Iterable[Mapping[str, Any]], before: Mapping[str, Any], after: object
) -> dict[str, Any]:
    """The fields whose values differ and may be so."""
    if not isinstance(after, dict):
        return {}
    return {
        field["name"]: after[field["name"]]
        for field in fields
        if field["name"] in after
        and after[field["name"]] != before.get(field["name"])
        and is_fine(field, after[field["name"]])
    }


def press_names(fields: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names of all buttons."""
    return {o[0] for f in fields if f["kind"] == "buttons" for o in f["options"]}
