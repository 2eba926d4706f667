"""The tab *Compare* without its widgets: two settings, one workload, an engine for each."""

from __future__ import annotations

from dataclasses import dataclass

from minillm.core import Arrival, CacheConfig, EngineConfig, LLMEngine, SchedulerConfig
from minillm.sim import SimulatedRunner
from minillm.sim.workload import Lognormal, own_request, synthetic, with_tenants
from widgets.headline import policy_title

MAX_LEN, BLOCK_SIZE = 8192, 16
LONG_PROMPT = 3000  # tokens
WORKLOADS = {
    "mixed": "short chats, outputs of very different lengths",
    "long": "the same, with one prompt of 3,000 tokens among them",
    "shared": "the same, behind two system prompts of 400 tokens",
}


@dataclass(frozen=True, slots=True)
class Side:
    """One side's settings, named as SchedulerConfig's."""

    policy: str = "continuous"
    max_num_seqs: int = 8
    max_num_batched_tokens: int = 512
    chunked: str = "on"
    num_blocks: int = 512

    def engine(self, gpu: str) -> LLMEngine:
        """A fresh engine on a simulated GPU. ValueError, in one sentence, for what cannot be."""
        budget = self.max_num_batched_tokens
        if self.chunked == "off":  # a prompt goes through whole, so a step has room for any
            budget = max(budget, MAX_LEN)
        scheduler = SchedulerConfig(
            max_num_seqs=self.max_num_seqs, max_num_batched_tokens=budget,
            enable_chunked_prefill=self.chunked == "on", max_model_len=MAX_LEN,
        )  # fmt: skip
        cache = CacheConfig(self.num_blocks, BLOCK_SIZE, True)
        config = EngineConfig(cache, scheduler, policy=self.policy)
        return LLMEngine(config, SimulatedRunner.for_gpu(gpu))

    def title(self, other: Side) -> str:
        """The policy, or what differs where both have the same."""
        if self.policy != other.policy:
            return policy_title(self.policy)
        parts = []
        if self.max_num_seqs != other.max_num_seqs:
            parts.append(f"{self.max_num_seqs:,} slots")
        if self.max_num_batched_tokens != other.max_num_batched_tokens:
            parts.append(f"{self.max_num_batched_tokens:,} tokens a step")
        if self.chunked != other.chunked:
            parts.append("prompts in chunks" if self.chunked == "on" else "prompts whole")
        if self.num_blocks != other.num_blocks:
            parts.append(f"{self.num_blocks:,} KV blocks")
        return ", ".join(parts) or policy_title(self.policy)


def titles(a: Side, b: Side) -> list[str]:
    """One a side; A and B where they are alike."""
    named = [a.title(b), b.title(a)]
    return named if named[0] != named[1] else [f"A: {named[0]}", f"B: {named[1]}"]


def arrivals(workload: str, count: int, rate: float, seed: int = 0) -> list[Arrival]:
    """The requests of both sides. ValueError for an unknown workload."""
    if workload not in WORKLOADS:
        raise ValueError(f"Unknown workload {workload!r}: choose one of {', '.join(WORKLOADS)}.")
    requests = synthetic(
        count, rate, seed, inputs=Lognormal(60, 0.6, 8, 400), outputs=Lognormal(48, 0.9, 4, 300)
    )
    if workload == "long":
        place = count // 3
        before = requests[place]
        requests[place] = own_request(place, before.time, LONG_PROMPT, before.output_len)
    if workload == "shared":
        requests = with_tenants(requests, 2, 400, seed)
    return [request.arrival() for request in requests]
