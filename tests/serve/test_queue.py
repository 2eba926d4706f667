"""A bounded queue, deadlines, and one step's failure: clear answers at once (C40, C46)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from minillm.core import FinishReason, StepResult
from minillm.llm import LLM
from minillm.serve import ServerSettings
from minillm.sim import CostModel, SimulatedRunner
from tests.serve.conftest import Served, serving, wait_for


class Gate:
    """Holds back each step of a served engine until it is opened."""

    def __init__(self, served: Served) -> None:
        self.open, self.inside = threading.Event(), threading.Event()
        runner = served.engine.runner
        execute = runner.execute

        def held(plan) -> StepResult:
            self.inside.set()
            assert self.open.wait(20)
            return execute(plan)

        runner.execute = held


def ask_later(pool: ThreadPoolExecutor, served: Served, **body):
    """A call in a thread of its own: (status, seconds, body)."""

    def ask() -> tuple[int, float, dict]:
        with httpx.Client(base_url=served.url, timeout=20, verify=False) as client:
            client.get("/health")  # connected: what counts is the answer's time
            start = time.perf_counter()
            answer = client.post("/v1/completions", json={"prompt": "abcd", **body})
            seconds = time.perf_counter() - start
        return answer.status_code, seconds, answer.json()

    return pool.submit(ask)


def test_a_burst_of_twenty_keeps_one_running_and_six_waiting(serve):
    served = serve(settings=ServerSettings(max_queue_size=6), max_num_seqs=1)
    gate = Gate(served)
    with ThreadPoolExecutor(20) as pool:
        calls = [ask_later(pool, served, max_tokens=1) for _ in range(20)]
        wait_for(lambda: sum(call.done() for call in calls) >= 13, "13 answers")
        time.sleep(0.1)
        refused = [call.result() for call in calls if call.done()]
        assert len(refused) == 13  # at once: the engine has not finished a single step
        assert served.service.engine.num_waiting == 6
        gate.open.set()
        statuses = [call.result()[0] for call in calls]
    assert sorted(statuses) == [200] * 7 + [503] * 13
    for status, _, body in refused:
        assert status == 503
        assert body["error"]["code"] == "queue_full"
        assert "6" in body["error"]["message"]
    wait_for(served.idle, "all free again")


def test_a_full_queue_answers_at_once_though_a_step_runs(serve):
    served = serve(settings=ServerSettings(max_queue_size=1), max_num_seqs=1)
    gate = Gate(served)
    with ThreadPoolExecutor(2) as pool:
        calls = [ask_later(pool, served, max_tokens=1)]
        assert gate.inside.wait(20)
        calls.append(ask_later(pool, served, max_tokens=1))
        wait_for(lambda: served.service.engine.num_waiting == 1, "one waits")
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            answer = served.complete(max_tokens=1)
            seconds.append(time.perf_counter() - start)
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
        gate.open.set()
        assert [call.result()[0] for call in calls] == [200, 200]
    assert min(seconds) < 0.05


def test_a_deadline_is_answered_though_the_step_goes_on(serve):
    """Within 10 ms, in the best of five rounds: other work on the machine only adds to it."""
    served = serve(max_num_seqs=1)
    gate = Gate(served)
    late_s: list[float] = []
    with ThreadPoolExecutor(4) as pool:
        running = ask_later(pool, served, max_tokens=1, deadline_s=0.05)
        assert gate.inside.wait(20)
        while len(late_s) < 5 * 3 and min(late_s, default=1.0) >= 0.01:
            late = [ask_later(pool, served, max_tokens=1, deadline_s=0.3) for _ in range(3)]
            for status, seconds, body in [call.result() for call in late]:
                assert status == 503
                assert body["error"]["code"] == "deadline_exceeded"
                assert "0.3 s" in body["error"]["message"]
                assert 0.3 <= seconds < 1.3
                late_s.append(seconds - 0.3)
        assert not running.done()
        gate.open.set()
        assert running.result()[0] == 200  # its deadline was for the queue, and it had left that
    assert min(late_s) < 0.01, late_s
    wait_for(served.idle, "all free again")


def test_the_servers_own_deadline_holds_for_all(serve):
    served = serve(settings=ServerSettings(deadline_s=0.1), max_num_seqs=1)
    gate = Gate(served)
    with ThreadPoolExecutor(2) as pool:
        running = ask_later(pool, served, max_tokens=1)
        assert gate.inside.wait(20)
        assert served.complete(max_tokens=1).status_code == 503
        gate.open.set()
        assert running.result()[0] == 200


def test_a_call_of_many_prompts_is_taken_whole_or_not_at_all(serve):
    served = serve(settings=ServerSettings(max_queue_size=2), max_num_seqs=2)
    assert served.complete(prompt=["a"] * 4, max_tokens=1).status_code == 200
    answer = served.complete(prompt=["a"] * 5, max_tokens=1)
    assert answer.status_code == 400
    assert "5 prompts" in answer.json()["error"]["message"]
    wait_for(served.idle, "all free again")


@pytest.mark.parametrize("stream", [False, True])
def test_an_exception_in_a_step_fails_that_steps_requests_alone(serve, stream):
    served = serve(max_num_seqs=2)
    runner = served.engine.runner
    execute = runner.execute
    armed = threading.Event()

    def sometimes(plan) -> StepResult:
        if armed.is_set():
            armed.clear()
            raise RuntimeError("the device fell over")
        return execute(plan)

    runner.execute = sometimes
    with ThreadPoolExecutor(3) as pool:
        calls = [ask_later(pool, served, max_tokens=400) for _ in range(2)]
        wait_for(lambda: len(served.engine.scheduler.running) == 2, "two run")
        third = ask_later(pool, served, max_tokens=2)
        wait_for(lambda: served.service.engine.num_waiting == 1, "one waits")
        armed.set()
        for call in calls:
            status, _, body = call.result()
            assert status == 500
            assert "the device fell over" in body["error"]["message"]
        assert third.result()[0] == 200
    armed.set()
    body = served.complete(max_tokens=2, stream=stream)
    assert body.status_code == 500  # it failed before its first token: a status, not an event
    assert served.complete(max_tokens=2).status_code == 200
    assert served.client.get("/health").status_code == 200
    wait_for(served.idle, "all free again")


def test_a_failure_in_the_middle_of_a_stream_is_an_event(serve):
    served = serve(step_s=0.01)
    runner = served.engine.runner
    execute = runner.execute
    steps = iter(range(100))

    def fourth_fails(plan) -> StepResult:
        if next(steps) == 3:
            raise RuntimeError("the device fell over")
        return execute(plan)

    runner.execute = fourth_fails
    answer = served.complete(max_tokens=9, stream=True)
    parts = answer.content.split(b"\n\n")
    assert answer.status_code == 200
    assert len(parts) == 3 + 2 + 1
    assert b'"error":{"message":' in parts[3]
    assert parts[4] == b"data: [DONE]"


def test_a_fault_of_the_engine_thread_leaves_nobody_waiting(serve):
    served = serve()

    def broken() -> None:
        raise RuntimeError("a fault of ours")

    served.engine.next_wakeup = broken
    served.engine.step = broken
    answer = served.complete(max_tokens=2)
    assert answer.status_code == 500
    assert "a fault of ours" in answer.json()["error"]["message"]
    assert served.client.get("/health").status_code == 503
    assert served.complete(max_tokens=2).status_code == 503


def test_dynamic_batches_go_out_by_the_rule(serve):
    served = serve(policy="dynamic", max_num_seqs=8, max_queue_delay_s=0.3,
                   preferred_batch_sizes=(4,))  # fmt: skip
    sizes = []
    execute = served.engine.runner.execute

    def noted(plan) -> StepResult:
        if plan.rows[0].start == 0:
            sizes.append(len(plan.rows))
        return execute(plan)

    served.engine.runner.execute = noted
    with ThreadPoolExecutor(5) as pool:
        calls = [ask_later(pool, served, max_tokens=1) for _ in range(5)]
        times = sorted(call.result()[1] for call in calls)
    assert sizes == [4, 1]
    assert times[3] < times[4]
    assert times[4] >= 0.29


def test_static_batches_do_not_wait_for_ever():
    llm = LLM.simulated(runner=SimulatedRunner(CostModel(1e-3, 0.0, 0.0)), num_blocks=64)
    with serving(llm, policy="static", max_num_seqs=4) as served:
        assert served.engine.scheduler.config.max_wait_s == 1.0
        start = time.perf_counter()
        answer = served.complete(max_tokens=1)
        assert answer.json()["choices"][0]["finish_reason"] == str(FinishReason.LENGTH)
        assert time.perf_counter() - start >= 0.99
