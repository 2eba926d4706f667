"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Put the text in the file's place, so that no reader ever sees half of it. Raises OSError."""
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def reason(error: OSError, path: Path) -> str:
    """Why, and which file: for a sentence."""
    return f"{error.strerror or error} ({path})"
