"""Server-sent events out of bytes as they come off the wire, however they are cut.

Follows the event stream grammar of the HTML standard: lines end in \\r\\n, \\n or \\r, a blank line
ends an event, lines that start with a colon are comments. Own code because a load generator needs
each event at the moment its bytes arrive, and must not trust the sender.
"""

from __future__ import annotations

import re

MAX_EVENT = 4 << 20  # bytes; a server that never ends a line must not fill the memory

_LINE_END = re.compile(rb"\r\n|\n|\r")


class SSEParser:
    """feed(bytes) returns the data of the events that these bytes completed.

    last_id: the id of the last completed event that had one, "" before: for Last-Event-ID.
    Raises ValueError for an event above MAX_EVENT bytes or text that is not UTF-8.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0  # bytes of the buffer in which no line ends
        self._skip_newline = False  # the last line ended in \r: a \n that follows belongs to it
        self._data: list[bytes] = []
        self._size = 0
        self.num_comments = 0
        self.last_id = self._id = ""

    def feed(self, data: bytes) -> list[str]:
        self._buffer += data
        if self._skip_newline and self._buffer:
            self._skip_newline = False
            if self._buffer[0] == ord("\n"):
                del self._buffer[0]
        events, start = [], 0
        for match in _LINE_END.finditer(self._buffer, self._scanned):
            self._line(bytes(self._buffer[start : match.start()]), events)
            start = match.end()
        if start:
            self._skip_newline = self._buffer[start - 1 : start] == b"\r" and start == len(
                self._buffer
            )
            del self._buffer[:start]
        self._scanned = len(self._buffer)
        if self._size + self._scanned > MAX_EVENT:
            raise ValueError(f"one event has more than {MAX_EVENT} bytes")
        return events

    def close(self) -> list[str]:
        """The stream has ended: an event whose closing blank line is missing still counts."""
        events: list[str] = []
        if self._buffer:
            self._line(bytes(self._buffer), events)
        self._line(b"", events)
        self._buffer.clear()
        return events

    def _line(self, line: bytes, events: list[str]) -> None:
        if not line:
            self.last_id = self._id
            if self._data:
                text = b"\n".join(self._data)
                self._data, self._size = [], 0
                events.append(text.decode("utf-8"))
            return
        if line.startswith(b":"):
            self.num_comments += 1
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)
        elif field == b"id" and b"\0" not in value:
            self._id = value.removeprefix(b" ").decode("utf-8")
