"""What one app serves: an LLM behind an AsyncEngine, its metrics and its trace, and the rules."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import asdict, dataclass, replace

from minillm.core import LLMEngine, Runner, SchedulerConfig
from minillm.core.door import check_prompt
from minillm.core.trace import Record, TraceHeader
from minillm.llm import LLM
from minillm.llm.simulated import on_another_gpu
from minillm.serve.async_engine import AsyncEngine
from minillm.serve.class_tally import ClassTally
from minillm.serve.classroom import Classroom
from minillm.serve.errors import ApiError, bad_request
from minillm.serve.job import Prompt
from minillm.serve.live_engine import serving_engine
from minillm.serve.metrics import ServerMetrics
from minillm.serve.protocol import COMPLETION_MAX_TOKENS, Body, fit
from minillm.serve.trace_stream import TraceRing

LONG_TEXT = 4000  # characters: longer texts are tokenised beside the event loop


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server meets its clients. Sizes in requests and bytes, times in seconds.

    deadline_s: how long a request may wait to be admitted, unless it says so itself.
    classroom: its members' keys, instead of api_keys.
    """

    api_keys: tuple[str, ...] = ()
    served_model_name: str | None = None
    max_queue_size: int | None = 256
    deadline_s: float | None = None
    trace_text: bool = False
    classroom: Classroom | None = None
    max_body_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if self.max_queue_size is not None and self.max_queue_size < 1:
            raise ValueError(f"max_queue_size must be at least 1, got {self.max_queue_size}.")
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise ValueError(f"deadline_s must be above 0, got {self.deadline_s}.")
        if not all(key.strip() for key in self.api_keys):
            raise ValueError("An API key must not be empty.")

    @property
    def guarded(self) -> bool:
        """Whether one needs a key to get in."""
        return bool(self.api_keys) or self.classroom is not None


class Service:
    """The parts of one app, wired together. engine: from serving_engine; None makes one."""

    def __init__(
        self, llm: LLM, engine: LLMEngine | None = None, settings: ServerSettings | None = None
    ) -> None:
        self.llm = llm
        self.settings = settings = settings or ServerSettings()
        engine = engine or serving_engine(llm)
        self.config = engine.config
        self.model_name = settings.served_model_name or llm.info.model.partition(" (")[0]
        self.started_unix = time.time()
        self._header = engine.trace.header
        self.metrics = ServerMetrics(engine, self.model_name)
        in_class = settings.classroom is not None
        self.trace = TraceRing(
            self.trace_header, lambda: self.engine.now(), private=in_class or settings.trace_text
        )
        # A real device's memory was measured with this budget; a simulated one has no such limit.
        budget = engine.scheduler.config.max_num_batched_tokens
        self.chunk_budget = budget  # of the last limits with chunked prefill
        self.most_tokens = budget if engine.runner.info.provenance == "measured" else None
        self.tally = ClassTally() if in_class else None
        self._announced = engine.scheduler
        self.engine = AsyncEngine(
            llm, engine, max_queue_size=settings.max_queue_size,
            on_records=self._take_records, on_step=self.trace.notify,
        )  # fmt: skip
        self.metrics.waiting.set_function(lambda: self.engine.num_waiting)

    def trace_header(self) -> TraceHeader:
        """The trace's header as of now: the policy or the device may be another than at first."""
        engine = self.engine.engine
        scheduler, info = engine.scheduler, engine.runner.info
        return replace(
            self._header, device=info.device, policy=scheduler.name,
            config=asdict(scheduler.config),
        )  # fmt: skip

    def _take_records(self, records: list[Record]) -> bool:
        self.metrics.take(records)
        self.trace.add(records)
        if self.tally is not None:
            self.tally.take(records)
        self.announce()
        return self.trace.num_watchers > 0

    def announce(self) -> None:
        """Tell the trace's watchers when another scheduler has taken over."""
        scheduler = self.engine.engine.scheduler
        if scheduler is not self._announced:
            self._announced = scheduler
            self.trace.announce()

    def note_limits(self, limits: SchedulerConfig) -> None:
        """Remember the token budget, for when chunked prefill is switched off and on again."""
        if limits.enable_chunked_prefill:
            self.chunk_budget = limits.max_num_batched_tokens

    def on_another_gpu(self, name: str) -> Runner:
        """The simulated model on the GPU of that name. Raises ValueError, in one sentence."""
        return on_another_gpu(self.llm.runner, name, self.config.cache)

    def check_model(self, name: str | None) -> None:
        """Raise ApiError 404 for a model that is not the one served here; none named is fine."""
        if name is not None and name != self.model_name:
            raise ApiError(
                404, f"The model {name[:80]!r} is not served here; {self.model_name!r} is.",
                param="model", code="model_not_found",
            )  # fmt: skip

    async def text_prompts(self, body: Body, prompts: list[str | list[int]]) -> list[Prompt]:
        """The prompts of /v1/completions, tokenised and checked. Raises ApiError 400."""
        capacity = self.capacity
        if capacity is not None and len(prompts) > capacity:
            raise bad_request(
                f"There are {len(prompts)} prompts in one call, but {capacity} fit into slots "
                f"and queue.",
                "prompt",
            )
        made = []
        for prompt in prompts:
            text = prompt if isinstance(prompt, str) else ""
            ids = await self._encode(prompt, len(text)) if text else list(prompt)
            made.append(self._prompt(body, ids, text, COMPLETION_MAX_TOKENS))
        return made

    async def chat_prompt(self, body: Body, messages: list[dict[str, str]]) -> Prompt:
        """The prompt of a conversation. Raises ApiError 400."""
        size = sum(len(message["content"]) for message in messages)
        ids = await self._encode(messages, size)
        return self._prompt(body, ids, messages[-1]["content"], None)

    @property
    def capacity(self) -> int | None:
        """Requests that can be in the server at once: slots and queue."""
        limit = self.settings.max_queue_size
        return None if limit is None else limit + self.engine.engine.scheduler.config.max_num_seqs

    def text_of(self, token_ids: list[int]) -> str:
        """The text of these tokens. Raises ApiError 400 for an id that is none."""
        if not token_ids:
            return ""
        try:
            check_prompt(token_ids, self.config.vocab_size)
        except ValueError as error:
            raise bad_request(str(error), "tokens") from None
        return self.llm.tokenizer.decode(token_ids)

    def token_text(self, token_id: int) -> str:
        """One token's own text, for logprobs."""
        return self.llm.tokenizer.decode([token_id])

    async def _encode(self, prompt: str | list[dict[str, str]], num_characters: int) -> list[int]:
        try:
            if num_characters <= LONG_TEXT:
                return self.llm.encode(prompt)
            return await asyncio.to_thread(self.llm.encode, prompt)
        except (ValueError, TypeError) as error:
            raise bad_request(f"The prompt can't be tokenised: {error}") from None

    def _prompt(self, body: Body, ids: list[int], text: str, default_max: int | None) -> Prompt:
        max_tokens = fit(body, ids, self.config, default_max)
        return Prompt(ids, body.sampling_params(max_tokens), text[:80])
