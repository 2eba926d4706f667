"""Recorded runs: traces that come with the course, and trace files that somebody brings.

    for recording in recordings():
        print(recording.name, recording.title, recording.device, recording.measured)
    trace = load_recording("chat-continuous").trace
    trace = trace_from_bytes(Path("mine.jsonl.gz").read_bytes())

The course's own lie in minillm/data/recorded: NAME.jsonl.gz is a trace as docs/contracts.md has it,
index.json says in which order they are listed, what each shows and how it was made. They are read
through importlib.resources with the standard library alone, so they also open in a browser tab.
`python -m benchmarks.record` makes them.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from minillm import data
from minillm.core.trace import Trace, TraceHeader
from minillm.core.trace_check import read_trace

FOLDER = "recorded"
GZIP_MARK = b"\x1f\x8b"
GZIP = 16 + zlib.MAX_WBITS  # zlib's way to say: with a gzip header
MOST_BYTES = 32 * 2**20  # of a trace file, unpacked


@dataclass(frozen=True)
class Recording:
    """A run that was recorded. recorded_on: ISO date. source: how it was made, in a sentence.

    header: the trace's own, which says where its figures come from.
    """

    name: str
    title: str
    description: str
    recorded_on: str
    source: str
    header: TraceHeader

    @property
    def device(self) -> str:
        """What computed it, or what it was simulated for."""
        return self.header.device

    @property
    def model(self) -> str:
        return self.header.model

    @property
    def dtype(self) -> str:
        return self.header.dtype

    @property
    def policy(self) -> str:
        return self.header.policy

    @property
    def measured(self) -> bool:
        """Whether its times were measured; else they are the simulator's."""
        return self.header.provenance == "measured"

    @functools.cached_property
    def trace(self) -> Trace:
        """The run, read when it is first asked for; whoever asks gets the same object."""
        return Trace.from_jsonl(_lines(self.name))


@functools.cache
def recordings() -> tuple[Recording, ...]:
    """All recorded runs, in the order in which a course shows them."""
    index = json.loads(data.read_text(f"{FOLDER}/index.json"))
    return tuple(Recording(**entry, header=_header(entry["name"])) for entry in index["recordings"])


def load_recording(name: str) -> Recording:
    """The recorded run of that name. ValueError names those there are."""
    for recording in recordings():
        if recording.name == name:
            return recording
    known = ", ".join(recording.name for recording in recordings())
    raise ValueError(f"There is no recorded run {name!r}: choose one of {known}.")


def trace_from_bytes(content: bytes) -> Trace:
    """The trace in a file's bytes: JSON lines, plain or packed with gzip, or what a server's /trace
    said (`curl -N …/trace > run.txt`): its first header, and all steps and events.

    Raises ValueError in one sentence, with the line's number, for anything that is no trace.
    """
    if not content.strip():
        raise ValueError("The file is empty.")
    packed = content.startswith(GZIP_MARK)
    if len(content) > MOST_BYTES:
        raise ValueError(_too_long(f"{len(content) / 2**20:,.1f}"))
    plain = _unpacked(content) if packed else content
    try:
        text = plain.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = plain[: error.start].count(b"\n") + 1
        raise ValueError(
            f"Line {line} of the trace cannot be read: it is not UTF-8 text "
            f"(byte {error.start:,} of the file is 0x{plain[error.start]:02x})."
        ) from error
    lines = text.split("\n")
    return read_trace(_stream_lines(lines) if _is_stream(lines) else lines)


def trace_to_bytes(trace: Trace) -> bytes:
    """The trace as the bytes of a .jsonl file."""
    return "".join(f"{line}\n" for line in trace.to_jsonl()).encode()


def _is_stream(lines: list[str]) -> bool:
    """Whether these are server-sent events."""
    return lines[0].startswith(("event:", "id:", "data:", ":"))


def _stream_lines(lines: list[str]) -> Iterator[str]:
    """The records in server-sent events; other lines are empty, so that line numbers stay."""
    has_header, kind = False, ""
    for line in lines:
        name, _, value = line.partition(":")
        if name == "event":
            kind = value.strip()
        wanted = kind in ("step", "request") or (kind == "header" and not has_header)
        if name == "data" and wanted:
            has_header = True
            yield value.strip()
        else:
            yield ""


def _unpacked(content: bytes) -> bytes:
    """What gzip packed; a file may hold several packed parts, one after the other."""
    plain = b""
    while content:
        unpacker = zlib.decompressobj(GZIP)
        try:
            plain += unpacker.decompress(content, MOST_BYTES + 1 - len(plain))
        except zlib.error as error:
            raise ValueError(f"The file cannot be unpacked: {error}.") from error
        if len(plain) > MOST_BYTES:
            raise ValueError(_too_long(f"more than {MOST_BYTES // 2**20}"))
        if not unpacker.eof:
            raise ValueError("The file cannot be unpacked: its end is missing.")
        content = unpacker.unused_data.lstrip(b"\0")
    return plain


def _too_long(size: str) -> str:
    return f"The file has {size} MB; a trace of at most {MOST_BYTES // 2**20} MB can be opened."


def _lines(name: str) -> list[str]:
    return _unpacked(data.read_bytes(f"{FOLDER}/{name}.jsonl.gz")).decode().split("\n")


def _header(name: str) -> TraceHeader:
    return Trace.from_jsonl(_lines(name)[:1]).header
