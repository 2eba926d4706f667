"""Real nginx before simulated replicas: shares (C53), deaths, drains, hang-ups, errors.

Two replicas are about sixteen times as fast as the third one.
"""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean

import httpx
import psutil
import pytest

from minillm.bench.arrivals import send_times
from minillm.bench.client import Target
from minillm.bench.load import Run, run_load
from minillm.bench.plan import Workload
from minillm.serve.replica import ReplicaPlan
from minillm.serve.replicas import MAX_REPLICAS, Replicas
from tests.capabilities import find_program
from tests.serve.conftest import LIVENESS_S, wait_for

NAME = ("--served-model-name", "m")
FAST = ("--simulate", "A100-80GB-SXM", *NAME)  # llama-3.1-8b, 12 ms a step
SLOW = ("--simulate", "RTX-A6000", "--sim-model", "llama-3.1-70b", "-pp", "4", *NAME)  # about 200


@pytest.fixture(scope="module")
def three() -> Iterator[Replicas]:
    find_program("nginx", "nginx")
    plans = [ReplicaPlan("fast", FAST), ReplicaPlan("fast", FAST), ReplicaPlan("slow", SLOW)]
    with Replicas(plans, grace_s=LIVENESS_S) as cluster:
        yield cluster


@pytest.fixture
def cluster(three: Replicas) -> Iterator[Replicas]:
    """The three when all are up and nothing runs; afterwards they are routed as by default."""
    wait_for(lambda: all(s.state == "up" for s in three.status()), "all are up", 2 * LIVENESS_S)
    wait_for(lambda: not any(running(three)), "nothing runs")
    yield three
    three.route("nginx", workers=2, zone=True)


def metric(url: str, name: str) -> int:
    text = httpx.get(f"{url}/metrics").text
    return int(sum(float(v) for v in re.findall(rf"^minillm:{name}\{{.*\}} (\S+)$", text, re.M)))


def running(cluster: Replicas) -> list[int]:
    return [metric(replica.url, "num_requests_running") for replica in cluster.replicas]


def finished(cluster: Replicas) -> list[int]:
    return [metric(replica.url, "request_success_total") for replica in cluster.replicas]


def route(cluster: Replicas, router: str, **settings) -> None:
    """Returns once nginx's new workers are at work: the old ones are gone, idle as they are."""
    before = nginx_workers(cluster)
    cluster.route(router, **settings)
    wanted = cluster.upstream.workers
    wait_for(
        lambda: not (nginx_workers(cluster) & before) and len(nginx_workers(cluster)) == wanted,
        "nginx has reloaded",
    )


def nginx_workers(cluster: Replicas) -> set[int]:
    master = psutil.Process(int((cluster.folder / "nginx.pid").read_text()))
    return {worker.pid for worker in master.children()}


def load(cluster: Replicas, count: int, rate: float, output_len: int, seed: int = 0) -> Run:
    """Poisson arrivals at the router."""
    work = Workload(dataset="fixed", input_len=16, output_len=output_len, seed=seed)
    plan = work.plan(send_times(count, rate, burstiness=1.0, seed=seed))
    run = Run(len(plan))
    asyncio.run(run_load(run, Target(f"{cluster.url}/v1", "m"), plan))
    return run


def mean_e2e(run: Run) -> float:
    assert all(request.completed for request in run.requests), [r.error for r in run.requests]
    return fmean(request.chunk_times[-1] - request.scheduled for request in run.requests)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def post(cluster: Replicas, **body) -> httpx.Response:
    body = {"prompt": "abc", "max_tokens": 3, **body}
    return httpx.post(f"{cluster.url}/v1/completions", json=body, timeout=LIVENESS_S)


# ── who gets what ───────────────────────────────────────────────────────────────────────────


@dataclass
class Share:
    counts: list[int]
    mean_e2e: float


def share(cluster: Replicas, router: str, workers: int) -> Share:
    route(cluster, router, workers=workers)
    before = finished(cluster)
    run = load(cluster, 75, 30.0, 12)
    counts = [now - then for now, then in zip(finished(cluster), before, strict=True)]
    return Share(counts, mean_e2e(run))


def test_least_conn_halves_the_mean_where_one_replica_is_slow(cluster: Replicas):
    """30 requests a second for 2.5 s; one takes 0.15 s on a fast replica, 2.5 s on the slow one."""
    blind = share(cluster, "round_robin", 2)
    one, four = share(cluster, "least_conn", 1), share(cluster, "least_conn", 4)
    assert blind.counts == [25, 25, 25]
    assert one.counts[2] <= 12
    assert abs(four.counts[2] - one.counts[2]) <= 3  # `zone`: four workers count as one
    assert blind.mean_e2e > 2 * max(one.mean_e2e, four.mean_e2e), (blind, one, four)


@pytest.mark.parametrize("workers", [1, 4])
def test_with_a_zone_held_streams_are_spread_exactly(cluster: Replicas, workers: int):
    route(cluster, "least_conn", workers=workers)
    with ExitStack() as held:
        for _ in range(12):  # each over a connection of its own, so over any worker
            body = {"prompt": "a", "max_tokens": 2000, "stream": True}
            url = f"{cluster.url}/v1/completions"
            held.enter_context(httpx.stream("POST", url, json=body, timeout=LIVENESS_S))
        assert running(cluster) == [4, 4, 4]
    wait_for(lambda: running(cluster) == [0, 0, 0], "hang-ups went through")


def test_a_session_stays_with_its_replica(cluster: Replicas):
    route(cluster, "hash")
    body, served = {"prompt": "abc", "max_tokens": 1}, {}
    with httpx.Client(base_url=cluster.url) as client:
        for session in range(12):
            headers = {"X-Session-Id": f"s{session}"}
            answers = [client.post("/v1/completions", json=body, headers=headers) for _ in "ab"]
            served[session] = {answer.headers["x-served-by"] for answer in answers}
    assert all(len(replicas) == 1 for replicas in served.values())
    assert len(set.union(*served.values())) > 1


# ── what goes through ───────────────────────────────────────────────────────────────────────


def test_tokens_come_one_by_one(cluster: Replicas):
    body = {"prompt": "a", "max_tokens": 20, "stream": True}
    times = []
    with httpx.stream("POST", f"{cluster.url}/v1/completions", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for part in answer.iter_bytes():
            times += [time.perf_counter()] * part.count(b'"text"')
    assert len(times) == 20
    assert times[-1] - times[0] > 0.15  # of 0.23 s on a fast replica
    assert len({round(t, 3) for t in times}) >= 10


def test_a_request_can_be_found_in_its_replicas_trace(cluster: Replicas):
    url = f"{cluster.url}/v1/completions"
    body = {"prompt": "a", "max_tokens": 1}
    given = httpx.post(url, json=body, headers={"X-Request-Id": "mine"}).json()["id"]
    assert given == "cmpl-mine"
    assert re.fullmatch("cmpl-[0-9a-f]{32}", httpx.post(url, json=body).json()["id"])


def test_errors_are_of_one_kind_whoever_refuses(cluster: Replicas):
    json_type = {"Content-Type": "application/json"}
    url = f"{cluster.url}/v1/completions"
    limit = b"x" * (1 << 20)
    answers = {
        413: httpx.post(url, content=limit + b"y", headers=json_type),  # nginx
        400: httpx.post(url, content=limit, headers=json_type),  # a replica
        404: httpx.get(f"{cluster.url}/metrics"),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert list(answer.json()["error"]) == ["message", "type", "param", "code"]
        assert answer.headers["content-type"] == "application/json"
    direct = httpx.post(f"{cluster.replicas[0].url}/v1/completions", content=limit + b"y",
                        headers=json_type)  # fmt: skip
    assert direct.json() == answers[413].json()
    assert httpx.get(f"{cluster.url}/trace").status_code == 404
    assert httpx.get(f"{cluster.url}/health").json() == {"status": "ok"}


def test_an_answer_without_stream_hangs_up_with_its_client(cluster: Replicas):
    body = {"prompt": "a", "max_tokens": 2000}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{cluster.url}/v1/completions", json=body, timeout=0.5)
    wait_for(lambda: not any(running(cluster)), "it was aborted")


# ── deaths ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class Call:
    """One stream of a closed loop of clients. Times: time.monotonic()."""

    began: float
    replica: str = ""
    ended: float = 0.0
    error: str | None = None


async def clients(cluster: Replicas, count: int, until: asyncio.Event, calls: list[Call]) -> None:
    async with httpx.AsyncClient(base_url=cluster.url, timeout=LIVENESS_S) as http:

        async def client() -> None:
            body = {"prompt": "abc", "max_tokens": 20, "stream": True}
            while not until.is_set():
                call = Call(time.monotonic())
                calls.append(call)
                try:
                    async with http.stream("POST", "/v1/completions", json=body) as answer:
                        call.replica = answer.headers.get("x-served-by", "")
                        text = (await answer.aread()).decode()
                        if answer.status_code != 200 or not text.endswith("data: [DONE]\n\n"):
                            call.error = f"{answer.status_code} {text[-200:]}"
                except httpx.HTTPError as error:
                    call.error = repr(error)
                call.ended = time.monotonic()

        await asyncio.gather(*(client() for _ in range(count)))


async def under_load(
    cluster: Replicas, harm: Callable[[], None], after_s: float
) -> tuple[list[Call], float]:
    """Nine clients before, while and after something is done to replica 0, until it is up again.

    Their calls, and when it was done.
    """
    calls: list[Call] = []
    until, lives = asyncio.Event(), cluster.status()[0].restarts
    task = asyncio.create_task(clients(cluster, 9, until, calls))
    await asyncio.sleep(0.7)
    at = time.monotonic()
    await asyncio.to_thread(harm)
    back = False
    while not back and time.monotonic() < at + 2 * LIVENESS_S:
        await asyncio.sleep(0.05)
        status = cluster.status()[0]
        back = status.restarts > lives and status.state == "up"
    await asyncio.sleep(after_s)
    until.set()
    await task
    assert back
    return calls, at


def test_a_killed_replica_fails_what_it_had_and_comes_back(cluster: Replicas):
    url, restarts = cluster.replicas[0].url, cluster.status()[0].restarts
    calls, at = asyncio.run(under_load(cluster, lambda: cluster.kill(0), after_s=3.0))
    address = url.removeprefix("http://")
    failed = [call for call in calls if call.error]
    in_flight = [call for call in calls if call.began <= at + 0.05 and call.ended >= at]
    assert all(call in in_flight for call in failed), failed
    assert len(failed) <= sum(call.replica in ("", address) for call in in_flight)
    status = cluster.status()[0]
    assert (status.state, status.restarts) == ("up", restarts + 1)
    assert status.last_end == "was ended by SIGKILL"
    assert finished(cluster)[0] > 0  # in its new life: it gets requests again
    words = [event.text for event in cluster.events]
    assert any(word.startswith("Replica 0 was ended by SIGKILL; it starts") for word in words)
    assert "Replica 0 is back." in words


def test_one_that_is_asked_to_end_finishes_what_it_has(cluster: Replicas):
    harm = lambda: cluster.kill(0, signal.SIGTERM)  # noqa: E731
    calls, at = asyncio.run(under_load(cluster, harm, after_s=0.5))
    in_flight = [call for call in calls if call.began < at and call.ended > at]
    assert len(in_flight) == 9
    assert not any(call.error for call in in_flight), in_flight
    refused = [call for call in calls if call.error]  # before nginx knew
    assert all(re.search("shutting_down|no_replica", call.error) for call in refused), refused
    assert all(call.began < at + 5.0 for call in refused)
    assert "ended with code 0" in cluster.status()[0].last_end
    assert cluster.upstream.out == frozenset()


def test_a_restart_fails_no_request(cluster: Replicas):
    calls, _ = asyncio.run(under_load(cluster, lambda: cluster.restart(0), after_s=1.0))
    assert len(calls) > 20
    assert not any(call.error for call in calls), [call for call in calls if call.error]
    assert "ended with code 0" in cluster.status()[0].last_end
    assert cluster.upstream.out == frozenset()


def test_nginx_itself_comes_back(cluster: Replicas):
    psutil.Process(int((cluster.folder / "nginx.pid").read_text())).kill()
    wait_for(lambda: any("nginx was ended" in e.text for e in cluster.events), "it is noticed")

    def answers() -> bool:
        try:
            return post(cluster).status_code == 200
        except httpx.TransportError:
            return False

    wait_for(answers, "nginx is back")


def test_when_none_is_up_the_answer_says_so(cluster: Replicas):
    pids = [status.pid for status in cluster.status()]
    for index in range(3):
        cluster.kill(index)
    wait_for(lambda: not any(alive(pid) for pid in pids), "all are dead")
    answer = post(cluster)
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "no_replica"
    assert int(answer.headers["retry-after"]) > 0


# ── start and end ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, MAX_REPLICAS + 1])
def test_a_number_that_cannot_be_is_refused(count: int):
    with pytest.raises(ValueError, match=f"1 to {MAX_REPLICAS} replicas here, got {count}"):
        Replicas([ReplicaPlan("x")] * count)


def test_a_replica_that_cannot_start_says_why():
    find_program("nginx", "nginx")
    other = Replicas([ReplicaPlan("a", ("--simulate",)), ReplicaPlan("b", ("--simulate", "B42"))])
    with pytest.raises(ValueError, match=r"^Replica 1 did not start: Unknown GPU 'B42'"):
        other.start()
    assert not other.folder.exists()
