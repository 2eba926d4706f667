"""Forms, presence, and the tabs Curve, Cluster and Class without a browser."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from minillm.core.trace import RequestEvent, StepRecord
from minillm.llm import LLM
from minillm.serve import Classroom, ServerSettings, make_app, running, serving_engine
from minillm.serve.spoken import HIDDEN_TOKEN
from minillm.sim import CostModel, SimulatedRunner
from widgets.class_client import ClassClient, traced_id
from widgets.dashboard import fields
from widgets.dashboard.class_tab import ClassTab
from widgets.dashboard.cluster import ClusterTab
from widgets.dashboard.curve import SERVER, CurveTab, others
from widgets.dashboard.engines import GPUS, HERE, Engines
from widgets.dashboard.figures import LiveFigures
from widgets.dashboard.form import Form
from widgets.dashboard.frame import ABSENT_S, Frame, Presence
from widgets.dashboard.live import LiveTab, said
from widgets.dashboard.load import Load
from widgets.dashboard.reader import Reader
from widgets.dashboard.requests import Requests
from widgets.dashboard.words import Saying

LIMIT_S = 60.0


def until(condition) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def room():
    room = Classroom(instructor_keys=("the-instructors-key",))
    llm = LLM.simulated(CostModel(0.005, 0.0, 0.0), num_blocks=256, max_model_len=2048)
    with running(make_app(llm, serving_engine(llm), ServerSettings(classroom=room))) as url:
        yield url, room


@pytest.fixture
def live(room):
    url, classroom = room
    live = LiveTab(Engines(url, key=classroom.instructor_key), LiveFigures())
    live.follow()
    yield live
    live.close()


def test_a_form_calls_for_what_the_reader_changes_and_not_for_what_the_kernel_sets():
    form = Form([fields.slider("n", "N", (1, 2)), fields.buttons("b", ("go", "Go"))], n=1)
    calls: list = []
    form.on_change = lambda name, value: calls.append((name, value))
    form.on_press = calls.append
    form["n"] = 2
    assert calls == []
    form.values = {"n": 1, "other": 3}  # as from the browser
    form.values = {"n": 99}
    form._on_message(form, {"press": "go"}, None)
    form._on_message(form, {"press": "none"}, None)
    form.turn_off("go", "Not now.")
    form._on_message(form, {"press": "go"}, None)
    assert calls == [("n", 1), "go"]


def test_a_page_that_is_not_heard_is_absent_and_gets_no_beat():
    now = [0.0]
    presence = Presence(lambda: now[0])
    now[0] = 1.5
    assert presence.beat_due()
    assert not presence.beat_due()
    now[0] = ABSENT_S + 1
    assert presence.absent
    assert not presence.beat_due()
    presence.heard()
    assert presence.beat_due()


def test_a_tab_that_is_not_there_is_not_selected():
    frame = Frame(["Live", "Curve"])
    frame.selected = 7
    assert frame.selected == 1


def test_the_live_tab_controls_the_engine_and_shows_what_others_set(live, room):
    until(lambda: live.form["policy"] == "continuous")
    until(lambda: live.load.settings.rate > 0)  # an idle engine gets some load
    live.load.change(rate=0.5)
    live.form.values = {**live.form.values, "policy": "static", "max_num_seqs": 4}
    until(lambda: live.desk.state["policy"] == "static")
    until(lambda: live.desk.state["max_num_seqs"] == 4)
    until(lambda: "max_num_batched_tokens" in live.form.off)
    live.desk.client.control(policy="dynamic")  # another visitor
    until(lambda: live.form["policy"] == "dynamic")
    live.form.values = {**live.form.values, "prompt": "Why?"}
    live._press("prompt")
    assert live.form["prompt"] == ""
    until(lambda: live.figures.cursor.req is not None)
    until(lambda: "TTFT" in live.card.value)
    assert "Why?" in live.card.value
    assert "Why?" not in live.answers.value
    live.figures.cursor.move(req=None)
    until(lambda: "Why?" in live.answers.value)
    live._press("pause")
    until(lambda: live.desk.state["paused"])


def test_the_text_of_anybodys_request_is_read_when_it_is_pointed_at(live):
    until(lambda: live.desk.state)
    live.load.change(rate=0.0)
    other = ClassClient(live.line.url, live.engines.key)
    said = "".join(other.ask("What is a batch?", 12, request_id="other"))
    until(lambda: live.figures.requests.named(traced_id("other")))
    live.figures.cursor.move(req=live.figures.requests.named(traced_id("other")).req)
    until(lambda: said in live.card.value)
    assert "What is a batch?" in live.card.value


def test_a_students_view_has_no_text_of_others(room):
    url, classroom = room
    student = ClassClient(url, classroom.code)
    student.join("Ada")
    known = Requests()
    known.take([RequestEvent(0.0, 0, "x", "arrive", {"prompt_len": 1, "prompt_preview": ""})])
    known.take([StepRecord(0, 0.0, 0.1, 0, 1, None, [(0, 1, 1, 0, 1, HIDDEN_TOKEN)], 0, 0)])
    reader = Reader(student, lambda: known.get(0))
    reader.look()
    assert reader.of(known.get(0)) == Saying()


def test_chunked_prefill_is_switched_off_and_on_with_its_budget(live):
    until(lambda: live.form["enable_chunked_prefill"] == "on")
    live.load.change(rate=0.0)
    live.form.values = {**live.form.values, "max_num_batched_tokens": 128}
    until(lambda: live.desk.state["max_num_batched_tokens"] == 128)
    live.form.values = {**live.form.values, "enable_chunked_prefill": "off"}
    until(lambda: live.desk.state["max_num_batched_tokens"] == 2048)
    until(lambda: "whole prompt" in live.form.off.get("max_num_batched_tokens", ""))
    live.form.values = {**live.form.values, "enable_chunked_prefill": "on"}
    until(lambda: live.desk.state["max_num_batched_tokens"] == 128)
    until(lambda: "max_num_batched_tokens" not in live.form.off)


def test_a_page_looks_at_the_simulated_engine_instead_and_at_another_gpu_of_it(room):
    first, classroom = room
    key = classroom.instructor_key
    other = Classroom(instructor_keys=(key,))
    llm = LLM.simulated(runner=SimulatedRunner.for_gpu(GPUS[0]), num_blocks=256)
    with (
        running(make_app(llm, serving_engine(llm), ServerSettings(classroom=other))) as url,
        closing(LiveTab(Engines(first, url, key), LiveFigures())) as live,
    ):
        live.follow()
        until(lambda: live.desk.state)
        live.form.values = {**live.form.values, "device": "L4"}
        until(lambda: live.line.url == url and live.desk.state.get("device") == "L4")
        until(lambda: live.form["device"] == "L4")
        ring = live.figures.timeline._lanes[0].ring
        until(lambda: ring.header is not None and ring.header.device == "L4")
        live.form.values = {**live.form.values, "device": GPUS[1]}
        until(lambda: live.desk.state["device"] == GPUS[1])
        live.form.values = {**live.form.values, "device": HERE}
        until(lambda: live.line.url == first and live.form["device"] == HERE)
        until(lambda: live.desk.state)


def test_what_needs_another_start_is_said():
    assert "make dashboard" in Engines(simulated="http://x").missing
    assert Engines("http://x", "http://y").missing == ""
    assert [value for value, _ in Engines("http://x").choices()] == [HERE]
    assert [value for value, _ in Engines("", "http://y", gpu="L4").choices()] == [
        "L4", *GPUS[:3],
    ]  # fmt: skip


def test_what_failed_is_said():
    load = Load("http://127.0.0.1:9", "k")
    load.sent, load.failed = 20, 3
    assert said("Static batching.", load) == (
        "Static batching. 3 of your 20 requests were refused or failed."
    )


def test_the_server_is_swept_beside_the_simulated_lines(live):
    until(lambda: live.desk.state)
    tab = CurveTab(live)
    live.load.change(rate=0.0)
    tab.form.set(users=4)
    tab._press("sweep")
    until(lambda: SERVER in tab.curve.model.lines and "sweep" not in tab.form.off)
    points = tab.curve.model.lines[SERVER].points
    assert sorted(points) == [1, 2, 4]
    assert tab.curve.model.lines[SERVER].provenance == "simulated"
    assert others({"running": 0, "waiting": 0}, 0.0) == ""
    assert "pause" in others({"running": 2, "waiting": 0}, 1.0)


def test_without_an_engine_there_is_nothing_to_sweep():
    tab = CurveTab(None)
    assert "make dashboard" in tab.form.off["sweep"]
    assert len(tab.curve.model.lines) == 3


def test_a_cluster_is_simulated_and_bad_input_is_said():
    tab = ClusterTab()
    tab.form.set(count=100, replicas="2xA100-80GB-SXM", fail="1@1s-2s")
    assert tab.start()
    until(lambda: "In figures" in tab.table.value)
    until(lambda: not tab._jobs.busy)
    assert "Replica 1 fails" in tab.view.headline
    tab.form["replicas"] = "2xNOPE"
    tab.start()
    until(lambda: not tab._jobs.busy)
    assert "NOPE" in tab.form["said"]
    tab.form["replicas"] = "99xA100-80GB-SXM"
    tab.start()
    until(lambda: not tab._jobs.busy)
    assert "at most 16 replicas, got 99" in tab.form["said"]


def test_a_class_is_joined_and_left_and_a_wrong_code_is_said(room):
    url, classroom = room
    tab = ClassTab()
    tab.form.set(url=url, code="WRONG-CODE", nickname="Ada")
    tab._press("join")
    until(lambda: not tab._jobs.busy)
    assert "join code" in tab.form["said"]
    tab.form["code"] = classroom.code
    tab._press("join")
    until(lambda: tab.place is not None and not tab._jobs.busy)
    assert tab.place.nickname == "Ada"
    tab.quiet(True)
    assert tab.place.quiet
    tab._press("leave")
    until(lambda: tab.place is None and not tab._jobs.busy)
    tab.form["url"] = "ftp://x"
    tab._press("join")
    until(lambda: not tab._jobs.busy)
    assert "192.168.1.20" in tab.form["said"]
