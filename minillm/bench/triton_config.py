"""Triton's dynamic batching settings, read from a model's config.pbtxt, in this engine's terms.

    found = parse_triton(text)            # the file, or the part of it that is about batching
    llm.new_engine("dynamic", **found.settings)

The fields are those of Triton's model_config.proto (ModelConfig.max_batch_size and
ModelDynamicBatching); protobuf's text format is read as far as such a file uses it: fields,
messages, lists, strings, numbers, comments. Nothing else of the file matters here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

BATCHING = "dynamic_batching"
WITHOUT_COUNTERPART = (
    "preserve_ordering", "priority_levels", "default_priority_level", "default_queue_policy",
    "priority_queue_policy",
)  # fmt: skip
FIELDS = ("preferred_batch_size", "max_queue_delay_microseconds", *WITHOUT_COUNTERPART)
MAX_DEPTH = 32
TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*)|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>-?\d[\w.+-]*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[{}\[\]:,;])"""
)
Message = dict[str, list]  # field → its values, in order; a message in a field is a Message


@dataclass(frozen=True, slots=True)
class TritonBatching:
    """What a config says about batching, under Triton's names.

    ignored: fields of dynamic_batching that this engine has no counterpart for.
    """

    max_batch_size: int
    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int = 0
    ignored: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, object]:
        """The same as fields of SchedulerConfig, for the policy "dynamic"."""
        return {
            "max_num_seqs": self.max_batch_size,
            "preferred_batch_sizes": self.preferred_batch_size,
            "max_queue_delay_s": self.max_queue_delay_microseconds / 1e6,
        }

    @property
    def text(self) -> str:
        """A config.pbtxt that says just this."""
        lines = [f"max_batch_size: {self.max_batch_size}", f"{BATCHING} {{"]
        if self.preferred_batch_size:
            sizes = ", ".join(map(str, self.preferred_batch_size))
            lines.append(f"  preferred_batch_size: [ {sizes} ]")
        lines += [f"  max_queue_delay_microseconds: {self.max_queue_delay_microseconds}", "}"]
        return "\n".join(lines)


def parse_triton(text: str) -> TritonBatching:
    """Read a config. Raises ValueError, in one sentence, for what Triton would refuse as well."""
    config = parse_text_format(text)
    size = _number(config, "max_batch_size", 0)
    if BATCHING not in config:
        names = ", ".join(config) or "nothing"
        raise ValueError(f"There is no {BATCHING} {{ … }} in it (found: {names}): no batching.")
    if size < 1:
        raise ValueError(f"{BATCHING} needs max_batch_size ≥ 1, got {size}: 0 means no batching.")
    batching = _single(config, BATCHING)
    if not isinstance(batching, dict):
        raise ValueError(f"{BATCHING} is a message: write {BATCHING} {{ … }}, got {batching!r}.")
    for name in batching:
        if name not in FIELDS:
            raise ValueError(f"{BATCHING} has no field {name!r}: choose of {', '.join(FIELDS)}.")
    preferred = tuple(batching.get("preferred_batch_size", ()))
    for each in preferred:
        if isinstance(each, bool) or not isinstance(each, int) or not 1 <= each <= size:
            raise ValueError(f"preferred_batch_size must be 1 to {size} (max_batch_size): {each}.")
    delay = _number(batching, "max_queue_delay_microseconds", 0)
    ignored = tuple(name for name in batching if name in WITHOUT_COUNTERPART)
    return TritonBatching(size, tuple(sorted(set(preferred))), delay, ignored)


def _number(message: Message, name: str, default: int) -> int:
    value = _single(message, name) if name in message else default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number ≥ 0, got {value!r}.")
    return value


def _single(message: Message, name: str) -> object:
    values = message[name]
    if len(values) != 1:
        raise ValueError(f"{name} is given {len(values)} times: once is right.")
    return values[0]


# ── protobuf's text format ──────────────────────────────────────────────────────────────────


def parse_text_format(text: str) -> Message:
    """All fields of a message in protobuf's text format. Raises ValueError naming the line."""
    return _Reader(text).message(end="")


class _Reader:
    """Tokens one by one: kind, what it says, its line."""

    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._ahead = next(self._tokens)
        self._depth = 0

    def _split(self, text: str) -> Iterator[tuple[str, str, int]]:
        place, line = 0, 1
        while place < len(text):
            found = TOKEN.match(text, place)
            if found is None:
                rest = text[place:].splitlines()[0][:20]
                raise ValueError(f"Line {line} of the config cannot be read at {rest!r}.")
            if found.lastgroup != "skip":
                yield found.lastgroup, found[0], line
            line += found[0].count("\n")
            place = found.end()
        yield "end", "", line

    def _next(self) -> tuple[str, str, int]:
        now = self._ahead
        self._ahead = next(self._tokens, now)  # the last one stays: it is the end
        return now

    def _take(self, sign: str) -> bool:
        if self._ahead[:2] == ("sign", sign):
            self._next()
            return True
        return False

    def _wrong(self, expected: str) -> ValueError:
        _, said, line = self._ahead
        got = repr(said) if said else "the end"
        return ValueError(f"Line {line} of the config: expected {expected}, got {got}.")

    def message(self, end: str) -> Message:
        """Fields up to the closing sign, or to the end of the text."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"The config is nested more than {MAX_DEPTH} deep.")
        fields: Message = {}
        while not (self._ahead[0] == "end" if not end else self._take(end)):
            kind, name, _ = self._ahead
            if kind != "name":
                raise self._wrong(f"a field's name or {end!r}" if end else "a field's name")
            self._next()
            colon = self._take(":")
            if self._take("["):
                values = self._list()
            elif colon or self._ahead[1] == "{":
                values = [self._value()]
            else:
                raise self._wrong("':' or '{'")
            fields.setdefault(name, []).extend(values)
            self._take(",") or self._take(";")
        self._depth -= 1
        return fields

    def _list(self) -> list:
        values: list = []
        while not self._take("]"):
            values.append(self._value())
            if not self._take(",") and self._ahead[:2] != ("sign", "]"):
                raise self._wrong("',' or ']'")
        return values

    def _value(self) -> object:
        kind, said, _ = self._ahead
        if self._take("{"):
            return self.message("}")
        if kind not in ("text", "number", "name"):
            raise self._wrong("a value")
        self._next()
        if kind == "number":
            for read in (int, float):
                try:
                    return read(said)
                except ValueError:
                    continue
        if kind == "name" and said in ("true", "false"):
            return said == "true"
        return said[1:-1] if kind == "text" else said
