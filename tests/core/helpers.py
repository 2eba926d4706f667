"""A mock model for the core: its 'KV' is a hash chain kept by block, so a wrong read shows.

What it stores at a slot depends on every token before it, as real KV does; what it answers is a
function of what it *reads* through the block table. If a block is lost, shared wrongly or read
before it was written, the run raises or the tokens differ from a solo run.
"""

from __future__ import annotations

import hashlib

from minillm.core import (
    CacheConfig,
    EngineConfig,
    LLMEngine,
    Runner,
    RunnerInfo,
    SamplingParams,
    SchedulerConfig,
    StepResult,
    VirtualClock,
)

VOCAB = 40
EOS = 2


def link(parent: bytes, token_id: int) -> bytes:
    return hashlib.blake2b(parent + token_id.to_bytes(8, "little"), digest_size=8).digest()


def next_token(state: bytes) -> int:
    return int.from_bytes(state, "little") % VOCAB


def solo(prompt, params: SamplingParams, eos=(EOS,), limit: int | None = None) -> list[int]:
    """What the mock model answers to a request that runs alone."""
    state, out = b"", []
    for token_id in prompt:
        state = link(state, token_id)
    room = params.max_tokens if limit is None else min(params.max_tokens, limit - len(prompt))
    while len(out) < room:
        out.append(next_token(state))
        if out[-1] in eos and not params.ignore_eos and len(out) >= params.min_tokens:
            break
        state = link(state, out[-1])
    return out


class ChainRunner(Runner):
    """The mock model, `step_s` a step."""

    def __init__(self, block_size: int, step_s: float = 1.0) -> None:
        self.info = RunnerInfo("simulated", "mock", "hash chain", "none")
        self.block_size = block_size
        self.step_s = step_s
        self.memory: dict[int, bytes] = {}  # slot → the chain up to its token

    def _slot(self, row, position: int) -> int:
        return row.block_ids[position // self.block_size] * self.block_size + (
            position % self.block_size
        )

    def execute(self, output) -> StepResult:
        tokens = {}
        for row in output.rows:
            state, ids = b"", row.request.token_ids
            for position in range(row.start):
                expected = link(state, ids[position])
                stored = self.memory.get(self._slot(row, position))
                if stored != expected:
                    raise AssertionError(f"wrong KV at {position} of {row.request}: {stored}")
                state = stored
            for position in range(row.start, row.start + row.num_tokens):
                state = link(state, ids[position])
                self.memory[self._slot(row, position)] = state
            if row.samples:
                tokens[row.request.request_id] = next_token(state)
        return StepResult(tokens, self.step_s)


def make_engine(
    policy="continuous",
    *,
    num_blocks=64,
    block_size=4,
    prefix_caching=True,
    step_s=1.0,
    start=0.0,
    eos=(EOS,),
    **limits,
) -> LLMEngine:
    """An engine on the mock model. policy: a name or a Scheduler subclass."""
    name, scheduler = (policy, None) if isinstance(policy, str) else ("continuous", policy)
    config = EngineConfig(
        CacheConfig(num_blocks, block_size, prefix_caching),
        SchedulerConfig(**limits),
        policy=name,
        eos_token_ids=frozenset(eos),
        vocab_size=10**6,
    )
    clock = VirtualClock(start)
    return LLMEngine(config, ChainRunner(block_size, step_s), clock=clock, scheduler=scheduler)


def run_all(engine: LLMEngine, max_steps: int = 10_000) -> dict[str, list[int]]:
    """Step until nothing is left: each request's tokens by id."""
    engine.close_input()
    tokens: dict[str, list[int]] = {}
    for _ in range(max_steps):
        if not engine.has_unfinished:
            return tokens
        collect(engine.step(), tokens)
        if engine.idle and engine.has_unfinished:
            engine.clock.advance_to(engine.next_wakeup())
    raise AssertionError(f"not done after {max_steps} steps: {engine.requests}")


def collect(outputs, tokens: dict[str, list[int]]) -> None:
    for output in outputs:
        tokens.setdefault(output.request_id, []).extend(output.new_token_ids)


def assert_idle(engine: LLMEngine) -> None:
    """Nothing runs, nothing waits, the pool is full again."""
    assert not engine.has_unfinished
    assert not engine.scheduler.running
    assert not engine.scheduler.waiting
    engine.kv.check_integrity()
    assert engine.kv.num_free_blocks == engine.kv.pool.num_blocks
