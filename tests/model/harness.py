"""Runs requests through the engine on a real (tiny) model, to the end."""

from __future__ import annotations

import time

import torch

from minillm.core import (
    CacheConfig,
    EngineConfig,
    LLMEngine,
    SamplingParams,
    SchedulerConfig,
)
from minillm.model.loader import load_weights
from minillm.model.runner import ModelRunner
from minillm.model.sampler import Sampler


class RecordingSampler(Sampler):
    """Keeps the logits of every sampled token: {request id: [one row a token]}."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.logits: dict[str, list[torch.Tensor]] = {}

    def sample(self, logits, requests):
        for row, request in zip(logits, requests, strict=True):
            self.logits.setdefault(request.request_id, []).append(row.clone())
        return super().sample(logits, requests)


def make_runner(folder, *, dtype="float64", num_blocks=64, block_size=4, **options) -> ModelRunner:
    """A runner on that folder's model whose unwritten KV is NaN."""
    config, weights = load_weights(folder)
    options = {"device": "cpu", "poison": True, **options}
    runner = ModelRunner(
        config, weights, dtype=dtype, num_blocks=num_blocks, block_size=block_size, **options
    )
    runner.sampler = RecordingSampler()
    return runner


def make_engine(
    runner: ModelRunner,
    policy: str = "continuous",
    *,
    max_num_seqs: int = 3,
    budget: int = 64,
    chunk: int = 0,
    prefix_cache: bool = False,
) -> LLMEngine:
    """chunk: prompt tokens at most that a request prefills in a step; 0 is no limit."""
    limits = SchedulerConfig(
        max_num_seqs=max_num_seqs, max_num_batched_tokens=budget,
        max_model_len=runner.max_model_len, long_prefill_token_threshold=chunk,
    )  # fmt: skip
    cache = CacheConfig(runner.num_blocks, runner.block_size, prefix_cache)
    return LLMEngine(EngineConfig(cache, limits, policy), runner)


def finish(engine: LLMEngine, outputs: dict[str, list[int]] | None = None) -> dict[str, list[int]]:
    """Step until nothing is left: {request id: output ids}. A failed step fails the test."""
    outputs = {} if outputs is None else outputs
    engine.close_input()
    for _ in range(5000):
        if not engine.has_unfinished:
            break
        step_once(engine, outputs)
        if engine.idle and engine.has_unfinished:
            time.sleep(0.001)  # a batch's window is open: 5,000 empty steps would pass within it
    assert not engine.has_unfinished
    engine.kv.check_integrity()
    assert engine.kv.num_used_blocks == 0
    return outputs


def step_once(engine: LLMEngine, outputs: dict[str, list[int]]) -> None:
    for output in engine.step():
        outputs.setdefault(output.request_id, []).extend(output.new_token_ids)
    if engine.last_error is not None:
        raise engine.last_error


def run_all(engine: LLMEngine, prompts, params) -> dict[str, list[int]]:
    """All prompts at once, request i as str(i); params: one for all, or one each."""
    if isinstance(params, SamplingParams):
        params = [params] * len(prompts)
    for i, (prompt, p) in enumerate(zip(prompts, params, strict=True)):
        engine.add_request(str(i), prompt, p)
    return finish(engine)


def random_prompts(lengths, vocab: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocab, (n,), generator=generator).tolist() for n in lengths]


def preemptions(engine: LLMEngine) -> dict[str, int]:
    """How often each request was preempted."""
    counts: dict[str, int] = {}
    for event in engine.trace.events:
        if event.event == "preempt":
            counts[event.id] = counts.get(event.id, 0) + 1
    return counts
