"""A class on one server: who gets in, who sees what, who may change what, and what is refused."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.core.trace import RequestEvent, StepRecord
from minillm.llm import LLM
from minillm.serve import Classroom, ServerSettings
from minillm.serve.class_tally import WINDOW_S, ClassTally
from minillm.serve.classroom import (
    CODE_LETTERS,
    MAX_ADDRESSES,
    MAX_NICKNAME,
    MAX_STUDENTS,
    RETRY_S,
    TRIES,
    check_nickname,
    read_code,
)
from minillm.serve.server import class_address, listen
from minillm.sim import SimulatedRunner
from tests.serve.conftest import Served, serving, wait_for

# ── the model ───────────────────────────────────────────────────────────────────────────────────


def test_a_join_code_has_40_bits_and_is_read_however_it_is_typed():
    codes = {Classroom().code for _ in range(200)}
    assert len(codes) == 200
    for code in codes:
        plain = code.replace("-", "")
        assert len(plain) == 8
        assert set(plain) <= set(CODE_LETTERS)
    assert len(CODE_LETTERS) ** 8 == 2**40
    assert read_code(" k1o0-lI3v ") == read_code("K100-113V") == "K100113V"


@given(st.text(max_size=60))
def test_a_nickname_is_short_printable_and_stable_or_refused(text):
    try:
        name = check_nickname(text)
    except ValueError:
        return
    assert 1 <= len(name) <= MAX_NICKNAME
    assert name.isprintable()
    assert check_nickname(name) == name


@pytest.mark.parametrize(
    "name", ["", "   ", "x" * 25, "a\x00b", "<b>", "\u202eevil", "ada\n\nb/c", "...", "Instructor",
             "GUEST", 7, None, "😀"],
)  # fmt: skip
def test_nicknames_that_cannot_be(name):
    with pytest.raises(ValueError):
        Classroom().join(name)


def test_a_taken_nickname_gets_a_number():
    room = Classroom()
    names = [
        room.join(n)[0].nickname for n in ("Ada", "ada", " ADA ", "Ａda", "Grace", "Zoë", "李")
    ]
    assert names == ["Ada", "ada 2", "ADA 3", "Ａda 4", "Grace", "Zoë", "李"]
    long = [room.join("x" * 24)[0].nickname for _ in range(11)]
    assert len(set(long)) == 11
    assert max(map(len, long)) == MAX_NICKNAME


def test_a_class_has_room_for_so_many():
    room = Classroom()
    for number in range(MAX_STUDENTS):
        room.join(f"s{number}")
    with pytest.raises(ValueError, match="500"):
        room.join("one more")


def test_who_guesses_codes_is_locked_out_for_a_while():
    now = [0.0]
    room = Classroom(clock=lambda: now[0])
    for _ in range(TRIES):
        assert not room.is_locked("a")
        room.note_wrong("a")
    assert room.is_locked("a")
    assert not room.is_locked("b")
    now[0] += RETRY_S + 0.01
    assert not room.is_locked("a")
    for number in range(2 * MAX_ADDRESSES):
        room.note_wrong(str(number))
    assert len(room._tries) == MAX_ADDRESSES


def test_the_tally_shows_who_floods():
    tally = ClassTally()
    arrive = {"prompt_len": 90, "max_tokens": 9, "nickname": "Ada", "prompt_preview": ""}
    tally.take([
        RequestEvent(0.0, 0, "a", "arrive", arrive),
        RequestEvent(0.0, 1, "b", "arrive", {**arrive, "nickname": "Bob"}),
        RequestEvent(0.0, 2, "c", "arrive", {**arrive, "nickname": "Bob"}),
        RequestEvent(0.0, 3, "d", "arrive", arrive),
        RequestEvent(0.0, 3, "d", "refuse", {"reason": "too many"}),
        RequestEvent(0.1, 0, "a", "admit", {"tokens_cached": 0}),
        RequestEvent(0.1, 1, "b", "admit", {"tokens_cached": 0}),
        StepRecord(0, 0.1, 0.2, 1, 2, None, [(0, 0, 90, 0, 0, 5), (1, 0, 10, 0, 0, 5)], 9, 0),
    ])  # fmt: skip
    ada, bob = tally.rows(1.0)
    assert (ada["nickname"], ada["in_flight"], ada["running"], ada["refused"]) == ("Ada", 1, 1, 1)
    assert (bob["in_flight"], bob["running"], bob["waiting"]) == (2, 1, 1)
    assert (ada["share"], bob["share"]) == (0.9, 0.1)
    assert ada["tok_s"] == 1 / WINDOW_S
    tally.take([RequestEvent(0.2, 0, "a", "finish", {"reason": "stop"})])
    assert next(r for r in tally.rows(1.0) if r["nickname"] == "Ada")["in_flight"] == 0
    later = tally.rows(0.3 + WINDOW_S)
    assert {row["share"] for row in later} == {None}
    assert {row["tok_s"] for row in later} == {0.0}
    assert later[0]["nickname"] == "Bob"  # in flight comes before idle


def test_the_tally_forgets_a_flood_of_refusals():
    tally = ClassTally()
    data = {"prompt_len": 1, "max_tokens": 1, "nickname": "Eve", "prompt_preview": ""}
    for req in range(2000):
        tally.take([RequestEvent(0.0, req, "r", "arrive", data),
                    RequestEvent(0.0, req, "r", "refuse", {"reason": "no"})])  # fmt: skip
    assert (tally._live, tally._ended) == ({}, set())
    assert tally.rows(0.0)[0]["refused"] == 2000


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────


class Student:
    """A client with a key of its own."""

    def __init__(self, served: Served, nickname: str, code: str) -> None:
        self.http = httpx.Client(base_url=served.url, timeout=20, trust_env=False)
        answer = self.join(nickname, code)
        assert answer.status_code == 200, answer.text
        self.told = answer.json()
        self.nickname = self.told["nickname"]
        self.http.headers["Authorization"] = f"Bearer {self.told['key']}"

    def join(self, nickname: str, code: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {code}"}
        return self.http.post("/class/join", json={"nickname": nickname}, headers=headers)

    def complete(self, **body) -> httpx.Response:
        return self.http.post("/v1/completions", json={"prompt": "abcd", "max_tokens": 4, **body})

    def watch(self, until: Callable[[dict], bool], last_id: str = "") -> list[tuple[str, dict]]:
        """(id, data) of each frame of /trace until one fulfils the condition."""
        frames, name = [], ""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        with self.http.stream("GET", "/trace", headers=headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    name = line[4:]
                if line.startswith("data: "):
                    frames.append((name, json.loads(line[6:])))
                    if until(frames[-1][1]):
                        break
        return frames


@pytest.fixture
def room() -> Classroom:
    return Classroom(2)


@pytest.fixture
def served(serve, room: Classroom) -> Served:
    made = serve(step_s=0.01, settings=ServerSettings(classroom=room))
    made.client.headers["Authorization"] = f"Bearer {room.instructor_key}"
    return made


def control(served: Served, **changes) -> httpx.Response:
    return served.client.post("/class/control", json=changes)


def idle_ping(data: dict) -> bool:
    return data["type"] == "ping"


@pytest.fixture(autouse=True)
def quick_pings(monkeypatch):
    monkeypatch.setattr("minillm.serve.trace_stream.PING_S", 0.3)


def test_an_open_address_is_refused_without_a_key_and_fine_with_a_class():
    with pytest.raises(ValueError, match=r"0\.0\.0\.0 can be reached from other machines"):
        listen("0.0.0.0", 0, ServerSettings().guarded)
    with listen("0.0.0.0", 0, ServerSettings(classroom=Classroom()).guarded) as listener:
        url = class_address(listener)
        assert url.startswith("http://")
        assert "0.0.0.0" not in url


def test_nobody_gets_in_without_the_code_or_a_key(served, room):
    stranger = httpx.Client(base_url=served.url)
    for path in ("/v1/models", "/trace", "/metrics", "/class"):
        refusal = stranger.get(path)
        assert refusal.status_code == 401
        assert "Bearer CODE" in refusal.json()["error"]["message"]
    assert stranger.get("/health").status_code == 200
    wrong = {"Authorization": "Bearer AAAA-AAAA"}
    answer = stranger.post("/class/join", json={"nickname": "Eve"}, headers=wrong)
    assert answer.status_code == 401
    assert "join code" in answer.json()["error"]["message"]
    typed = room.code.lower().replace("-", " ").replace("0", "o")
    ada = Student(served, "Ada", typed)
    assert ada.complete().status_code == 200
    assert ada.told["policy"] == "continuous"
    assert "students" not in ada.told


def test_wrong_codes_are_slowed_down_and_own_keys_still_work(served, room):
    ada = Student(served, "Ada", room.code)
    for _ in range(TRIES):
        assert ada.join("Eve", "AAAA-AAAA").status_code == 401
    answer = ada.join("Eve", room.code)
    assert answer.status_code == 429
    assert answer.headers["retry-after"]
    assert ada.complete().status_code == 200


def test_a_bad_nickname_is_refused_with_a_sentence(served, room):
    ada = Student(served, "Ada", room.code)
    for body in ({"nickname": "<script>"}, {"nickname": 7}, {}, {"nickname": "B", "x": 1}, []):
        headers = {"Authorization": f"Bearer {room.code}"}
        answer = ada.http.post("/class/join", json=body, headers=headers)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].endswith(".")


def test_each_sees_all_rows_but_only_their_own_text(served, room):
    ada, bob = Student(served, "Ada", room.code), Student(served, "Bob", room.code)
    assert ada.complete(prompt="secret of Ada", user="Bob").status_code == 200
    assert bob.complete(prompt="secret of Bob").status_code == 200
    start = f"{served.service.trace.stream_id}:-1"
    guest = Student(served, "x", room.code)
    guest.http.headers["Authorization"] = f"Bearer {room.code}"
    teacher = Student(served, "y", room.code)
    teacher.http.headers["Authorization"] = f"Bearer {room.instructor_key}"
    seen = {}
    for name, viewer in (("Ada", ada), ("Bob", bob), ("guest", guest), ("all", teacher)):
        frames = [data for _, data in viewer.watch(idle_ping, start)]
        arrive = [d for d in frames if d.get("event") == "arrive"]
        assert [d["nickname"] for d in arrive] == ["Ada", "Bob"]  # `user` can't claim another's
        tokens = [
            [row[5] for d in frames if d["type"] == "step" for row in d["rows"] if row[0] == req]
            for req in (0, 1)
        ]
        assert list(map(len, tokens)) == [4, 4]
        seen[name] = [
            (d["prompt_preview"], min(each) >= 0) for d, each in zip(arrive, tokens, strict=True)
        ]
    assert seen == {
        "Ada": [("secret of Ada", True), ("", False)],
        "Bob": [("", False), ("secret of Bob", True)],
        "guest": [("", False), ("", False)],
        "all": [("secret of Ada", True), ("secret of Bob", True)],
    }


def test_a_snapshot_keeps_others_prompts_to_itself(served, room):
    ada, bob = Student(served, "Ada", room.code), Student(served, "Bob", room.code)
    body = {"prompt": "secret of Ada", "max_tokens": 500, "stream": True}
    with ada.http.stream("POST", "/v1/completions", json=body) as answer:
        parts = answer.iter_bytes()  # kept: without it the connection is closed
        next(parts)
        for viewer, prompt in ((ada, "secret of Ada"), (bob, "")):
            frames = viewer.watch(lambda data: data["type"] == "snapshot")
            (request,) = frames[-1][1]["requests"]
            assert (request["nickname"], request["prompt_preview"]) == ("Ada", prompt)


def test_one_students_flood_gets_429_and_shows(served, room):
    ada, bob = Student(served, "Ada", room.code), Student(served, "Bob", room.code)
    body = {"prompt": "abcd", "max_tokens": 300, "ignore_eos": True, "stream": True}
    with ada.http.stream("POST", "/v1/completions", json={**body, "prompt": ["a", "b"]}) as answer:
        parts = answer.iter_bytes()  # kept: without it the connection is closed
        next(parts)
        refused = ada.complete()
        assert refused.status_code == 429
        assert refused.json()["error"] == {
            "message": "Ada has 2 in flight and asked for 1 more, but a student may have 2 at "
            "once: wait for an answer first.",
            "type": "rate_limit_error", "param": None, "code": "student_limit",
        }  # fmt: skip
        assert refused.headers["retry-after"] == "1"
        assert bob.complete().status_code == 200
        table = {row["nickname"]: row for row in served.client.get("/class").json()["students"]}
        assert table["Ada"]["in_flight"] == 2
        assert table["Ada"]["refused"] == 1
        assert table["Ada"]["share"] > table["Bob"]["share"]
    wait_for(served.idle, "idle")
    assert ada.complete().status_code == 200
    assert served.metrics()["request_refused_total student_limit"] == 1
    events = [d for _, d in bob.watch(idle_ping, f"{served.service.trace.stream_id}:-1")]
    reasons = [d["reason"] for d in events if d.get("event") == "refuse"]
    assert reasons == [refused.json()["error"]["message"]]


def test_only_the_instructor_changes_things(served, room):
    ada = Student(served, "Ada", room.code)
    assert ada.http.post("/class/control", json={"paused": True}).status_code == 403
    assert not served.service.engine.paused
    assert "students" not in ada.http.get("/class").json()
    told = served.client.get("/class").json()
    assert told["join_code"] == room.code
    assert [row["nickname"] for row in told["students"]] == ["Ada"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policy": "magic"}, "choose one of static, dynamic, continuous"),
        ({"max_num_seqs": 0}, "max_num_seqs must be an integer ≥ 1, got 0."),
        ({"max_num_batched_tokens": 2}, "must be at least max_num_seqs (8)"),
        ({"student_limit": 0}, "from 1 to 1000, got 0"),
        ({"paused": "yes"}, "paused: Input should be a valid boolean"),
        ({"color": 1}, "color: Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be_set_is_refused_whole(served, change, says):
    before = served.client.get("/class").json()
    answer = control(served, **{"student_limit": 3, **change})
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert served.client.get("/class").json() == before


def test_pause_loses_nothing_and_resume_goes_on(serve, room):
    served = serve(step_s=0.01, settings=ServerSettings(classroom=room, max_queue_size=3))
    served.client.headers["Authorization"] = f"Bearer {room.instructor_key}"
    ada = Student(served, "Ada", room.code)
    texts: list[str] = []

    def stream() -> None:
        body = {"prompt": "abcd", "max_tokens": 120, "stream": True}
        with ada.http.stream("POST", "/v1/completions", json=body) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    texts.append(json.loads(line[6:])["choices"][0]["text"])

    thread = threading.Thread(target=stream)
    thread.start()
    wait_for(lambda: len(texts) > 3, "some tokens")
    assert control(served, paused=True).json()["paused"]
    time.sleep(0.1)
    at = len(texts)
    steps = served.engine._num_steps
    time.sleep(0.2)
    assert (len(texts), served.engine._num_steps) == (at, steps)
    pings = ada.watch(lambda data: data.get("paused", False))
    assert pings[-1][1]["type"] == "ping"
    # Whoever waits past their deadline is answered though all stands still; the queue is bounded.
    late = served.complete(deadline_s=0.1)
    assert (late.status_code, late.json()["error"]["code"]) == (503, "deadline_exceeded")
    waiting = 3
    jobs = [threading.Thread(target=served.complete) for _ in range(waiting)]
    for job in jobs:
        job.start()
    wait_for(lambda: served.service.engine.num_waiting >= waiting, "all wait")
    assert served.complete().json()["error"]["code"] == "queue_full"
    assert not control(served, paused=False).json()["paused"]
    for job in [thread, *jobs]:
        job.join(20)
    assert len(texts) == 120
    wait_for(served.idle, "idle")


def test_a_drain_ends_a_pause(serve, room):
    served = serve(step_s=0.01, settings=ServerSettings(classroom=room))
    served.client.headers["Authorization"] = f"Bearer {room.instructor_key}"
    control(served, paused=True)
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(served.complete(max_tokens=3)))
    thread.start()
    wait_for(lambda: served.service.engine.num_waiting == 1, "it waits")
    engine = served.service.engine
    asyncio.run_coroutine_threadsafe(engine.drain(10.0), engine._loop).result(20)
    thread.join(20)
    assert answers[0].status_code == 200


def test_policy_and_limits_change_while_everybody_runs(served, room):
    ada, bob = Student(served, "Ada", room.code), Student(served, "Bob", room.code)
    answers: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda s=s, n=n: answers.append(s.complete(max_tokens=n)))
        for s in (ada, bob) for n in (60, 40)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    wait_for(lambda: len(served.engine.scheduler.running) == 4, "4 run")
    told = control(served, policy="static", max_num_seqs=2, max_num_batched_tokens=64).json()
    assert (told["policy"], told["max_num_seqs"], told["draining_for_swap"]) == ("static", 2, True)
    for thread in threads:
        thread.join(20)
    assert [a.status_code for a in answers] == [200] * 4
    assert sorted(a.json()["usage"]["completion_tokens"] for a in answers) == [40, 40, 60, 60]
    assert ada.complete().status_code == 200
    assert served.engine.scheduler.name == "static"
    headers = [
        d for _, d in bob.watch(idle_ping, f"{served.service.trace.stream_id}:-1")
        if d["type"] == "header"
    ]  # fmt: skip
    assert [h["policy"] for h in headers][-1] == "static"
    assert headers[-1]["config"]["max_num_seqs"] == 2
    assert headers[-1]["config"]["max_wait_s"] == 1.0
    control(served, policy="continuous", student_limit=1)
    assert ada.complete(prompt=["a", "b"]).status_code == 429


def test_refusals_of_a_full_queue_and_of_a_huge_body_show_in_the_trace(serve):
    served = serve(step_s=0.05, settings=ServerSettings(max_queue_size=1), max_num_seqs=1)
    body = {"prompt": "abcd", "max_tokens": 40, "stream": True, "user": "Ada"}
    start = f"{served.service.trace.stream_id}:-1"
    with served.client.stream("POST", "/v1/completions", json=body) as answer:
        parts = answer.iter_bytes()  # kept: without it the connection is closed
        next(parts)
        waits = threading.Thread(target=served.complete)
        waits.start()
        wait_for(lambda: served.service.engine.num_waiting == 1, "one waits")
        assert served.complete(user="Bob").status_code == 503
        huge = served.client.post("/v1/completions", json={"prompt": "x" * (1 << 20)})
        assert huge.status_code == 413
    waits.join(20)
    wait_for(served.idle, "idle")
    events = []
    with served.client.stream("GET", "/trace", headers={"Last-Event-ID": start}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                data = json.loads(line[6:])
                if data["type"] == "ping":
                    break
                events.append(data)
    refused = {d["req"]: d for d in events if d.get("event") == "refuse"}
    arrived = {d["req"]: d for d in events if d.get("event") == "arrive"}
    full, large = sorted(refused.values(), key=lambda d: "larger" in d["reason"])
    assert "The queue is full: 1 requests wait already" in full["reason"]
    assert (arrived[full["req"]]["nickname"], arrived[full["req"]]["prompt_len"]) == ("Bob", 1)
    assert "1048576 bytes" in large["reason"]
    assert arrived[large["req"]]["prompt_len"] is None
    assert "request_success_total error" not in served.metrics()


def test_chunked_prefill_goes_off_with_room_for_a_whole_prompt_and_comes_back(served):
    longest = served.service.config.max_len
    assert control(served, max_num_batched_tokens=64).status_code == 200
    off = control(served, enable_chunked_prefill=False).json()
    assert (off["enable_chunked_prefill"], off["max_num_batched_tokens"]) == (False, longest)
    ids = list(range(1, 301))
    assert served.complete(prompt=ids, max_tokens=2).status_code == 200
    answer = control(served, max_num_batched_tokens=64)
    assert answer.status_code == 400
    assert (
        "With chunked prefill off, max_num_batched_tokens (64)" in answer.json()["error"]["message"]
    )
    back = control(served, enable_chunked_prefill=True).json()
    assert (back["enable_chunked_prefill"], back["max_num_batched_tokens"]) == (True, 64)
    assert back["policy"] == "continuous"


def test_another_simulated_gpu_takes_over_while_requests_run(room):
    llm = LLM.simulated(runner=SimulatedRunner.for_gpu("L4"), num_blocks=256)
    with serving(llm, ServerSettings(classroom=room)) as served:
        served.client.headers["Authorization"] = f"Bearer {room.instructor_key}"
        with ThreadPoolExecutor(1) as pool:
            alone = served.complete(max_tokens=40).json()["choices"][0]["text"]
            running_one = pool.submit(served.complete, max_tokens=40)
            wait_for(lambda: bool(served.engine.scheduler.running), "one runs")
            told = control(served, device="h200-141gb-sxm").json()
            assert told["device"] == "H200-141GB-SXM"
            assert running_one.result().status_code == 200
        assert served.service.trace_header().device == "H200-141GB-SXM"
        assert len(alone) > 40
        with served.client.stream("GET", "/trace") as frames:
            first = next(line for line in frames.iter_lines() if line.startswith("data: "))
        assert json.loads(first[6:])["device"] == "H200-141GB-SXM"
        unknown = control(served, device="T1000")
        assert "Unknown GPU 'T1000': choose one of" in unknown.json()["error"]["message"]
        small = control(served, device="A10", paused=True).json()
        assert small["device"] == "A10"
        assert small["paused"]


def test_a_gpu_without_room_and_a_device_that_is_no_gpu_are_refused(served, room):
    no_gpu = control(served, device="L4")  # this server has three constants for a device
    assert no_gpu.status_code == 400
    assert "is no simulated GPU" in no_gpu.json()["error"]["message"]
    llm = LLM.simulated(runner=SimulatedRunner.for_gpu("H200-141GB-SXM"), num_blocks=40_000)
    with serving(llm, ServerSettings(classroom=room)) as big:
        big.client.headers["Authorization"] = f"Bearer {room.instructor_key}"
        answer = control(big, device="A100-40GB-SXM")
        assert answer.status_code == 400
        assert "but 40,000 are in use here." in answer.json()["error"]["message"]
        assert big.client.get("/class").json()["device"] == "H200-141GB-SXM"


def test_token_ids_become_text(served):
    answer = served.client.post("/detokenize", json={"tokens": [17, 4]})
    assert answer.json() == {"prompt": "‹17›‹4›"}
    assert served.client.post("/detokenize", json={"tokens": []}).json() == {"prompt": ""}
    for wrong, says in (([-1], "Token id -1 is not in the vocabulary"), (["a"], "tokens.0")):
        answer = served.client.post("/detokenize", json={"tokens": wrong})
        assert answer.status_code == 400
        assert says in answer.json()["error"]["message"]
    other = served.client.post("/detokenize", json={"tokens": [1], "model": "gpt"})
    assert other.status_code == 404
