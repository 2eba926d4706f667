"""Text ↔ token ids: tokenizer, chat template, incremental detokenisation, stop strings.

Uses the `tokenizers` library and jinja2 directly: importing transformers would cost seconds.
Streaming: the deltas of IncrementalDetokenizer, concatenated, are decode(all ids); those of
StopChecker, concatenated, are the text cut at its first stop string, however it was split.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

# Set before the import: its thread pool would warn, or hang, in a forked child. A value that
# the user chose stays.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.decoders import DecodeStream

from minillm.model.config import read_json

_CONTEXT = 8  # ids of a prompt that can change how the next one is decoded
_BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
Message = Mapping[str, str]


class Tokenizer:
    """tokenizer.json of a model folder, with its chat template; a .gguf file's own tokenizer too.

    eos_token_ids: the tokenizer's own end-of-text ids; a model's config may name more.
    """

    def __init__(self, path: str | Path):
        folder = Path(str(path).removeprefix("dummy:"))
        if folder.suffix == ".gguf":
            from minillm.model.gguf_tokenizer import cached_tokenizer_folder

            folder = cached_tokenizer_folder(folder)
        elif folder.is_file():
            folder = folder.parent
        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ValueError(f"{folder} holds no tokenizer.json, so its text can't be tokenised.")
        try:
            self.backend = FastTokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exception
            raise ValueError(f"{file} can't be read as a tokenizer: {error}.") from None
        self.backend.no_truncation()
        self.backend.no_padding()
        settings_file = folder / "tokenizer_config.json"
        settings = read_json(settings_file) if settings_file.is_file() else {}
        self.special_tokens = _special_tokens(settings)
        self.bos_token_id = self._special_id("bos_token")
        self.pad_token_id = self._special_id("pad_token")
        eos = self._special_id("eos_token")
        self.eos_token_ids = frozenset() if eos is None else frozenset([eos])
        self.chat_template = _find_chat_template(folder, settings)
        # Only tokenizers with byte fallback (SentencePiece's) have such tokens.
        ids = map(self.backend.token_to_id, _BYTE_TOKENS)
        self.byte_token_ids = frozenset(i for i in ids if i is not None)

    @property
    def vocab_size(self) -> int:
        """Number of ids, added tokens included."""
        return self.backend.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Ids of a text; BOS comes first only where the tokenizer says so. "" may give []."""
        return self.backend.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """Text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def render_chat(self, messages: Sequence[Message], add_generation_prompt: bool = True) -> str:
        """The prompt as text. messages: [{"role": …, "content": …}]; ValueError if unusable."""
        if self.chat_template is None:
            raise ValueError("This model has no chat template; give it a plain prompt instead.")
        _check_messages(messages)
        try:
            return _template(self.chat_template).render(
                messages=list(messages),
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                **self.special_tokens,
            )
        except TemplateError as error:
            raise ValueError(f"The chat template refuses these messages: {error}.") from None

    def apply_chat_template(
        self, messages: Sequence[Message], add_generation_prompt: bool = True
    ) -> list[int]:
        """Ids of `render_chat`. The template writes BOS itself where there is one."""
        text = self.render_chat(messages, add_generation_prompt)
        return self.encode(text, add_special_tokens=False)

    def _special_id(self, key: str) -> int | None:
        token = self.special_tokens.get(key)
        return None if token is None else self.backend.token_to_id(token)


class IncrementalDetokenizer:
    """Turns ids into text one by one: `push` gives what became certain, `finish` the rest.

    A character whose bytes lie in several tokens comes out when it is complete, so U+FFFD appears
    only for bytes that are truly not UTF-8. prompt_ids: what came before, where a tokenizer joins
    words to it (SentencePiece's leading blank); its text is not given again.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_ids: Sequence[int] = (),
        skip_special_tokens: bool = True,
    ):
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._stream: DecodeStream | None = DecodeStream(skip_special_tokens=skip_special_tokens)
        self._ids: list[int] = []
        self._held_bytes: list[int] = []
        self._length = 0  # characters given so far
        for token_id in prompt_ids[-_CONTEXT:]:
            self.push(token_id)

    def push(self, token_id: int) -> str:
        """The text that this id makes certain; "" inside a character."""
        self._ids.append(token_id)
        if token_id in self._tokenizer.byte_token_ids:
            # A run of byte tokens is decoded as a whole: one bad byte spoils all of them.
            self._held_bytes.append(token_id)
            return ""
        step: int | list[int] = token_id
        if self._held_bytes:
            step, self._held_bytes = [*self._held_bytes, token_id], []
        if self._stream is None:
            return self._rest()
        try:
            delta = self._stream.step(self._tokenizer.backend, step) or ""
        except Exception:  # plain Exception: its window is no prefix any more
            self._stream = None
            return self._rest()
        self._length += len(delta)
        return delta

    def finish(self) -> str:
        """What is still held: complete text, or U+FFFD for a character cut off at the end."""
        return self._rest()

    def _rest(self) -> str:
        text = self._tokenizer.decode(self._ids, self._skip_special_tokens)
        delta = text[self._length :]
        self._length += len(delta)
        return delta


class StopChecker:
    """Cuts streamed text at the first stop string that completes in it.

    Of several, the one that ends first counts, then the longer one: so the result doesn't depend
    on how the text was split. Only a tail that may become a stop string is held back, which is at
    most max(len(stop)) - 1 characters.
    """

    def __init__(self, stop: Sequence[str], include_stop: bool = False):
        if isinstance(stop, str):
            raise ValueError("stop must be a list of strings, not one string.")
        if not all(isinstance(s, str) and s for s in stop):
            raise ValueError("A stop string must be a string of at least one character.")
        self._stop = tuple(stop)
        self._include_stop = include_stop
        self._held = ""
        self.matched: str | None = None  # the stop string found

    def push(self, delta: str) -> tuple[str, bool]:
        """(text that may go out, whether a stop string was found). Nothing comes after one."""
        if self.matched is not None:
            return "", True
        text = self._held + delta
        found = [(text.find(s) + len(s), -len(s), s) for s in self._stop if s in text]
        if found:
            end, _, self.matched = min(found)
            self._held = ""
            return text[: end if self._include_stop else end - len(self.matched)], True
        held = self._possible_head(text)
        self._held = text[len(text) - held :]
        return text[: len(text) - held], False

    def flush(self) -> str:
        """The held text, when generation has ended without a stop string."""
        held, self._held = self._held, ""
        return held

    def _possible_head(self, text: str) -> int:
        """Length of the longest tail of the text with which some stop string begins."""
        longest = 0
        for stop in self._stop:
            start = text.find(stop[0], max(len(text) - len(stop) + 1, 0))
            while start >= 0 and not stop.startswith(text[start:]):
                start = text.find(stop[0], start + 1)
            if start >= 0:
                longest = max(longest, len(text) - start)
        return longest


def _special_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """bos_token, eos_token …: a string, or an object that holds it as `content`."""
    tokens = {}
    for key in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = settings.get(key)
        if isinstance(value, Mapping):
            value = value.get("content")
        if isinstance(value, str):
            tokens[key] = value
    return tokens


def _find_chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """chat_template.jinja, else tokenizer_config's: a text, or named ones ("default" counts)."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template}
        return named.get("default")
    return template


def _template(source: str) -> Any:
    """Compiled in jinja's sandbox: a template comes with the model, so it isn't trusted."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(source)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise ValueError("A chat needs at least one message.")
    for index, message in enumerate(messages):
        fields = message if isinstance(message, Mapping) else {}
        if not all(isinstance(fields.get(key), str) for key in ("role", "content")):
            raise ValueError(f"Message {index} needs a role and a content, both text.")
