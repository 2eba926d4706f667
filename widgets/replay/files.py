"""Files on their way between the page and the kernel, in parts. No ipywidgets here.

A page's message may have at most 10 MB, and a Jupyter server drops a kernel's beyond 1 MB a second:
so files travel packed and in parts, those to the page one at a time, when it asks for the next.
"""

from __future__ import annotations

import gzip
import itertools
from dataclasses import dataclass

from minillm.recordings import MOST_BYTES

PART = 256 * 1024  # bytes
KEEP = 4  # downloads that pages may still ask for


@dataclass(slots=True)
class _Coming:
    number: int
    name: str
    size: int
    content: bytearray


class Upload:
    """Takes one file at a time; a new one replaces one that never came to its end."""

    def __init__(self) -> None:
        self._coming: _Coming | None = None

    def begin(self, number: object, name: object, size: object) -> None:
        """A file of so many bytes, as sent (perhaps packed), is coming. ValueError if too long."""
        self._coming = None
        if not (isinstance(size, int) and isinstance(name, str) and isinstance(number, int)):
            raise ValueError("The page announced no file that can be taken.")
        if not 0 < size <= MOST_BYTES:
            most = f"a file of up to {MOST_BYTES // 2**20} MB can be opened"
            raise ValueError(f"{name} has {size / 2**20:,.1f} MB; {most}, and no empty one.")
        self._coming = _Coming(number, name, size, bytearray())

    def add(self, number: object, part: bytes) -> tuple[str, bytes] | None:
        """The next part; (name, content) once the file is whole. Parts of others are dropped."""
        coming = self._coming
        if coming is None or coming.number != number:
            return None
        coming.content += part
        if len(coming.content) < coming.size:
            return None
        self._coming = None
        return coming.name, bytes(coming.content[: coming.size])


class Downloads:
    """Files that the page may fetch, the newest few."""

    def __init__(self) -> None:
        self._files: dict[int, bytes] = {}
        self._numbers = itertools.count(1)

    def offer(self, name: str, mime: str, content: bytes) -> dict:
        """The message that tells the page of a file: {"kind": "file", "number", "parts", …}."""
        number = next(self._numbers)
        packed = gzip.compress(content, compresslevel=6, mtime=0)
        self._files[number] = packed
        while len(self._files) > KEEP:
            del self._files[next(iter(self._files))]
        parts = -(-len(packed) // PART)
        return {"kind": "file", "number": number, "name": name, "mime": mime, "parts": parts}

    def part(self, number: object, part: object) -> tuple[dict, bytes] | None:
        """Part `part` (from 0) of a file, None for one that is not kept."""
        packed = self._files.get(number) if isinstance(number, int) else None
        if packed is None or not isinstance(part, int) or not 0 <= part * PART < len(packed):
            return None
        data = packed[part * PART : (part + 1) * PART]
        return {"kind": "part", "number": number, "part": part}, data
