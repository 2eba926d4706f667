"""Commands to a serving engine: run between two steps, from the event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from minillm.core import RunnerLostError
from tests.serve.conftest import Served, wait_for


def call(served: Served, function):
    engine = served.service.engine
    return asyncio.run_coroutine_threadsafe(engine.call(function), engine._loop).result(20)


def test_the_policy_is_swapped_while_requests_run(serve):
    served = serve(step_s=0.005, max_num_seqs=2)
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(served.complete, max_tokens=40) for _ in range(6)]
        wait_for(lambda: len(served.engine.scheduler.running) == 2, "two run")
        call(served, lambda engine: engine.swap_scheduler("dynamic"))
        answers = [one.result() for one in calls]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert {answer.json()["usage"]["completion_tokens"] for answer in answers} == {40}
    assert served.service.trace_header().policy == "dynamic"
    wait_for(served.idle, "all free again")


def test_a_result_and_an_exception_come_back(serve):
    served = serve()
    assert call(served, lambda engine: engine.kv.pool.num_blocks) == 256
    with pytest.raises(ValueError, match="Unknown policy 'no'"):
        call(served, lambda engine: engine.swap_scheduler("no"))
    assert served.complete(max_tokens=2).status_code == 200


def test_a_lost_runner_fails_everybody_and_health_says_so(serve):
    """Such as a split model whose worker was killed: nothing may wait for it."""
    served = serve(step_s=0.005, max_num_seqs=2)

    def lost(output):
        raise RunnerLostError("Worker 1 of 2 was ended by SIGKILL.")

    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(served.complete, max_tokens=200) for _ in range(4)]
        wait_for(lambda: len(served.engine.scheduler.running) == 2, "two run, two wait")
        served.engine.runner.execute = lost
        answers = [one.result() for one in calls]
    assert [answer.status_code for answer in answers] == [500] * 4
    assert all("SIGKILL" in answer.json()["error"]["message"] for answer in answers)
    health = served.client.get("/health")
    assert (health.status_code, health.json()) == (503, {"status": "engine stopped"})
    later = served.complete(max_tokens=2)
    assert later.status_code == 503
    assert "engine" in later.json()["error"]["message"]
