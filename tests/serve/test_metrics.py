"""/metrics: Prometheus can read it, counters only grow, and the figures are the trace's (C55)."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from minillm.core import request_metrics
from minillm.core.trace import Trace
from minillm.llm import LLM
from minillm.serve import make_app, running
from minillm.sim import CostModel
from tests.serve.conftest import Served, serving, wait_for

NAMES = {  # vLLM's, under our own prefix
    "num_requests_running": "gauge", "num_requests_waiting": "gauge",
    "kv_cache_usage_perc": "gauge", "num_preemptions": "counter",
    "prefix_cache_queries": "counter", "prefix_cache_hits": "counter",
    "prompt_tokens": "counter", "generation_tokens": "counter", "request_success": "counter",
    "time_to_first_token_seconds": "histogram", "inter_token_latency_seconds": "histogram",
    "e2e_request_latency_seconds": "histogram", "iteration_tokens_total": "histogram",
}  # fmt: skip


def test_names_and_types_are_those_of_the_design(simulated: Served):
    simulated.complete(max_tokens=2)
    answer = simulated.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    found = {family.name: family.type for family in text_string_to_metric_families(answer.text)}
    for name, kind in NAMES.items():
        assert found.get(f"minillm:{name}") == kind, name


def test_counters_count_and_gauges_tell(serve):
    served = serve(step_s=0.005, max_num_seqs=2, num_blocks=64)
    for _ in range(3):
        served.complete(prompt=[5] * 33, max_tokens=4)
    served.complete(prompt="", max_tokens=4)
    served.complete(max_tokens=10**9)
    wait_for(lambda: served.metrics()["request_success_total length"] == 3, "3 are counted")
    values = served.metrics()
    assert values["prompt_tokens_total"] == 99
    assert values["generation_tokens_total"] == 12
    assert values["prefix_cache_queries_total"] == 99
    assert values["prefix_cache_hits_total"] == 64  # two of the three found two whole blocks
    assert values["time_to_first_token_seconds_count"] == 3
    assert values["inter_token_latency_seconds_count"] == 9
    assert values["e2e_request_latency_seconds_count"] == 3
    assert values["iteration_tokens_total_sum"] == 99 - 64 + 9
    assert values["request_refused_total http_400"] == 1
    assert values["request_refused_total context_length_exceeded"] == 1
    assert values["kv_cache_usage_perc"] == values["num_requests_running"] == 0


def test_counters_never_fall_while_requests_come_and_go(serve):
    served = serve(step_s=0.001, max_num_seqs=4, num_blocks=16)
    before: dict[str, float] = {}
    for i in range(20):
        served.complete(prompt=[[i] * 40, [i + 1] * 50, [i + 2] * 9], max_tokens=3)
        now = served.metrics()
        for name, value in before.items():
            if name.split(" ")[0].endswith(("_total", "_count", "_sum", "_created")):
                assert now[name] >= value, name
        before = now
    assert before["generation_tokens_total"] == 20 * 3 * 3


def test_preemptions_are_counted(serve):
    served = serve(step_s=0.0005, max_num_seqs=4, num_blocks=8)
    served.complete(prompt=[[1] * 30, [2] * 30, [3] * 30], max_tokens=40)
    wait_for(lambda: served.metrics()["num_preemptions_total"] > 0, "a preemption")
    assert served.metrics()["generation_tokens_total"] == 3 * 40
    assert served.metrics()["inter_token_latency_seconds_count"] == 3 * 39


def test_the_figures_are_the_traces(serve):
    """The same records give the same sums here and by the definitions of core.metrics."""
    served = serve(step_s=0.003, max_num_seqs=2)
    trace = Trace(served.engine.trace.header)
    take = served.service.metrics.take

    def both(records) -> None:
        for record in records:
            trace.add(record)
        take(records)

    served.service.metrics.take = both
    served.complete(prompt=["one", "two two", "three three three"], max_tokens=7)
    wait_for(lambda: served.metrics()["request_success_total length"] == 3, "3 are counted")
    values = served.metrics()
    requests = list(request_metrics(trace).values())
    assert len(requests) == 3
    for name, expected in {
        "time_to_first_token_seconds": [r.ttft for r in requests],
        "inter_token_latency_seconds": [gap for r in requests for gap in r.itl],
        "e2e_request_latency_seconds": [r.e2e for r in requests],
    }.items():
        assert values[f"{name}_count"] == len(expected)
        assert values[f"{name}_sum"] == pytest.approx(sum(expected), abs=1e-9)


def test_two_apps_in_one_process_do_not_meet():
    llm = LLM.simulated(CostModel(1e-3, 0.0, 0.0), num_blocks=64)
    with running(make_app(llm)) as first, running(make_app(llm)) as second:
        for _ in range(3):
            body = {"prompt": "x", "max_tokens": 2}
            assert httpx.post(f"{first}/v1/completions", json=body).status_code == 200
        assert 'generation_tokens_total{model_name="Llama-3.1-8B"} 6.0' in metrics_of(first)
        assert 'generation_tokens_total{model_name="Llama-3.1-8B"} 0.0' in metrics_of(second)


def metrics_of(url: str) -> str:
    return httpx.get(f"{url}/metrics").text


def test_running_and_waiting_are_seen_from_outside():
    llm = LLM.simulated(CostModel(0.05, 0.0, 0.0), num_blocks=64)
    with serving(llm, max_num_seqs=1) as served:
        with served.client.stream(
            "POST", "/v1/completions",
            json={"prompt": ["a", "b", "c"], "max_tokens": 20, "stream": True},
        ) as stream:  # fmt: skip
            parts = stream.iter_bytes()  # kept: without it the connection is closed
            next(parts)
            text = metrics_of(served.url)
        assert 'num_requests_running{model_name="Llama-3.1-8B"} 1.0' in text
        assert 'num_requests_waiting{model_name="Llama-3.1-8B"} 2.0' in text
