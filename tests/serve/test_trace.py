"""/trace: header, snapshot, steps; resumed without a gap; quiet about what was said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from minillm.core.trace import BlockOp, RequestEvent, StepRecord, Trace, TraceHeader, parse_record
from minillm.serve import ServerSettings
from minillm.serve.trace_stream import MAX_BEHIND, RING_STEPS, TraceRing
from tests.serve.conftest import Served, wait_for

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "trace_stream.txt"
HEADER = TraceHeader("simulated", "mock", "hash chain", "none", "continuous", 6, 4, {}, 0.5)


def parse(blocks: list[str]) -> list[tuple[str, str, dict]]:
    """(event, id, data) of each frame; their form is checked."""
    frames = []
    for block in blocks:
        event, name, data = block.split("\n")
        assert event.startswith("event: ")
        assert name.startswith("id: ")
        assert data.startswith("data: ")
        frames.append((event[7:], name[4:], json.loads(data[6:])))
    return frames


def watch(served: Served, stop: str = "ping", last_id: str | None = None) -> list:
    """The frames of a new watcher up to the first of that event."""
    headers = {} if last_id is None else {"Last-Event-ID": last_id}
    text = ""
    with served.client.stream("GET", "/trace", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        for part in answer.iter_text():
            text += part
            if text.endswith("\n\n") and f"event: {stop}\n" in text:
                break
    return parse(text.split("\n\n")[:-1])


def records(frames: list) -> Iterator:
    return (parse_record(data) for event, _, data in frames if event in ("step", "request"))


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch):
    monkeypatch.setattr("minillm.serve.trace_stream.PING_S", 0.15)


def test_a_watcher_sees_header_snapshot_and_every_step(serve):
    served = serve(step_s=0.01)
    with served.client.stream("GET", "/trace") as early:
        parts = early.iter_text()
        next(parts)
        served.complete(prompt=[7] * 20, max_tokens=5)
        frames = watch(served)
        text = ""
        while "event: step" not in text or "event: ping" not in text.rpartition("event: step")[2]:
            text += next(parts)
    live = parse(text.split("\n\n")[:-1])
    kinds = [event for event, _, _ in live if event != "ping"]
    assert kinds == ["request", "request", "request", "step", *["step"] * 3, "request", "step"]
    assert [data["event"] for event, _, data in live if event == "request"] == [
        "arrive", "admit", "first_token", "finish",
    ]  # fmt: skip
    assert [data["step"] for event, _, data in live if event == "step"] == [0, 1, 2, 3, 4]
    trace = Trace(TraceHeader(**{k: v for k, v in frames[0][2].items() if k != "type"}))
    assert trace.header.provenance == "simulated"
    assert trace.header.t0_unix > 1.7e9
    late = [event for event, _, _ in frames]
    assert late == ["header", "snapshot", "ping"]
    assert frames[1][2]["requests"] == []


def test_a_snapshot_tells_who_runs_and_with_which_blocks(serve):
    served = serve(step_s=0.02, max_num_seqs=1)
    body = {"prompt": [[7] * 20, [8] * 5], "max_tokens": 60, "stream": True, "user": "Ada"}
    with served.client.stream("POST", "/v1/completions", json=body) as answer:
        parts = answer.iter_bytes()  # kept: without it the connection is closed
        next(parts)
        _, (_, name, snapshot), *_ = watch(served, "step")
    step = int(name.split(":")[1])
    assert snapshot["step"] == step >= 0
    assert (snapshot["running"], snapshot["waiting"]) == (1, 1)
    first, second = snapshot["requests"]
    assert (first["status"], second["status"]) == ("running", "waiting")
    assert first["nickname"] == "Ada"
    assert first["computed"] == 20 + step
    assert first["output_tokens"] == step + 1
    assert len(first["blocks"]) == snapshot["kv_used"] == -(-(20 + step) // 16)
    assert second["blocks"] == []


def test_last_event_id_goes_on_without_a_gap(serve):
    served = serve()
    served.complete(max_tokens=4)
    (_, _, header), (_, name, _), *_ = watch(served)
    served.complete(max_tokens=6)
    frames = watch(served, last_id=name)
    assert frames[0][2] == header
    steps = [data["step"] for event, _, data in frames if event == "step"]
    assert steps == list(range(int(name.split(":")[1]) + 1, steps[-1] + 1))
    assert len(steps) == 6
    assert next(r.event for r in records(frames) if isinstance(r, RequestEvent)) == "arrive"
    again = watch(served, last_id=frames[-1][1])
    assert [event for event, _, _ in again] == ["header", "ping"]


@pytest.mark.parametrize("name", ["", "1:2", "x", "0:-1", "{stream}:99999", "{stream}:²",
                                  "{stream}:-2"])  # fmt: skip
def test_an_id_that_the_ring_does_not_hold_gives_a_snapshot(simulated: Served, name):
    simulated.complete(max_tokens=2)
    name = name.format(stream=simulated.service.trace.stream_id)
    headers = [(b"Last-Event-ID", name.encode("latin-1"))]
    with simulated.client.stream("GET", "/trace", headers=headers) as answer:
        first = next(answer.iter_text())
    assert [event for event, _, _ in parse(first.split("\n\n")[:-1])] == ["header", "snapshot"]


@pytest.mark.parametrize("show", [False, True])
def test_what_was_said_is_shown_only_where_it_may_be(serve, show):
    served = serve(settings=ServerSettings(trace_text=show))
    zero = f"{served.service.trace.stream_id}:-1"
    served.complete(prompt="a secret", max_tokens=3)
    frames = watch(served, last_id=zero)
    tokens = [row.token_id for r in records(frames) if isinstance(r, StepRecord) for row in r.rows]
    previews = [data["prompt_preview"] for _, _, data in frames if data.get("event") == "arrive"]
    assert len(tokens) == 3
    assert previews == (["a secret"] if show else [""])
    assert all(token >= 3 for token in tokens) if show else tokens == [-1] * 3


def test_pings_tell_the_time(serve):
    served = serve()
    (*_, (event, name, data)) = watch(served)
    assert event == "ping"
    assert name == f"{served.service.trace.stream_id}:-1"
    assert 0 < data["t"] <= served.service.engine.now()


def test_a_head_request_ends(simulated: Served):
    answer = simulated.client.head("/trace")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_key_guards_it(serve):
    served = serve(settings=ServerSettings(api_keys=("k",)))
    assert httpx.get(f"{served.url}/trace").status_code == 401
    assert watch(served)[0][0] == "header"


# ── the ring itself ─────────────────────────────────────────────────────────────────────────


def step(number: int) -> StepRecord:
    return StepRecord(number, float(number), number + 1.0, 0, 1, 8, [(0, 1, 1, 0, 5, 42)], 1, 0)


def read(ring: TraceRing, count: int, last_id: str | None = None, between=None) -> list:
    return parse(read_text(ring, count, last_id, between).split("\n\n")[:-1])


def read_text(ring: TraceRing, count: int, last_id: str | None = None, between=None) -> str:
    """`count` reads of one watcher; between() is called after the first."""

    async def scenario() -> list[str]:
        watcher = ring.watch(last_id)
        parts = []
        for i in range(count):
            parts.append((await anext(watcher)).decode())
            if i == 0 and between is not None:
                between()
        await watcher.aclose()
        return parts

    return "".join(asyncio.run(scenario()))


def test_the_ring_keeps_the_last_steps_only():
    ring = TraceRing(lambda: HEADER, lambda: 0.0)
    for number in range(RING_STEPS + 3000):
        ring.add([step(number)])
    assert len(ring._frames) <= RING_STEPS + 512
    last = RING_STEPS + 2999
    held = read(ring, 1, f"{ring.stream_id}:{last - RING_STEPS + 1}")
    assert [data["step"] for _, _, data in held[1:]] == list(range(last - RING_STEPS + 2, last + 1))
    assert [event for event, _, _ in read(ring, 1, f"{ring.stream_id}:5")] == ["header", "snapshot"]


def test_a_flood_of_events_does_not_grow_the_ring():
    ring = TraceRing(lambda: HEADER, lambda: 0.0)
    ring.add([step(0)])
    for number in range(40_000):
        data = {"prompt_len": 1, "max_tokens": 1, "nickname": None, "prompt_preview": ""}
        ring.add([RequestEvent(1.0, number, "x", "arrive", data),
                  RequestEvent(1.0, number, "x", "abort", {"reason": "abort"})])  # fmt: skip
    assert len(ring._frames) < 4 * RING_STEPS + 512
    ring.add([step(1)])
    assert ring._state.requests == {}


def test_a_watcher_far_behind_gets_a_snapshot_instead():
    ring = TraceRing(lambda: HEADER, lambda: 0.0)

    def far_ahead() -> None:
        ring.add([step(number) for number in range(MAX_BEHIND + 1)])

    frames = read(ring, 2, between=far_ahead)
    assert [event for event, _, _ in frames] == ["header", "snapshot", "snapshot"]
    assert frames[-1][2]["step"] == MAX_BEHIND
    near = TraceRing(lambda: HEADER, lambda: 0.0)
    frames = read(near, 2, between=lambda: near.add([step(n) for n in range(MAX_BEHIND)]))
    assert [event for event, _, _ in frames] == ["header", "snapshot", *["step"] * MAX_BEHIND]


def transcript() -> Iterator[list]:
    """A short run by hand, in two parts: Zoë's request runs and ends, another one waits."""
    first = {"prompt_len": 5, "max_tokens": 3, "nickname": "Zoë", "prompt_preview": "hello"}
    second = {**first, "nickname": None, "prompt_preview": ""}
    terms = {"weights": 0.5, "tokens": 0.25}
    yield [
        RequestEvent(0.5, 0, "cmpl-a-0", "arrive", first),
        RequestEvent(0.5, 0, "cmpl-a-0", "admit", {"tokens_cached": 0}),
        RequestEvent(1.25, 0, "cmpl-a-0", "first_token", {}),
        StepRecord(0, 0.5, 1.25, 0, 1, 8, [(0, 0, 5, 0, 0, 36)], 2, 0,
                   [BlockOp("a", 0, 0), BlockOp("a", 1, 0)], 0, terms),
        RequestEvent(1.5, 1, "cmpl-b-0", "arrive", second),
    ]  # fmt: skip
    yield [
        StepRecord(1, 1.25, 2.0, 1, 1, 8, [(0, 1, 1, 0, 5, 41)], 2, 0, [], 0, terms),
        RequestEvent(2.75, 0, "cmpl-a-0", "finish", {"reason": "length"}),
        StepRecord(2, 2.0, 2.75, 1, 1, 8, [(0, 1, 1, 0, 6, 7)], 0, 1,
                   [BlockOp("f", 1, 0), BlockOp("f", 0, 0)], 0, terms),
    ]  # fmt: skip


def test_the_transcript_is_the_golden_one():
    """What a reader of /trace has to understand, byte by byte."""
    ring = TraceRing(lambda: HEADER, lambda: 12.5)
    ring.stream_id = 7
    before, after = transcript()
    ring.add(before)

    def go_on() -> None:
        ring.add(after)

    text = read_text(ring, 3, between=go_on)  # header and snapshot; the rest; a ping
    assert text == GOLDEN.read_text(encoding="utf-8")


def test_watchers_that_leave_are_forgotten(serve):
    served = serve()
    for _ in range(3):
        watch(served)
    wait_for(lambda: served.service.trace.num_watchers == 0, "no watcher is left")
