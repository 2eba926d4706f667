"""A frame of /trace that holds what somebody said: a prompt's beginning, or the tokens of a step.

Whoever may not see it gets the frame all the same: a token stays visible as −1, a prompt as its
length. The frame without any text is made once; most watchers get that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minillm.serve.errors import dump

HIDDEN_TOKEN = -1
Shows = Callable[[str | None], bool]  # nickname → whether that one's text may be seen


def nothing(nickname: str | None) -> bool:
    return False


def everything(nickname: str | None) -> bool:
    return True


class Spoken:
    """head: the frame up to its data. owners: nickname of each row, or of the event alone."""

    __slots__ = ("_hidden", "data", "head", "owners")

    def __init__(self, head: bytes, data: dict[str, Any], owners: Sequence[str | None] | None):
        self.head, self.data, self.owners = head, data, owners or ()
        self._hidden: bytes | None = None

    @property
    def has_text(self) -> bool:
        """Whether the frame differs from watcher to watcher."""
        if "rows" in self.data:
            return any(row[5] is not None for row in self.data["rows"])
        return bool(self.data.get("prompt_preview"))

    def seen(self, shows: Shows) -> bytes:
        """The frame as somebody sees it."""
        visible = [shows(owner) for owner in self.owners]
        if any(visible):
            return self._frame(visible)
        if self._hidden is None:
            self._hidden = self._frame([])
        return self._hidden

    def _frame(self, visible: list[bool]) -> bytes:
        data = self.data
        if "rows" in data:
            shown = visible or [False] * len(data["rows"])
            rows = [
                row if see or row[5] is None else (*row[:5], HIDDEN_TOKEN)
                for row, see in zip(data["rows"], shown, strict=True)
            ]
            data = {**data, "rows": rows}
        elif "prompt_preview" in data and not any(visible):
            data = {**data, "prompt_preview": ""}
        return self.head + dump(data) + b"\n\n"
