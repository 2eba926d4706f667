"""The composition root: a name becomes a model, a runner, a tokenizer and engines upon them.

    llm = LLM()                                   # the default model on this machine
    for piece in llm.stream("The sky is"):
        print(piece, end="")
    engine = llm.new_engine("static")             # the same weights under another policy

Not for several threads at once, except through engines that each have a driver of their own.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from minillm.core import (
    CacheConfig,
    EngineConfig,
    LLMEngine,
    Runner,
    SamplingParams,
    Trace,
    drive,
)
from minillm.llm.settings import CPU_BUDGET, GPU_BUDGET, Policy, check_policy, scheduler_config
from minillm.llm.shared_runner import SharedRunner
from minillm.llm.simulated import PseudoDetokenizer, PseudoTokenizer
from minillm.llm.text import Completion, Message, Prompt, TextStream, is_one_prompt

if TYPE_CHECKING:
    from minillm.sim import SimulatedRunner
    from minillm.sim.runner import StepCost

GiB = 1 << 30
CACHE_SETTINGS = ("num_blocks", "enable_prefix_caching")


class LLM:
    """A loaded model and what serves it. Settings have vLLM's names; sizes in bytes or tokens.

    model: a folder with safetensors, a .gguf file, a hub id, or `dummy:PATH` (random weights);
    None: the environment's MINILLM_MODEL, else the default model, which is fetched once.
    max_num_batched_tokens: None is 512 on a CPU and 2,048 on a GPU; without chunked prefill at
    least max_model_len. num_blocks: None takes what the memory gives. threads: None is
    OMP_NUM_THREADS, else the physical cores. tensor_parallel_size, pipeline_parallel_size: split
    over so many worker processes (their product). enforce_eager: no CUDA graphs. Raises ValueError,
    in one sentence, for what can't be.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        device: str = "auto",
        dtype: str = "auto",
        policy: Policy = "continuous",
        max_num_seqs: int = 8,
        max_num_batched_tokens: int | None = None,
        enable_chunked_prefill: bool = True,
        max_model_len: int | None = None,
        block_size: int = 16,
        num_blocks: int | None = None,
        kv_cache_memory: int = GiB,
        gpu_memory_utilization: float = 0.9,
        enable_prefix_caching: bool = True,
        threads: int | None = None,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        enforce_eager: bool = False,
        poison: bool = False,
    ) -> None:
        check_policy(policy)
        from minillm.model import devices, loader
        from minillm.model.parallel import load_runner
        from minillm.model.tokenizer import Tokenizer

        # What can be refused is refused before the weights are read.
        chosen = devices.choose_device(device)
        devices.choose_dtype(dtype, chosen)
        source = loader.resolve_model(model)
        model_config = loader.load_config(source)
        limit = model_config.max_position_embeddings
        scheduler = scheduler_config(
            CPU_BUDGET if chosen.type == "cpu" else GPU_BUDGET,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            enable_chunked_prefill=enable_chunked_prefill,
            max_model_len=limit if max_model_len is None else max_model_len,
        )
        tokenizer = Tokenizer(source)
        runner = load_runner(
            source, model_config, tensor_parallel_size, pipeline_parallel_size,
            device=device, dtype=dtype, num_blocks=num_blocks,
            block_size=block_size, kv_cache_memory=kv_cache_memory,
            gpu_memory_utilization=gpu_memory_utilization,
            max_model_len=scheduler.max_model_len,
            max_num_batched_tokens=scheduler.max_num_batched_tokens,
            threads=threads, max_num_seqs=max_num_seqs, enforce_eager=enforce_eager, poison=poison,
        )  # fmt: skip
        try:
            config = EngineConfig(
                CacheConfig(runner.num_blocks, block_size, enable_prefix_caching), scheduler,
                eos_token_ids=model_config.eos_token_ids | tokenizer.eos_token_ids,
                vocab_size=model_config.vocab_size,
            )  # fmt: skip
        except ValueError:
            runner.close()
            raise
        self._compose(runner, tokenizer, config, policy)

    @classmethod
    def simulated(
        cls,
        cost_model: StepCost | None = None,
        *,
        policy: Policy = "continuous",
        max_num_seqs: int = 8,
        max_num_batched_tokens: int | None = None,
        enable_chunked_prefill: bool = True,
        max_model_len: int = 8192,
        block_size: int = 16,
        num_blocks: int = 4096,
        enable_prefix_caching: bool = True,
        runner: SimulatedRunner | None = None,
    ) -> LLM:
        """The same object on a simulated GPU and a virtual clock: no torch, no model, no text.

        A text prompt becomes one made-up id for each 4 characters, the output reads "‹17›‹4›…".
        runner: such as SimulatedRunner.for_gpu("H100-80GB-SXM"), instead of a cost model.
        """
        from minillm.sim import SimulatedRunner

        check_policy(policy)
        runner = runner or SimulatedRunner(cost_model)
        scheduler = scheduler_config(
            GPU_BUDGET, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens,
            enable_chunked_prefill=enable_chunked_prefill, max_model_len=max_model_len,
        )  # fmt: skip
        cache = CacheConfig(num_blocks, block_size, enable_prefix_caching)
        llm = cls.__new__(cls)
        config = EngineConfig(cache, scheduler, vocab_size=runner.vocab_size)
        llm._compose(runner, PseudoTokenizer(runner.vocab_size), config, policy)
        return llm

    def _compose(
        self, runner: Runner, tokenizer: Any, config: EngineConfig, policy: Policy
    ) -> None:
        self.runner, self.tokenizer, self.config, self.policy = runner, tokenizer, config, policy
        self.info = runner.info
        self._shared = SharedRunner(runner)
        self._engine: LLMEngine | None = None  # for the calls of this class
        self._driver: Iterator | None = None
        self._streams: weakref.WeakValueDictionary[str, TextStream] = weakref.WeakValueDictionary()
        self._num_requests = 0

    # ── text in, text out ───────────────────────────────────────────────────────────────────

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        chat: bool = False,
    ) -> list[Completion]:
        """Complete one prompt or several, batched. chat: put texts into the chat template first.

        Raises ValueError if one of them can never be served; then none is.
        """
        batch = [prompts] if is_one_prompt(prompts) else list(prompts)
        if not batch:
            raise ValueError("There is no prompt to complete.")
        each = [params] * len(batch) if not isinstance(params, Sequence) else list(params)
        if len(each) != len(batch):
            raise ValueError(f"There are {len(batch)} prompts but {len(each)} SamplingParams.")
        streams: list[TextStream] = []
        try:
            for prompt, own in zip(batch, each, strict=True):
                streams.append(self.stream(prompt, own, chat=chat))
            while not all(stream.finished for stream in streams):
                self._advance()
        finally:
            for stream in streams:
                stream.close()
        return [stream.completion for stream in streams]

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, *, chat: bool = False
    ) -> TextStream:
        """Queue a prompt and iterate over its text as it comes. Several streams share batches."""
        token_ids = self.encode(prompt, chat=chat)
        engine = self._own_engine()
        request_id = f"request-{self._num_requests}"
        preview = prompt if isinstance(prompt, str) else ""
        request = engine.add_request(request_id, token_ids, params, prompt_preview=preview)
        self._num_requests += 1
        stream = TextStream(engine, request, self.detokenizer(token_ids), self._advance)
        self._streams[request_id] = stream
        return stream

    def chat(self, messages: Sequence[Message], params: SamplingParams | None = None) -> Completion:
        """The answer to a conversation, [{"role": "user", "content": …}, …]."""
        return self.generate([list(messages)], params)[0]

    def encode(self, prompt: Prompt, *, chat: bool = False) -> list[int]:
        """Token ids of a prompt: text as it is or as a chat's first message; ids unchanged."""
        if isinstance(prompt, str):
            if not chat:
                return self.tokenizer.encode(prompt)
            prompt = [{"role": "user", "content": prompt}]
        if any(isinstance(part, Mapping) for part in prompt):
            return self.tokenizer.apply_chat_template(prompt)
        return list(prompt)

    def detokenizer(self, prompt_token_ids: Sequence[int] = ()) -> Any:
        """Something with push(token_id) and finish() that turns a request's ids into text."""
        if isinstance(self.tokenizer, PseudoTokenizer):
            return PseudoDetokenizer(self.tokenizer)
        from minillm.model.tokenizer import IncrementalDetokenizer

        return IncrementalDetokenizer(self.tokenizer, prompt_token_ids)

    # ── engines ─────────────────────────────────────────────────────────────────────────────

    def new_engine(self, policy: Policy | None = None, **settings: Any) -> LLMEngine:
        """An engine with empty tables and a new trace, on the weights that are loaded.

        policy: a name or a Scheduler subclass, None: this LLM's own. settings: any field of
        SchedulerConfig, and num_blocks (at most the runner's), enable_prefix_caching.
        Its first step takes over the KV memory from engines made before (shared_runner.py).
        """
        policy = policy or self.policy
        check_policy(policy)
        cache_settings = {k: settings.pop(k) for k in CACHE_SETTINGS if k in settings}
        cache = replace(self.config.cache, **cache_settings)
        if cache.num_blocks > self.config.cache.num_blocks:
            raise ValueError(
                f"num_blocks ({cache.num_blocks}) is more than the runner's KV memory has "
                f"({self.config.cache.num_blocks})."
            )
        if not settings.get("enable_chunked_prefill", True):
            longest = settings.get("max_model_len", self.config.scheduler.max_model_len)
            budget = max(self.config.scheduler.max_num_batched_tokens, longest)
            settings.setdefault("max_num_batched_tokens", budget)
        scheduler = replace(self.config.scheduler, **settings)
        named = policy if isinstance(policy, str) else "continuous"
        config = replace(self.config, cache=cache, scheduler=scheduler, policy=named)
        custom = None if isinstance(policy, str) else policy
        if self.info.provenance == "simulated":  # it keeps no KV: engines don't disturb each other
            return LLMEngine(config, self.runner, scheduler=custom)
        return self._shared.new_engine(config, custom)

    @property
    def trace(self) -> Trace:
        """The record of the latest generate, stream or chat (from when nothing else ran)."""
        return self._own_engine().trace

    def close(self) -> None:
        """Abort what runs and free weights and KV cache."""
        for stream in list(self._streams.values()):
            stream.close()
        self._engine = self._driver = None
        self.runner.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _own_engine(self) -> LLMEngine:
        if self._engine is None or getattr(self._engine.runner, "retired", False):
            self._engine = self.new_engine()
            self._driver = None
        return self._engine

    def _advance(self) -> None:
        """One step of the own engine; its outputs go to their streams."""
        engine = self._own_engine()
        if self._driver is None:
            self._driver = drive(engine, (), time.sleep)
        outputs = next(self._driver, None)
        if outputs is None:  # it had ended, or an interrupt ended it
            self._driver = None
            return
        for output in outputs:
            stream = self._streams.get(output.request_id)
            if stream is not None:
                stream.take(output)
