"""`minillm serve` as a process: starts, drains on SIGTERM, refuses what can't be in a sentence."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psutil
import pytest

from tests.cli_calls import refused, start
from tests.serve.conftest import LIVENESS_S, wait_for


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """A server process and its URL; killed if the test leaves it running."""
    server = start("serve", "--simulate", "--port", "0", *arguments)
    try:
        first, second = server.stdout.readline().decode(), server.stdout.readline().decode()
        assert "simulated" in first, first + server.stderr.read1().decode()
        yield server, re.search(r"(http://\S+)/v1", second)[1]
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate(timeout=LIVENESS_S)


def stream(url: str, max_tokens: int) -> tuple[list[dict], bool]:
    """The objects of a stream, and whether it ended with [DONE]."""
    body = {"prompt": "abc", "max_tokens": max_tokens, "stream": True}
    objects, done = [], False
    with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
        for line in answer.iter_lines():
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                objects.append(json.loads(line[6:]))
    return objects, done


def running(url: str) -> float:
    found = re.search(r"num_requests_running\{.*\} (\S+)", httpx.get(f"{url}/metrics").text)
    return float(found[1])


@pytest.mark.parametrize("grace", ["20", "0.5"])
def test_sigterm_lets_streams_finish_or_tells_them(grace):
    with process("--grace", grace) as (server, url):
        port = httpx.URL(url).port
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(stream, url, 120) for _ in range(3)]  # about 1.4 s each
            wait_for(lambda: running(url) == 3, "3 run")
            with httpx.Client(base_url=url) as late:
                assert late.get("/health").status_code == 200
                server.send_signal(signal.SIGTERM)
                wait_for(lambda: late.get("/health").status_code == 503, "it drains")
                refusal = late.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
                assert refusal.status_code == 503
                assert refusal.json()["error"]["code"] == "shutting_down"
                assert int(refusal.headers["retry-after"]) >= 1
            results = [call.result() for call in calls]
        assert server.wait(LIVENESS_S) == 0
        assert server.stderr.read() == b""
        for objects, done in results:
            assert done
            if grace == "20":
                assert len(objects) == 120
                assert objects[-1]["choices"][0]["finish_reason"] == "length"
            else:
                assert 0 < len(objects) < 120
                assert objects[-1]["error"]["code"] == "shutting_down"
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert not psutil.pid_exists(server.pid)


def test_a_second_signal_ends_at_once_and_ctrl_c_is_130():
    with process("--grace", "60") as (server, url), ThreadPoolExecutor(1) as pool:
        call = pool.submit(stream, url, 4000)
        wait_for(lambda: running(url) == 1, "it runs")
        server.send_signal(signal.SIGINT)
        wait_for(lambda: httpx.get(f"{url}/health").status_code == 503, "it drains")
        began = time.perf_counter()
        server.send_signal(signal.SIGINT)
        assert server.wait(LIVENESS_S) == 130
        assert time.perf_counter() - began < 15
        assert call.exception() is not None or len(call.result()[0]) < 4000


def test_flags_reach_the_engine():
    flags = ["--simulate", "H100-80GB-SXM", "--sim-model", "llama-3.1-70b", "-tp", "4",
             "--scheduler", "dynamic", "--max-num-seqs", "16", "--max-model-len", "4096",
             "--served-model-name", "mine", "--max-queue-delay", "0.01",
             "--no-enable-prefix-caching", "--preferred-batch-sizes", "4,8"]  # fmt: skip
    with process(*flags) as (server, url):
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "mine"
        with httpx.stream("GET", f"{url}/trace") as answer:
            header = json.loads(next(answer.iter_text()).split("\n")[2].removeprefix("data: "))
        assert header["policy"] == "dynamic"
        assert header["provenance"] == "simulated"
        assert "4 × H100" in header["device"]
        assert header["config"]["max_num_seqs"] == 16
        assert header["config"]["preferred_batch_sizes"] == [4, 8]
        assert header["config"]["max_queue_delay_s"] == 0.01
        assert header["config"]["max_model_len"] == 4096
        server.terminate()
        assert server.wait(LIVENESS_S) == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--host", "0.0.0.0"], "--api-key"),
        (["--host", "example.org"], "--api-key"),
        (["--tensor-parallel-size", "2"], "1, 3"),
        (["--pipeline-parallel-size", "4"], "1, 2, 3, 5, 6, 10, 15, 30"),
        (["--simulate", "B42"], "B42"),
        (["--simulate", "--sim-model", "gpt-9"], "gpt-9"),
        (["--simulate", "--model", "x/y"], "--sim-model"),
        (["--simulate", "--sim-model", "llama-3.1-70b"], "llama-3.1-70b"),
        (["--simulate", "--max-num-seqs", "100", "--max-num-batched-tokens", "50"], "50"),
        (["--simulate", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "512"], "8192"),
        (["--port", "99999999"], "99999999"),
        (["--grace", "-1"], "-1"),
        (["--max-queue-size", "0"], "0"),
        (["--api-key", " "], "key"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(capsys, flags, said):
    assert said in refused(capsys, "serve", "--port", "0", *flags)


def test_a_port_in_use_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert port in refused(capsys, "serve", "--simulate", "--port", port)
