"""A class's seats and desk against a real server, without ipywidgets; also with breaks."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from minillm.core.trace import RequestEvent, StepRecord, TraceHeader, record_data
from minillm.llm import LLM
from minillm.serve import Classroom, ServerSettings, make_app, running, serving_engine
from minillm.sim import CostModel
from widgets import class_words
from widgets.class_client import ClassClient, ClassError, check_url
from widgets.class_feed import UNSEEN, ClassFeed
from widgets.classroom import Desk, Exchange, Seat, change_sentence, join, teach

HEADER = TraceHeader("simulated", "mock", "m", "none", "continuous", 8, 4, {"max_num_seqs": 2})


class RecordingView:
    """A timeline's calls, written down."""

    def __init__(self) -> None:
        self.headers: list[TraceHeader] = []
        self.records: list = []
        self.said = ""
        self.resets = 0

    def reset(self, lane, header, title, subtitle) -> None:
        self.resets += 1
        self.records.clear()
        self.amend(lane, header, title, subtitle)

    def amend(self, lane, header, title, subtitle) -> None:
        self.headers.append(header)

    def feed(self, lane, source) -> None:
        self.records += source

    def publish(self, *, heartbeat: bool = False) -> None:
        pass

    def stale(self, message: str) -> None:
        self.said = message

    @property
    def steps(self) -> list[int]:
        return [r.step for r in list(self.records) if isinstance(r, StepRecord)]

    def events(self, kind: str) -> list[RequestEvent]:
        events = [r for r in list(self.records) if isinstance(r, RequestEvent)]
        return [event for event in events if event.event == kind]


class Line:
    """A port before the server that can be cut and mended: the wifi."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition("//")[2].rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[socket.socket] = []
        self.down = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._pairs += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            end.close()

    def cut(self) -> None:
        self.down = True
        for end in self._pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._pairs.clear()

    def close(self) -> None:
        self.cut()
        self._listener.close()


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = 20.0) -> None:
    end = time.perf_counter() + limit_s
    while not condition():
        assert time.perf_counter() < end, f"not within {limit_s:g} s: {what}"
        time.sleep(0.005)


@contextmanager
def served(room: Classroom, step_s: float = 0.01, **limits) -> Iterator[tuple[str, object]]:
    llm = LLM.simulated(CostModel(step_s, 0.0, 0.0), num_blocks=256, max_model_len=2048)
    app = make_app(llm, serving_engine(llm, **limits), ServerSettings(classroom=room))
    with running(app) as url:
        yield url, app.state.service


@contextmanager
def seated(url: str, room: Classroom, nickname: str = "Ada") -> Iterator[Seat]:
    with closing(Seat(url, room.code, nickname, RecordingView())) as seat:
        yield seat.start()


# ── the fold ────────────────────────────────────────────────────────────────────────────────────


def header_data(**changes) -> dict:
    names = TraceHeader.__slots__
    return {"type": "header", **{name: getattr(HEADER, name) for name in names}, **changes}


def step(number: int) -> StepRecord:
    return StepRecord(number, number * 0.1, number * 0.1 + 0.1, 0, 1, None, [], 0, 0, [])


def arrive(req: int, t: float = 0.0) -> RequestEvent:
    data = {"prompt_len": 3, "max_tokens": 4, "nickname": "Ada", "prompt_preview": ""}
    return RequestEvent(t, req, f"r{req}", "arrive", data)


def test_what_comes_twice_is_taken_once_and_the_place_is_kept():
    feed = ClassFeed()
    feed.take("7:-1", header_data())
    assert feed.restarted
    taken = [arrive(0), step(0), step(1)]
    for record, name in zip(taken, ("7:-1", "7:0", "7:1"), strict=True):
        assert feed.take(name, record_data(record)) == [record]
    for record in taken:
        assert feed.take("7:1", record_data(record)) == []
    assert feed.take("7:2", record_data(step(2))) == [step(2)]
    assert (feed.last_id, feed.missed) == ("7:2", 0)


def test_a_snapshot_closes_a_gap_and_says_so():
    feed = ClassFeed()
    feed.take("7:-1", header_data())
    feed.take("7:-1", record_data(arrive(0)))
    feed.take("7:0", record_data(step(0)))
    later = {
        "req": 5, "id": "r5", "nickname": "Bob", "prompt_len": 9, "max_tokens": 3,
        "prompt_preview": "", "arrived": 0.7, "status": "running", "computed": 9,
        "output_tokens": 1, "blocks": [1],
    }  # fmt: skip
    snapshot = {
        "type": "snapshot", "step": 10, "t": 1.1, "waiting": 0, "running": 1, "kv_used": 1,
        "kv_cached": 0, "requests": [later, {**later, "req": 6, "id": "r6", "status": "waiting"}],
    }  # fmt: skip
    gone, come, admitted, waits = feed.take("7:10", snapshot)
    assert (gone.req, gone.event, gone.data["reason"]) == (0, "finish", UNSEEN)
    assert (come.req, come.event, come.data["nickname"], come.t) == (5, "arrive", "Bob", 1.1)
    assert admitted.event == "admit"
    assert (waits.req, waits.event, waits.t) == (6, "arrive", 0.7)
    assert feed.missed == 10
    assert feed.take("7:11", record_data(step(11))) == [step(11)]
    assert feed.missed == 10


def test_another_server_is_another_run():
    feed = ClassFeed()
    feed.take("7:-1", header_data())
    feed.take("7:4", record_data(step(4)))
    feed.restarted = False
    feed.take("7:4", header_data(policy="static"))
    assert not feed.restarted
    assert feed.header.policy == "static"
    feed.take("8:-1", header_data())
    assert feed.restarted
    assert feed.take("8:0", record_data(step(0))) == [step(0)]


# ── seats and desk ──────────────────────────────────────────────────────────────────────────────


def test_everybodys_requests_show_with_their_names_and_own_text_comes():
    room = Classroom()
    with served(room) as (url, _), seated(url, room) as ada, seated(url, room, "Bob") as bob:
        wait_for(lambda: ada.live and bob.live, "both follow")
        exchange = ada.ask("a secret", max_tokens=12)
        bob.ask("another one", max_tokens=12)
        wait_for(lambda: exchange.over, "an answer")
        assert (exchange.state, exchange.error) == ("done", "")
        assert exchange.text.startswith("‹")
        for seat in (ada, bob):
            wait_for(lambda s=seat: len(s.view.events("finish")) == 2, "both have finished")
            seen = seat.view.events("arrive")
            assert {e.data["nickname"] for e in seen} == {"Ada", "Bob"}
            shown = {e.data["nickname"]: e.data["prompt_preview"] for e in seen}
            mine = "a secret" if seat is ada else "another one"
            assert shown[seat.nickname] == mine
            assert list(shown.values()).count("") == 1
            assert seat.view.steps == list(range(len(seat.view.steps)))
        assert ada.ask("  ") is None


def test_a_break_of_the_line_leaves_no_gap():
    room = Classroom()
    with served(room) as (url, _), closing(Line(url)) as line, seated(line.url, room) as ada:
        with seated(url, room, "Bob") as bob:
            wait_for(lambda: ada.live and bob.live, "both follow")
            bob.ask("keep it busy", max_tokens=250)
            for round_ in range(3):
                wait_for(lambda r=round_: len(ada.view.steps) > 20 * (r + 1), "steps")
                line.cut()
                wait_for(lambda: "no news since" in ada.status, "it is noticed")
                wait_for(lambda: ada.view.said == ada.status, "and said")
                line.down = False
                wait_for(lambda: ada.live, "it comes back", 30)
            wait_for(lambda: len(bob.view.steps) == 250, "all of it")
            wait_for(lambda: ada.view.steps == bob.view.steps, "the same steps")
        assert ada.view.steps == list(range(250))
        assert ada.feed.missed == 0
        assert ada.view.resets == 1
        assert len(ada.view.events("arrive")) == len(ada.view.events("finish")) == 1


def test_a_server_that_is_gone_is_said_and_close_is_quick():
    room = Classroom()
    with served(room) as (url, _):
        seat = Seat(url, room.code, "Ada", RecordingView()).start()
        wait_for(lambda: seat.live, "it follows")
    wait_for(lambda: "no news since" in seat.status, "it is noticed")
    exchange = seat.ask("anybody there?")
    wait_for(lambda: exchange.over, "an end")
    assert (exchange.state, "does not answer" in exchange.error) == ("broken", True)
    start = time.perf_counter()
    seat.close()
    assert time.perf_counter() - start < 5
    with served(room) as (url, _):
        seat = Seat(url, room.code, "Ada", RecordingView()).start()
        wait_for(lambda: seat.live, "it follows")
        start = time.perf_counter()
        seat.close()
        assert time.perf_counter() - start < 5
        assert not [t for t in threading.enumerate() if t.name.startswith("minillm-class")]


def test_what_is_wrong_with_a_seat_is_one_sentence():
    room = Classroom()
    with served(room) as (url, _):
        with pytest.raises(ClassError, match="not this class's join code"):
            Seat(url, "AAAA-AAAA", "Ada")
        with pytest.raises(ClassError, match="1 to 24 characters, got 0"):
            Seat(url, room.code, " ")
        with pytest.raises(ClassError, match="a student's"):
            Desk(url, Seat(url, room.code, "Ada").client.key)
        assert Seat(url, room.code, "ada").nickname == "ada 2"
    with pytest.raises(ConnectionError, match="does not answer"):
        Seat(url, room.code, "Ada")
    for wrong in ("", "ftp://x", "http://", "http://h:99999", "http://h/path", "http://h:0"):
        with pytest.raises(ValueError, match="The class's address is like"):
            check_url(wrong)
    assert check_url("10.0.0.5:8000/v1/") == "http://10.0.0.5:8000"


def test_a_notebook_shows_the_sentence_and_no_traceback():
    room = Classroom()
    with served(room) as (url, _):
        wrong = [
            (ClassError, join, (url, "AAAA-AAAA", "Ada"), "not this class's join code"),
            (ClassError, join, (url, room.code, "x" * 25), "1 to 24 characters, got 25"),
            (ClassError, join, (url, room.code, "<b>Ada</b>"), "got '<' in it"),
            (ClassError, join, (url, room.code, "Ada \U0001f600"), "got '\U0001f600' in it"),
            (ClassError, teach, (url, "no key"), "not this class's join code"),
            (ValueError, join, ("ftp://x", room.code, "Ada"), "like http://192.168.1.20:8000"),
        ]
        for kind, call, arguments, said in wrong:
            with pytest.raises(kind, match=re.escape(said)) as caught:
                call(*arguments)
            assert caught.value._render_traceback_() == [str(caught.value)]
            assert str(caught.value).count("\n") == 0
    with pytest.raises(ConnectionError, match="does not answer") as gone:
        join(url, room.code, "Ada")
    assert gone.value._render_traceback_() == [str(gone.value)]


def test_a_cell_that_runs_again_keeps_its_seat_also_when_the_server_was_away():
    room = Classroom()
    with served(room) as (url, _), closing(Line(url)) as line:
        with closing(join(line.url, room.code, "Ada")) as seat:
            line.cut()
            with pytest.raises(ConnectionError):
                join(line.url, room.code, "Ada")
        line.down = False
        with closing(join(line.url, room.code, "Ada")) as again:
            assert again.nickname == seat.nickname == "Ada"
            assert again.client.key == seat.client.key
    assert room.num_students == 1


def test_a_flooder_is_refused_and_the_desk_sees_it():
    room = Classroom(2)
    with served(room) as (url, _), seated(url, room) as ada, seated(url, room, "Bob") as bob:
        with closing(Desk(url, room.instructor_key, RecordingView())) as desk:
            desk.start()
            many = [ada.ask(f"question {i}", max_tokens=300) for i in range(6)]
            wait_for(lambda: sum(e.state == "refused" for e in many) == 4, "4 refused")
            refused = next(e for e in many if e.state == "refused")
            assert "a student may have 2 at once" in refused.error
            fair = bob.ask("mine", max_tokens=5)
            wait_for(lambda: fair.state == "done", "the other one is served")
            wait_for(lambda: desk.students and desk.students[0]["refused"] == 4, "it shows")
            row = desk.students[0]
            assert row["nickname"] == "Ada"
            assert row["share"] > 0.5
            assert "Ada takes" in class_words.student_table(desk.students)


def test_the_desk_pauses_and_changes_policy_and_limits():
    room = Classroom()
    with served(room) as (url, service), seated(url, room) as ada:
        with closing(Desk(url, room.instructor_key, RecordingView())) as desk:
            desk.start()
            wait_for(lambda: desk.live and ada.live, "both follow")
            desk.control(paused=True)
            wait_for(lambda: service.engine.paused, "paused")
            exchange = ada.ask("are you there?", max_tokens=6)
            wait_for(lambda: ada.status.startswith("Paused by the instructor"), "it is said")
            wait_for(lambda: service.engine.num_waiting == 1, "it waits")
            assert exchange.text == ""
            desk.control(policy="static", max_num_seqs=3, student_limit=1)
            wait_for(lambda: "Static batching, up to 3" in desk.said, "changed")
            desk.control(max_num_seqs=0)
            wait_for(lambda: "max_num_seqs must be an integer" in desk.said, "refused")
            desk.control(paused=False)
            wait_for(lambda: exchange.over, "served after all")
            assert exchange.state == "done"
            wait_for(lambda: ada.view.headers[-1].policy == "static", "seen by all")
            assert ada.view.headers[-1].config["max_num_seqs"] == 3
            assert ada.view.resets == 1
            assert room.student_limit == 1


def test_a_server_that_was_started_anew_is_joined_again():
    room = Classroom()
    with served(room) as (url, _), closing(Line(url)) as line:
        with seated(line.url, room) as ada:
            wait_for(lambda: ada.live, "it follows")
            again = Classroom()
            again.code = room.code
            with served(again) as (other, _):
                host, _, port = other.rpartition("//")[2].rpartition(":")
                line.cut()
                line._target = (host, int(port))
                line.down = False
                wait_for(lambda: ada.view.resets == 2, "a new picture", 30)
                exchange = ada.ask("hello again", max_tokens=3)
                wait_for(lambda: exchange.over, "an answer")
                assert exchange.state == "done"


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def test_what_students_wrote_is_escaped():
    exchange = Exchange("<b>bold</b>", "<i>text</i>", "refused", "<u>no</u>")
    html = class_words.answers([exchange])
    assert "&lt;b&gt;bold" in html
    assert "&lt;i&gt;text" in html
    assert "&lt;u&gt;no" in html
    assert "<b>bold" not in html


def student(nickname: str, share: float | None, refused: int = 0) -> dict:
    return {
        "nickname": nickname, "running": 1, "waiting": 0, "tok_s": 12.34, "share": share,
        "requests": 3, "refused": refused, "output_tokens": 9, "last": 0.0, "in_flight": 1,
    }  # fmt: skip


def test_the_table_names_who_floods_only_when_somebody_does():
    rows = [student("Ada", 0.996), student("Bob", 0.004, refused=2)]
    assert class_words.flood_sentence(rows) == (
        "Ada takes 99\u202f% of all tokens computed, 249 times the others' mean"
    )
    assert class_words.student_rows(rows)[0][4] == "99\u202f%"
    fair = [student("Ada", 0.5), student("Bob", 0.3), student("Eve", 0.2)]
    assert class_words.flood_sentence(fair) == "3 students, 3 of them with tokens in the last 10 s"
    flood = [
        {**student("Ada", 0.62, refused=9), "requests": 30},
        student("Bob", 0.2),
        student("Eve", 0.18),
    ]
    assert class_words.flood_sentence(flood) == (
        "Ada takes 62\u202f% of all tokens computed, 3.3 times the others' mean; "
        "9 of 30 requests refused"
    )
    alone = class_words.flood_sentence([student("Ada", 1.0)])
    assert alone == "1 student, 1 of them with tokens in the last 10 s"
    idle = class_words.flood_sentence([student("Ada", None, 1), student("Bob", None)])
    assert idle == "2 students, nothing computed in the last 10 s; Ada was refused 1 time"
    many = class_words.student_table([student(f"s{i}", None) for i in range(60)])
    assert "and 48 more" in many
    assert "n/a" in many
    assert "Nobody has joined yet" in class_words.student_table([])


def test_a_change_is_told_with_its_numbers():
    state = {
        "policy": "continuous", "max_num_seqs": 4, "max_num_batched_tokens": 2048, "paused": True,
        "student_limit": 1, "draining_for_swap": True,
    }  # fmt: skip
    assert change_sentence({"policy": "continuous"}, state) == (
        "Continuous batching, up to 4 sequences a step, 2,048 tokens. "
        "It takes over when those who run now have finished."
    )
    assert change_sentence({"student_limit": 1}, state) == (
        "A student may have 1 request in flight."
    )
    assert change_sentence({"paused": True}, state).startswith("Paused")


def test_the_model_needs_no_ipywidgets():
    code = (
        "import sys; sys.modules['ipywidgets'] = sys.modules['anywidget'] = None\n"
        "import widgets.classroom, widgets.class_words, widgets.class_watch"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_client_refuses_to_open_a_stream_after_close():
    room = Classroom()
    with served(room) as (url, _):
        client = ClassClient(url, room.code)
        client.close()
        with pytest.raises(ConnectionError, match="closed"):
            next(client.follow())
