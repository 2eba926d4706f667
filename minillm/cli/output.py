"""Where a command's words and figures go: text for a person, one JSON object for a program."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from minillm.bench.machine import machine

SCHEMA = 1


def check_writable(path: str) -> None:
    """Raise ValueError if the file can't be written: before a long run, not after it."""
    file = Path(path)
    existed = file.exists()
    try:
        with file.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise ValueError(f"{path} can't be written ({error.strerror}).") from None
    if not existed:
        file.unlink()


class Output:
    """A command's two channels. json_target: a file, - for stdout, None for no JSON.

    With - nothing but the JSON goes to stdout: text takes stderr.
    """

    def __init__(self, command: str, json_target: str | None) -> None:
        self.command = command
        self.json_target = json_target
        self.text: TextIO = sys.stderr if json_target == "-" else sys.stdout
        if json_target not in (None, "-"):
            check_writable(json_target)

    def say(self, text: str = "", end: str = "\n") -> None:
        """Text for the person."""
        print(text, end=end, file=self.text, flush=True)

    def note(self, text: str) -> None:
        """What is good to know but not the answer: always on stderr."""
        print(text, file=sys.stderr, flush=True)

    def write_json(self, data: dict[str, Any]) -> None:
        """The one object: schema, command and machine come first."""
        if self.json_target is None:
            return
        report = {"schema": SCHEMA, "command": self.command, "machine": machine(), **data}
        text = json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)
        if self.json_target == "-":
            print(text, flush=True)
        else:
            Path(self.json_target).write_text(text + "\n", encoding="utf-8")

    @property
    def colour(self) -> bool:
        """Whether text may be coloured: on a terminal, unless NO_COLOR is set (no-color.org)."""
        return self.text.isatty() and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Columns of the terminal, at most 120."""
        return min(shutil.get_terminal_size((100, 24)).columns, 120)

    def table(self, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column is text, the others are figures. With rich if it's there."""
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            self._plain_table([heading, *rows])
            return
        table = Table(box=None, pad_edge=False)
        for index, name in enumerate(heading):
            table.add_column(name, justify="right" if index else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        Console(file=self.text, width=self.width).print(table)

    def _plain_table(self, rows: Sequence[Sequence[str]]) -> None:
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            first, *rest = row
            cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            self.say("  ".join([first.ljust(widths[0]), *cells]).rstrip())
