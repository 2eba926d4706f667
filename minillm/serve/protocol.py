"""What a client sends: OpenAI's bodies, checked strictly, turned into prompts and SamplingParams.

Fields that change nothing here are ignored; fields that ask for what this server hasn't got are
refused by name. Every refusal is one sentence with the numbers in it.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from minillm.core import EngineConfig, SamplingParams
from minillm.core.door import check_prompt, too_long
from minillm.serve.errors import bad_request

COMPLETION_MAX_TOKENS = 16  # OpenAI's default for /v1/completions
MAX_SHOWN = 60  # characters of a wrong value that an error repeats
MAX_NICKNAME = 40


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)

    include_usage: bool = False


class Body(BaseModel):
    """What both endpoints understand. Beyond OpenAI: vLLM's fields, and deadline_s.

    deadline_s: seconds that the request may wait to be admitted; then it is answered with 503.
    user: shown beside the request in a live timeline.
    """

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    min_tokens: int = 0
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    priority: int = 0
    cache_salt: str | None = None
    deadline_s: float | None = None
    # Not here: refused where they would change the answer.
    n: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None

    @property
    def wanted_tokens(self) -> int | None:
        return self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """How many alternatives a token's logprobs shall name; None: no logprobs."""
        raise NotImplementedError

    def refuse_what_is_not_here(self) -> None:
        """Raise ApiError for a field whose value asks for something this server has not got."""
        _only("n", self.n, (None, 1), "one completion a prompt")
        for name in ("presence_penalty", "frequency_penalty"):
            _only(name, getattr(self, name), (None, 0), "repetition_penalty instead")
        _only("logit_bias", self.logit_bias, (None, {}), "no bias")
        if self.stream_options is not None and not self.stream:
            raise bad_request("stream_options is for stream=true only.", "stream_options")
        if self.deadline_s is not None and not 0 < self.deadline_s < 86_400:
            raise bad_request(
                f"deadline_s must lie between 0 and 86400 seconds, got {self.deadline_s!r}.",
                "deadline_s",
            )

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def nickname(self) -> str | None:
        return self.user[:MAX_NICKNAME] if self.user else None

    def sampling_params(self, max_tokens: int) -> SamplingParams:
        """Raises ApiError, naming the field, for a value out of range."""
        chosen = {
            name: value
            for name in ("top_p", "top_k", "min_p", "repetition_penalty", "seed")
            if (value := getattr(self, name)) is not None
        }
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        try:
            return SamplingParams(
                max_tokens=max_tokens,
                temperature=1.0 if self.temperature is None else self.temperature,
                stop=stop, stop_token_ids=tuple(self.stop_token_ids or ()),
                ignore_eos=self.ignore_eos, min_tokens=self.min_tokens,
                logprobs=self.top_logprobs_wanted, **chosen,
            )  # fmt: skip
        except ValueError as error:
            fields = type(self).model_fields
            named = (word for word in re.findall(r"\w+", str(error)) if word in fields)
            raise bad_request(str(error), next(named, None)) from None


class CompletionBody(Body):
    """POST /v1/completions."""

    prompt: Any = None
    logprobs: int | None = None
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = None

    @property
    def top_logprobs_wanted(self) -> int | None:
        return self.logprobs

    def refuse_what_is_not_here(self) -> None:
        super().refuse_what_is_not_here()
        _only("echo", self.echo, (None, False), "the completion alone")
        _only("suffix", self.suffix, (None, ""), "no suffix")
        _only("best_of", self.best_of, (None, 1), "one completion a prompt")

    def prompts(self) -> list[str | list[int]]:
        """A text, a list of them, token ids, or a list of those: always as a list of prompts."""
        value = self.prompt
        if isinstance(value, str):
            return [value]
        if isinstance(value, list) and value:
            if all(isinstance(part, str) for part in value):
                return value
            if _are_ids(value):
                return [value]
            if all(isinstance(part, list) and _are_ids(part) for part in value):
                return value
        if value in ([], None):
            raise bad_request("The prompt is empty: it needs at least 1 token.", "prompt")
        raise bad_request(
            "prompt must be a text, a list of texts, a list of token ids, or a list of such lists, "
            f"got {_shown(value)}.",
            "prompt",
        )


class ChatBody(Body):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = False
    top_logprobs: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[Any] | None = None

    @property
    def wanted_tokens(self) -> int | None:
        given = self.max_completion_tokens
        return self.max_tokens if given is None else given

    @property
    def top_logprobs_wanted(self) -> int | None:
        return (self.top_logprobs or 0) if self.logprobs else None

    def refuse_what_is_not_here(self) -> None:
        super().refuse_what_is_not_here()
        kind = (self.response_format or {}).get("type")
        _only("response_format", kind, (None, "text"), "plain text")
        _only("tools", self.tools, (None, []), "no tools")
        if self.top_logprobs is not None and not self.logprobs:
            raise bad_request("top_logprobs is for logprobs=true only.", "top_logprobs")

    def conversation(self) -> list[dict[str, str]]:
        """The messages as the chat template wants them: roles and texts."""
        if not self.messages:
            raise bad_request("messages is empty: a chat needs at least one message.", "messages")
        return [_message(index, message) for index, message in enumerate(self.messages)]


class DetokenizeBody(BaseModel):
    """POST /detokenize, as vLLM has it."""

    model_config = ConfigDict(strict=True, extra="ignore")

    model: str | None = None
    tokens: list[int]


def parse(kind: type[Body], raw: bytes) -> Any:
    """A body of that kind. Raises ApiError 400 that names the first field that is wrong."""
    body = check(kind, raw)
    body.refuse_what_is_not_here()
    return body


def check(kind: type[BaseModel], raw: bytes) -> Any:
    """The JSON as an object of that kind. Raises ApiError 400, naming the first wrong field."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        _refuse(error)


def fit(body: Body, prompt: list[int], config: EngineConfig, default_max: int | None) -> int:
    """max_tokens for a prompt that fits. Raises ApiError 400 with the numbers for one that can't.

    default_max: where the client names none; None is all the room there is.
    """
    room = config.max_len - len(prompt)
    if room < 1:
        code = "context_length_exceeded"
        raise bad_request(too_long(len(prompt), config), "prompt", code)
    try:
        check_prompt(prompt, config.vocab_size)
    except ValueError as error:
        raise bad_request(str(error), "prompt") from None
    wanted = body.wanted_tokens
    if wanted is None:
        return room if default_max is None else min(default_max, room)
    if wanted > room:
        together = len(prompt) + wanted
        raise bad_request(
            f"The prompt has {len(prompt)} tokens and max_tokens is {wanted}, {together} together, "
            f"but a request can have {config.max_len} tokens in all.",
            "max_tokens",
            "context_length_exceeded",
        )
    return wanted


def _refuse(error: ValidationError) -> NoReturn:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    message = first["msg"].rstrip(".")
    if first["type"] == "json_invalid":
        raise bad_request(f"The body is not JSON: {message}.") from None
    if first["type"] == "missing":
        raise bad_request(f"{where} is missing.", where) from None
    if not where:
        raise bad_request(f"The body must be a JSON object, got {_shown(first['input'])}.")
    got = _shown(first["input"])
    raise bad_request(f"{where}: {message}, got {got}.", where.split(".")[0]) from None


def _message(index: int, message: dict[str, Any]) -> dict[str, str]:
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise bad_request(f"messages.{index}.role must be a text, got {_shown(role)}.", "messages")
    if isinstance(content, list):
        content = "".join(_text_part(index, part) for part in content)
    if not isinstance(content, str):
        raise bad_request(
            f"messages.{index}.content must be a text, got {_shown(content)}.", "messages"
        )
    return {"role": role, "content": content}


def _text_part(index: int, part: Any) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise bad_request(
            f"messages.{index}.content: this model reads text alone, got {_shown(part)}.",
            "messages",
        )
    return text


def _only(name: str, value: Any, allowed: tuple, instead: str) -> None:
    if value not in allowed:
        raise bad_request(f"{name}={_shown(value)} is not supported: {instead}.", name)


def _are_ids(value: list[Any]) -> bool:
    return bool(value) and all(type(part) is int for part in value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
