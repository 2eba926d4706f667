"""What a load goes to: an endpoint, a real engine of this process, or a simulated GPU.

A target says where its figures come from and serves one plan after another.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from minillm.bench.client import Target, find_model
from minillm.bench.http_pool import open_pool
from minillm.bench.inprocess import measure_engine
from minillm.bench.load import Progress, Run, measure
from minillm.bench.plan import PlannedRequest
from minillm.core import LLMEngine
from minillm.llm import LLM
from minillm.llm.simulated import PseudoTokenizer
from minillm.sim import SimulatedRunner
from minillm.sim.cluster_spec import parse_replicas
from minillm.sim.simulate import EngineOptions, engine_config, make_engine

STATIC_WAIT_S = 1.0  # as when serving: a batch that never fills goes after this


class BenchTarget(ABC):
    """serve(plan, …) → Run. info: provenance, device, model, … for reports and JSON."""

    info: dict[str, Any]

    @abstractmethod
    def serve(
        self,
        plan: Sequence[PlannedRequest],
        max_concurrency: int | None,
        closed: bool,
        progress: Progress | None,
    ) -> Run: ...

    @property
    def source(self) -> str:
        """Where the figures come from, in words."""
        info = self.info
        return f"({info['provenance']} on {info['device']}, {info['model']})"

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""


class EndpointTarget(BenchTarget):
    """An OpenAI-compatible server. Raises ValueError if it isn't there or refuses the key."""

    def __init__(self, target: Target) -> None:
        model = asyncio.run(_ask_model(target))
        self.target = replace(target, model=model)
        self.info = {
            "provenance": "measured", "device": f"the server at {target.base_url}", "model": model,
            "dtype": None, "backend": "openai", "base_url": target.base_url,
            "endpoint": target.endpoint,
        }  # fmt: skip

    @property
    def source(self) -> str:
        return f"(measured by this client at {self.target.base_url}, {self.target.model})"

    def serve(
        self,
        plan: Sequence[PlannedRequest],
        max_concurrency: int | None,
        closed: bool,
        progress: Progress | None,
    ) -> Run:
        return measure(
            self.target, plan, max_concurrency=max_concurrency, closed=closed, progress=progress
        )

    def close(self) -> None:
        """Its connections end with each run."""


async def _ask_model(target: Target) -> str:
    async with open_pool(target.base_url, target.api_key, target.timeout_s) as http:
        return await find_model(http, target.base_url, target.model or None)


class EngineTarget(BenchTarget):
    """Engines of this process, a fresh one for each plan."""

    def __init__(
        self,
        make_engine: Callable[[], LLMEngine],
        encode: Callable[[PlannedRequest], Sequence[int]],
        ignore_eos: bool = True,
        llm: LLM | None = None,
    ) -> None:
        self.make_engine, self.encode, self.ignore_eos, self.llm = (
            make_engine, encode, ignore_eos, llm,
        )  # fmt: skip
        engine = make_engine()
        info = engine.runner.info
        self.info = {
            "provenance": info.provenance, "device": info.device, "model": info.model,
            "dtype": info.dtype, "backend": "engine", "base_url": None, "endpoint": None,
            "policy": engine.scheduler.name,
        }  # fmt: skip
        self.engine: LLMEngine | None = None  # of the latest plan

    def serve(
        self,
        plan: Sequence[PlannedRequest],
        max_concurrency: int | None,
        closed: bool,
        progress: Progress | None,
    ) -> Run:
        self.engine = self.make_engine()
        return measure_engine(
            self.engine, plan, self.encode, max_concurrency=max_concurrency, closed=closed,
            ignore_eos=self.ignore_eos, progress=progress,
        )  # fmt: skip

    def close(self) -> None:
        if self.llm is not None:
            self.llm.close()


def engine_target(llm: LLM, policy: str, ignore_eos: bool = True) -> EngineTarget:
    """A loaded model under a policy."""

    def make_engine() -> LLMEngine:
        return llm.new_engine(policy, max_wait_s=STATIC_WAIT_S)

    return EngineTarget(make_engine, lambda planned: llm.encode(planned.prompt), ignore_eos, llm)


def simulated_target(gpu: str, options: EngineOptions) -> EngineTarget:
    """A simulated replica, written as the cluster's are: `A100-80GB-SXM:tp4`."""
    specs = parse_replicas(gpu)
    if len(specs) != 1:
        raise ValueError(f"One engine is one replica, but {gpu!r} names {len(specs)}.")
    options = replace(options, limits={"max_wait_s": STATIC_WAIT_S, **options.limits})
    engine_config(specs[0], options)  # what is wrong is said now, not at the first request
    tokenizer = PseudoTokenizer(SimulatedRunner().vocab_size)

    def encode(planned: PlannedRequest) -> Sequence[int]:
        if planned.text is None:
            return planned.source.prompt_token_ids()
        return tokenizer.encode(planned.text)

    return EngineTarget(lambda: make_engine(specs[0], options), encode)
