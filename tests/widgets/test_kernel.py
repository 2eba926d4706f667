"""EngineSession in a real Jupyter kernel: an interrupt ends the run, the kernel lives on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

ROOT = Path(__file__).resolve().parent.parent.parent
START = """
import asyncio, threading, time
from tests.widgets.test_session import SlowRunner, make_engine, requests
from widgets.session import EngineSession
session = EngineSession(make_engine(SlowRunner(0.05)))
session.start(requests(20, 2000))
"""


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    manager, client = start_new_kernel(kernel_name="python3")
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def evaluate(client, expression: str) -> str:
    reply = client.execute_interactive(
        "None", user_expressions={"value": expression}, timeout=30, output_hook=lambda _: None
    )
    return reply["content"]["user_expressions"]["value"]["data"]["text/plain"]


def test_an_interrupt_while_a_cell_waits_ends_the_run_within_a_second(kernel):
    manager, client = kernel
    reply = client.execute_interactive(START, timeout=60, output_hook=lambda _: None)
    assert reply["content"]["status"] == "ok"
    message = client.execute("await session.finished()")
    deadline = time.monotonic() + 30
    while client.get_iopub_msg(timeout=30)["content"].get("execution_state") != "busy":
        assert time.monotonic() < deadline
    time.sleep(0.5)
    before = time.monotonic()
    manager.interrupt_kernel()
    while True:
        reply = client.get_shell_msg(timeout=30)
        if reply["parent_header"].get("msg_id") == message:
            break
    assert time.monotonic() - before < 1.0 + 4.0  # a second is the goal; the machine may be busy
    assert reply["content"]["status"] == "error"
    assert evaluate(client, "session.running") == "False"
    assert evaluate(client, "session.report().stopped") == "True"
    assert evaluate(client, "session.engine.has_unfinished") == "False"
