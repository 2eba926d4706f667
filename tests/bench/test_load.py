"""The client against a scripted server: known delays, failures, broken streams, Ctrl-C.

C42: what counts as the first token; C44: several tokens in a chunk; C45: one token has no TPOT;
C46: failures improve nothing.
"""

from __future__ import annotations

import asyncio
import math
import resource
import time
from statistics import median

import pytest

from minillm.bench.arrivals import send_times
from minillm.bench.client import Target, find_model, normalize_url
from minillm.bench.http_pool import open_pool
from minillm.bench.load import Run, measure, run_load
from minillm.bench.plan import Workload
from minillm.bench.summary import parse_slo, summarize_run, warnings
from tests.bench.stub_server import DONE, Exchange, StubServer, delta, text, usage

SLACK_S = 0.005  # and 5 %: how far the client may be from the server's own stamps, at the median


def serve(script, count=20, *, rate=None, limit=4, closed=None, endpoint="completions", **target):
    """(run, stub) of `count` requests to a script."""
    times = send_times(count, rate, burstiness=math.inf)
    plan = Workload(input_len=5, output_len=20).plan(times)
    closed = (rate is None and limit is not None) if closed is None else closed
    with StubServer(script) as stub:
        goal = Target(stub.url, "stub", endpoint, timeout_s=target.pop("timeout_s", 30), **target)
        return measure(goal, plan, max_concurrency=limit, closed=closed), stub


def pairs(run: Run, stub: StubServer) -> list[tuple]:
    """Each request's record with the server's exchange: every prompt is another one."""
    prompts = {p.prompt: p.index for p in Workload(input_len=5, output_len=20).plan([0.0] * 200)}
    by_index = {record.index: record for record in run.requests}
    return [(by_index[prompts[_prompt(e.body)]], e) for e in stub.exchanges]


def _prompt(body: dict) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][0]["content"]


def agrees(client_s: list[float], server_s: list[float]) -> None:
    """Noise of a busy machine only adds: a wrong definition would be wrong in the least too."""
    errors = sorted(abs(a - b) for a, b in zip(client_s, server_s, strict=True))
    allowed = SLACK_S + 0.05 * median(server_s)
    assert errors[0] < allowed
    assert median(errors) < 5 * allowed


# ── known delays ────────────────────────────────────────────────────────────────────────────


async def role_first(exchange: Exchange) -> None:
    """The role at once, comments, the first word after 50 ms, then one each 20 ms; usage last."""
    await exchange.start()
    await exchange.send(delta("", role="assistant"))
    await exchange.send(": ping\n\n", 20)
    for i in range(4):
        await exchange.send(delta("word "), 50 + 20 * i)
    await exchange.send(delta(finish="length"))
    await exchange.send(usage(4))
    await exchange.send(DONE)


def test_ttft_is_the_first_word_and_not_the_role():
    run, stub = serve(role_first, endpoint="chat")
    figures = summarize_run(run.requests)
    assert (figures["completed"], figures["failed"]) == (20, 0)
    assert (figures["total_output_tokens"], figures["total_input_tokens"]) == (80, 140)
    assert 50 <= figures["median_ttft_ms"] < 50 + 5 * 50
    both = pairs(run, stub)
    agrees([r.ttft_sent for r, _ in both], [e.stamps[2] - e.arrived for _, e in both])
    agrees([r.e2e_sent for r, _ in both], [e.stamps[5] - e.arrived for _, e in both])
    agrees([r.tpot for r, _ in both], [(e.stamps[5] - e.stamps[2]) / 3 for _, e in both])
    assert figures["median_itl_ms"] == pytest.approx(20, rel=0.25)
    assert all("messages" in e.body and e.body["stream_options"] for e in stub.exchanges)


async def four_a_chunk(exchange: Exchange) -> None:
    """20 tokens in 5 chunks of 4 at 10 ms a token."""
    await exchange.start()
    for i in range(5):
        await exchange.send(text("a b c d "), 40 * (i + 1))
    await exchange.send(usage(20) + DONE)


def test_four_tokens_a_chunk():
    run, _ = serve(four_a_chunk)
    figures = summarize_run(run.requests)
    assert figures["median_icl_ms"] == pytest.approx(40, rel=0.25)
    assert figures["median_tpot_ms"] == pytest.approx(160 / 19, rel=0.25)
    assert figures["mean_itl_ms"] is None
    assert figures["tokens_per_chunk"] == 4
    assert figures["total_output_tokens"] == 400
    assert any("chunk carries 4.0 tokens" in note for note in warnings(figures, True, True))


async def every_fifth_fails(exchange: Exchange) -> None:
    if exchange.number % 5 == 4:
        return await exchange.fail(503, "the queue is full")
    await exchange.start()
    await exchange.send(text("a"), 20)
    await exchange.send(text("b", "length") + usage(2) + DONE, 40)
    return None


def test_failures_are_counted_apart():
    run, _ = serve(every_fifth_fails, 50, limit=8)
    figures = summarize_run(run.requests, parse_slo(["ttft:10000"]))
    assert (figures["completed"], figures["failed"], figures["error_rate"]) == (40, 10, 0.2)
    assert figures["errors"] == {"HTTP 503": 10}
    assert figures["samples"]["ttft"] == 40
    assert figures["median_ttft_ms"] >= 20  # a refusal within 1 ms improves nothing
    assert figures["request_throughput"] == pytest.approx(40 / figures["duration"])
    assert figures["request_goodput"] == pytest.approx(40 / figures["duration"])
    assert figures["total_output_tokens"] == 80
    assert all("the queue is full" in r.error for r in run.requests if r.failed)


# ── what servers do wrong ───────────────────────────────────────────────────────────────────


async def cut_anywhere(exchange: Exchange) -> None:
    """\\r\\n\\r\\n between events, no content-type of events, bytes one by one."""
    await exchange.start(content_type="text/plain")
    wire = text("ü→").replace("\\u00fc", "ü") + ": ping\n\n" + text("b", "stop") + usage(2) + DONE
    for byte in wire.replace("\n", "\r\n").encode():
        await exchange.send(bytes([byte]))


async def dies_midway(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send(text("a") + text("b")[:20])
    exchange.abort()


async def ends_early(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send(text("a"))


async def nonsense(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send("data: {]\n\n")


async def error_event(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send(text("a") + 'data: {"error": {"message": "engine died"}}\n\n')


async def hangs(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send(text("a"))
    await asyncio.sleep(60)


async def slams_the_door(exchange: Exchange) -> None:
    exchange.abort()


async def a_web_page(exchange: Exchange) -> None:
    await exchange.start(404, "text/html")
    await exchange.send("<html>Not  here</html>" + "x" * 100_000)


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (dies_midway, "connection lost"), (ends_early, "cut short"),
        (nonsense, "malformed stream"), (error_event, "error event"), (hangs, "timeout"),
        (slams_the_door, "connection lost"), (a_web_page, "HTTP 404"),
    ],
)  # fmt: skip
def test_each_kind_of_failure(script, kind: str):
    run, _ = serve(script, 3, timeout_s=0.5 if script is hangs else 30)
    figures = summarize_run(run.requests)
    assert figures["errors"] == {kind: 3}
    assert figures["request_throughput"] == 0.0
    for key in ("mean_ttft_ms", "p99_tpot_ms", "median_e2el_ms", "tokens_per_chunk"):
        assert figures[key] is None
    assert all(r.error and len(r.error) <= 400 for r in run.requests)


def test_frames_cut_anywhere_are_read():
    run, stub = serve(cut_anywhere, 3, limit=1)
    assert [r.usage_tokens for r in run.requests] == [2, 2, 2]
    assert all(len(r.chunk_times) == 2 and r.completed for r in run.requests)
    assert stub.connections == 1  # a stream that was read to its end leaves the connection good


def test_a_server_that_is_not_there():
    with StubServer(ends_early) as stub:
        url = stub.url
    run = measure(Target(url, "stub"), Workload().plan([0.0, 0.0]))
    assert summarize_run(run.requests)["errors"] == {"no connection": 2}

    async def ask() -> None:
        async with open_pool(url, None, 5) as http:
            await find_model(http, url, None)

    with pytest.raises(ValueError, match="No server answers"):
        asyncio.run(ask())


# ── when it sends ───────────────────────────────────────────────────────────────────────────


async def quick(exchange: Exchange) -> None:
    await exchange.start()
    await exchange.send(text("a", "length") + usage(1) + DONE, 10)


def test_an_open_loop_keeps_its_schedule_whatever_the_server_does():
    run, stub = serve(role_first, 25, rate=50.0, limit=None)
    due = [r.scheduled for r in run.requests]
    assert due == pytest.approx([0.02 * (i + 1) for i in range(25)])
    late = [r.client_queue for r in run.requests]
    assert 0 <= min(late) < 5 * SLACK_S
    assert median(late) < 20 * SLACK_S
    assert late[-1] < 1  # being late does not add up
    assert len(stub.exchanges) == 25


def test_waiting_for_a_slot_counts_from_when_it_was_due():
    """2 at a time, 50 requests a second, 110 ms each: the last one waits long, in the client."""
    run, _ = serve(role_first, 8, rate=50.0, limit=2)
    last = max(run.requests, key=lambda r: r.scheduled)
    assert last.client_queue > 0.15
    assert last.ttft == pytest.approx(last.ttft_sent + last.client_queue)
    assert summarize_run(run.requests)["max_concurrent_requests"] == 2


def test_a_closed_loop_has_no_wait_in_the_client():
    run, _ = serve(role_first, 12, limit=3)
    figures = summarize_run(run.requests)
    assert figures["max_concurrent_requests"] == 3
    assert figures["p99_client_queue_ms"] < 5 * 1e3 * SLACK_S


def test_one_token_has_no_tpot_and_few_samples_are_flagged():
    run, _ = serve(quick, 10)
    figures = summarize_run(run.requests)
    assert (figures["mean_tpot_ms"], figures["p99_tpot_ms"], figures["mean_icl_ms"]) == (None,) * 3
    assert figures["samples"]["tpot"] == 0
    assert "ttft" in figures["few_for_p99"]
    assert "tpot" not in figures["few_for_p99"]


# ── the end ─────────────────────────────────────────────────────────────────────────────────


def test_cancelling_keeps_what_there_is_and_leaves_no_task():
    async def script(exchange: Exchange) -> None:
        await (quick if exchange.number < 5 else hangs)(exchange)

    async def main(url: str) -> Run:
        run, before = Run(40), asyncio.all_tasks()
        plan = Workload(output_len=1).plan([0.005 * i for i in range(40)])
        load = asyncio.create_task(
            run_load(run, Target(url, "stub"), plan, progress=lambda _: None)
        )
        while len(run.requests) < 20 or sum(r.completed for r in run.requests) < 5:
            await asyncio.sleep(0.01)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        assert asyncio.all_tasks() == before
        return run

    with StubServer(script) as stub:
        run = asyncio.run(asyncio.wait_for(main(stub.url), 60))
    figures = summarize_run(run.requests)
    assert (figures["completed"], figures["failed"]) == (5, 0)
    assert figures["unfinished"] == len(run.requests) - 5 >= 15
    assert figures["samples"]["ttft"] == 5


def test_two_hundred_at_once_leave_no_file_open():
    before = _open_files()
    started = time.perf_counter()
    run, stub = serve(quick, 200, rate=None, limit=None, closed=False)
    assert time.perf_counter() - started < 5 * 6
    assert summarize_run(run.requests)["completed"] == 200
    assert len(stub.exchanges) == 200
    assert _open_files() <= before + 2


def _open_files() -> int:
    import os

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert most > 500, "too few files for this test"
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("https://x.example/openai/v1/", "https://x.example/openai/v1"),
    ],
)
def test_base_urls(given: str, url: str):
    assert normalize_url(given) == url


@pytest.mark.parametrize("wrong", ["ftp://x", "http://", "http://x:99999", "http://x/v1?a=b"])
def test_wrong_base_urls_are_refused(wrong: str):
    with pytest.raises(ValueError, match="base-url"):
        normalize_url(wrong)


def test_the_key_goes_along_and_is_never_shown():
    target = Target("http://127.0.0.1:1/v1", "m", api_key="sk-secret")
    assert "secret" not in repr(target)
    run, stub = serve(quick, 2, api_key="sk-secret", extra_body={"top_k": 1, "ignore_eos": False})
    assert {e.headers["authorization"] for e in stub.exchanges} == {"Bearer sk-secret"}
    assert all(e.body["top_k"] == 1 and e.body["ignore_eos"] is False for e in stub.exchanges)
    assert "secret" not in str(run.requests)
