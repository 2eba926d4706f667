"""The engine as a Ray Serve deployment, on a local Ray: streams, hang-ups, autoscaling, deaths.

Needs the extra `cluster` (`make test-long` installs it); a Ray takes half a minute to start.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from minillm.llm import LLM
from minillm.sim import CostModel
from tests.serve.conftest import wait_for

if TYPE_CHECKING:
    from ray.serve.handle import DeploymentHandle

ray = pytest.importorskip("ray", reason="the extra `cluster` (Ray Serve) is not installed")
serve = pytest.importorskip("ray.serve")
ray_serve = pytest.importorskip("minillm.serve.ray_serve")

pytestmark = [
    # Ray's own: pydantic's old way to declare fields; sockets that its shutdown leaves to the GC.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 120.0
STEP_S = 0.03


@pytest.fixture(scope="module")
def local_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Ray of its own on this machine; gives the port for HTTP."""
    with pytest.MonkeyPatch.context() as patch, socket.socket() as probe:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("ray")))  # for the token that it makes
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(ROOT))  # its workers import minillm and this module
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False,
                 object_store_memory=10**8)  # fmt: skip
        try:
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            yield port
            serve.shutdown()
        finally:
            ray.shutdown()


@pytest.fixture(scope="module")
def served(local_ray: int) -> tuple[str, DeploymentHandle]:
    """The URL and the handle of a deployment of one to two simulated replicas."""

    def make_llm() -> LLM:
        return LLM.simulated(CostModel(STEP_S, 0.0, 0.0), num_blocks=512)

    application = ray_serve.ray_application(
        make_llm, min_replicas=1, max_replicas=2, target_ongoing_requests=4, upscale_delay_s=1,
        downscale_delay_s=1, look_back_period_s=1, metrics_interval_s=0.5,
    )  # fmt: skip
    handle = serve.run(application)
    return f"http://127.0.0.1:{local_ray}", handle


def replicas() -> int:
    (application,) = serve.status().applications.values()
    return application.deployments["minillm"].replica_states.get("RUNNING", 0)


def load(handle) -> dict[str, float]:
    return handle.load.remote().result(timeout_s=START_LIMIT_S)


def test_a_stream_comes_token_by_token(served):
    url, _ = served
    body = {"prompt": "a", "max_tokens": 20, "stream": True}
    times, text = [], b""
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for part in answer.iter_bytes():
            times += [time.perf_counter()] * part.count(b'"text"')
            text += part
    assert text.endswith(b"data: [DONE]\n\n")
    assert len(times) == 20
    assert times[-1] - times[0] > 19 * STEP_S * 0.5
    assert len({round(t, 3) for t in times}) >= 8


def test_the_api_is_the_same(served):
    url, _ = served
    assert httpx.get(f"{url}/health").json() == {"status": "ok"}
    answer = httpx.post(f"{url}/v1/completions", json={"prompt": "abc", "max_tokens": 3}).json()
    assert answer["usage"]["completion_tokens"] == 3
    refusal = httpx.post(f"{url}/v1/completions", json={"prompt": "", "max_tokens": 3})
    assert refusal.status_code == 400
    for path in ("/metrics", "/trace"):  # one engine's; each call would meet another one
        assert httpx.get(f"{url}{path}").json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("stream", [True, False])
def test_a_hang_up_frees_its_blocks(served, stream: bool):
    url, handle = served
    body = {"prompt": "a", "max_tokens": 3000, "stream": stream}  # a minute and a half

    def impatient() -> None:
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=2.0) as answer:
            end = time.monotonic() + 2.0
            for _ in answer.iter_bytes():
                if time.monotonic() > end:
                    raise httpx.ReadTimeout("enough")

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(impatient)
        wait_for(lambda: load(handle)["running"] == 1, "it runs")
        assert load(handle)["kv_usage"] > 0
        assert isinstance(call.exception(), httpx.ReadTimeout)
    wait_for(lambda: load(handle) == {"running": 0, "waiting": 0, "kv_usage": 0.0}, "it is gone")


@pytest.mark.slow
def test_replicas_come_and_go_with_the_load(served):
    url, _ = served
    assert replicas() == 1
    body = {"prompt": "abc", "max_tokens": 100}

    def client(until: float) -> int:
        done = 0
        with httpx.Client(timeout=60) as http:
            while time.monotonic() < until and replicas() < 2:
                assert http.post(f"{url}/v1/completions", json=body).status_code == 200
                done += 1
        return done

    with ThreadPoolExecutor(16) as pool:
        counts = list(pool.map(client, [time.monotonic() + START_LIMIT_S] * 16))
    assert sum(counts) >= 16
    assert replicas() == 2
    wait_for(lambda: replicas() == 1, "one has gone again", START_LIMIT_S)


@pytest.mark.slow
def test_a_killed_replica_is_replaced(served):
    url, handle = served
    before = handle.process.remote().result(timeout_s=60)
    os.kill(before, signal.SIGKILL)

    def another() -> bool:
        try:
            return handle.process.remote().result(timeout_s=5) != before
        except Exception:  # Ray has many names for "it has died", "not yet"
            return False

    wait_for(another, "another one serves", START_LIMIT_S)
    assert httpx.get(f"{url}/health", timeout=60).status_code == 200


@pytest.mark.slow
def test_the_example_in_the_docs_runs(served):
    """The last one: its application takes the other one's place."""
    url, _ = served
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    (example,) = [body for body in re.findall(r"```py\n(.*?)```", text, re.DOTALL)
                  if "ray_application(" in body]  # fmt: skip
    exec(compile(example, "docs/serving.md", "exec"), {"__name__": "example"})
    body = {"prompt": "abc", "max_tokens": 3}
    answer = httpx.post(f"{url}/v1/completions", json=body, timeout=60)
    assert answer.json()["usage"]["completion_tokens"] == 3
