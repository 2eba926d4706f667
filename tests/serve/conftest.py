"""Servers for the tests: real sockets on 127.0.0.1, a fast simulated device or a tiny model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minillm.llm import LLM
from minillm.serve import ServerSettings, make_app, running, serving_engine
from minillm.serve.service import Service
from minillm.sim import CostModel
from tests.tiny_chat_model import save_tiny_chat_model

LIVENESS_S = 20.0


@dataclass(frozen=True)
class Served:
    """A running server, seen from outside (url, client) and from inside (service)."""

    url: str
    service: Service
    client: httpx.Client

    @property
    def engine(self):
        return self.service.engine.engine

    @property
    def free_blocks(self) -> int:
        return self.engine.kv.num_free_blocks

    def complete(self, **body: Any) -> httpx.Response:
        return self.client.post("/v1/completions", json={"prompt": "abcd", **body})

    def metrics(self) -> dict[str, float]:
        """/metrics, by name; with finished_reason or code behind it where a metric has one."""
        values: dict[str, float] = {}
        for family in text_string_to_metric_families(self.client.get("/metrics").text):
            for sample in family.samples:
                extra = [v for k, v in sample.labels.items() if k in ("finished_reason", "code")]
                if "le" not in sample.labels:
                    values[" ".join([sample.name.removeprefix("minillm:"), *extra])] = sample.value
        return values

    def idle(self) -> bool:
        """Nothing runs, nothing waits, every block is free."""
        engine = self.engine
        blocks = engine.kv.pool.num_blocks
        return not engine.requests and not self.service.engine.jobs and self.free_blocks == blocks


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = LIVENESS_S) -> float:
    """Seconds until it holds; fails after limit_s."""
    start = time.perf_counter()
    while not condition():
        assert time.perf_counter() - start < limit_s, f"not within {limit_s:g} s: {what}"
        time.sleep(0.002)
    return time.perf_counter() - start


@contextmanager
def serving(
    llm: LLM, settings: ServerSettings | None = None, *, policy: Any = None, **limits: Any
) -> Iterator[Served]:
    """Serve this LLM; limits are the scheduler's."""
    app = make_app(llm, serving_engine(llm, policy, **limits), settings)
    keys = app.state.service.settings.api_keys
    headers = {"Authorization": f"Bearer {keys[0]}"} if keys else {}
    with running(app) as url:
        with httpx.Client(base_url=url, timeout=LIVENESS_S, headers=headers) as client:
            yield Served(url, app.state.service, client)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """serve(step_s=…, settings=…, **limits): a simulated server of its own for one test."""
    with ExitStack() as stack:

        def start(
            step_s: float = 0.002,
            settings: ServerSettings | None = None,
            num_blocks: int = 256,
            policy: Any = None,
            token_s: float = 0.0,
            **limits: Any,
        ) -> Served:
            cost = CostModel(step_s=step_s, token_s=token_s, context_s=0.0)
            llm = LLM.simulated(cost, num_blocks=num_blocks, max_model_len=2048)
            return stack.enter_context(serving(llm, settings, policy=policy, **limits))

        yield start


@pytest.fixture(scope="module")
def simulated() -> Iterator[Served]:
    """A simulated device of 2 ms a step, shared by a module's tests."""
    llm = LLM.simulated(CostModel(2e-3, 0.0, 0.0), num_blocks=256, max_model_len=2048)
    with serving(llm) as served:
        yield served


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tiny_llm(tiny_folder: Path) -> Iterator[LLM]:
    settings = {"device": "cpu", "dtype": "float32", "threads": 1, "num_blocks": 128}
    with LLM(str(tiny_folder), **settings) as llm:
        yield llm


@pytest.fixture(scope="module")
def tiny(tiny_llm: LLM) -> Iterator[Served]:
    """A real, tiny model: one token a byte, so texts hold half characters too."""
    with serving(tiny_llm) as served:
        yield served
