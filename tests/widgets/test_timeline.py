"""The widget class without a browser: what it sends, to whom, and what it answers."""

from __future__ import annotations

import re
import threading

import pytest

from minillm.core.trace import Trace
from tests.widgets.runs import run
from tests.widgets.test_frames import View
from widgets.frames import SNAPSHOT, decode
from widgets.timeline import SOURCES, Timeline


class Sent(Timeline):
    """A Timeline that keeps what it sends."""

    def send(self, content, buffers=None):
        self.sent = [*getattr(self, "sent", []), (content, buffers)]

    def take(self):
        sent, self.sent = getattr(self, "sent", []), []
        return sent


def hello(timeline, lane=0, view=None):
    said = {"hello": -1, "lane": lane}
    if view is not None:
        said = {
            "hello": view.next_step - 1,
            "event": view.next_event,
            "stream": view.stream,
            "lane": lane,
        }
    timeline._handle_custom_msg(said, [])


def apply_all(timeline, view):
    return all(view.apply(content, buffers[0]) for content, buffers in timeline.take())


def test_a_growing_trace_is_fed_again_and_again():
    whole = run("continuous")
    growing = Trace(whole.header)
    timeline, view = Sent(), View()
    hello(timeline)
    for record in whole.records:
        growing.add(record)
        timeline.feed(0, growing)
        timeline.publish()
        assert apply_all(timeline, view)
    assert timeline.publish() == 0
    assert view.next_step == len(whole.steps)
    assert len(view.events) == len(whole.events)
    assert timeline.titles == ["Continuous"]
    assert "chunks of ≤ 128 tokens" in timeline.subtitles[0]


def test_a_second_view_gets_all_and_does_not_disturb_the_first():
    trace = run("static")
    timeline, first, second = Sent(), View(), View()
    hello(timeline)
    timeline.feed(0, trace)
    timeline.publish()
    assert apply_all(timeline, first)
    hello(timeline)
    sent = timeline.take()
    assert decode(sent[0][1][0]).kind == SNAPSHOT
    for content, buffers in sent:
        assert first.apply(content, buffers[0])
        assert second.apply(content, buffers[0])
    assert first.steps == second.steps
    assert len(first.steps) == len(trace.steps)


def test_a_view_that_says_hello_gets_what_it_lacks_and_no_more():
    trace = run("static")
    growing = Trace(trace.header)
    timeline, view = Sent(), View()
    for record in trace.records:
        growing.add(record)
        timeline.feed(0, growing)
        timeline.publish()
        if len(growing.steps) == 100:
            break
    assert apply_all(timeline, view)
    timeline.feed(0, trace)
    hello(timeline, view=view)
    assert timeline.publish() == 0  # the first message of a run goes to all
    ((content, buffers),) = timeline.take()
    assert content["kind"] == "snapshot"  # another trace: another stream
    assert view.apply(content, buffers[0])
    view.next_step -= 60
    hello(timeline, view=view)
    ((content, buffers),) = timeline.take()
    assert content["kind"] == "delta"
    assert len(decode(buffers[0]).steps) == 60


def test_another_trace_starts_the_lane_anew():
    timeline, view = Sent(), View()
    for trace in (run("static"), run("continuous")):
        timeline.feed(0, trace)
        timeline.publish()
        assert apply_all(timeline, view)
        assert len(view.steps) == len(trace.steps)
        assert timeline.traces()[0] is trace


def test_reset_empties_views_headline_and_frozen_figure():
    timeline, view = Sent(lanes=2, titles=["One", "Two"]), View()
    timeline.feed(0, run("static"))
    timeline.feed(1, run("continuous"))
    timeline.conclude()
    timeline.freeze()
    timeline.reset(1, title="Other")
    assert (timeline.headline, timeline.notes, timeline.frozen) == ("", [], "")
    assert timeline.titles == ["One", "Other"]
    timeline.take()
    timeline.publish()
    content, buffers = timeline.take()[1]
    assert content["lane"] == 1
    assert view.apply(content, buffers[0])
    assert view.steps == []
    with pytest.raises(ValueError, match="Lane 1 has no run yet"):
        timeline.conclude()


def test_records_without_a_trace_work_too():
    trace = run("continuous")
    timeline = Sent()
    timeline.reset(0, trace.header)
    assert timeline.feed(0, iter(trace.records)) == len(trace.records)
    assert "tokens per second" in timeline.conclude().text


def test_feeding_and_publishing_from_two_threads_loses_nothing():
    trace = run("static")
    growing = Trace(trace.header)
    timeline, view = Sent(), View()
    done = threading.Event()

    def drive():
        for record in trace.records:
            growing.add(record)
            timeline.feed(0, growing)
        done.set()

    driver = threading.Thread(target=drive)
    driver.start()
    while not done.is_set():
        timeline.publish()
    driver.join()
    timeline.finish(0)
    assert apply_all(timeline, view)
    assert [s[:2] for s in view.steps] == [(s.t_start, s.t_end) for s in trace.steps]


def test_finish_says_so_even_when_nothing_is_new():
    timeline = Sent()
    timeline.feed(0, run("static"))
    timeline.publish()
    timeline.take()
    timeline.finish(0)
    content, _ = timeline.take()[-1]
    assert content["kind"] == "heartbeat"
    assert content["done"] is True


def test_conclude_and_freeze():
    timeline = Sent(lanes=2)
    timeline.feed(0, run("static"))
    timeline.feed(1, run("continuous"))
    found = timeline.conclude()
    assert timeline.headline == found.text
    assert timeline.headline.startswith("Continuous batching: 2.2× the tokens per second.")
    figure = timeline.freeze()
    assert timeline.frozen == figure.to_html(inline=True)
    assert "<table>" in timeline.frozen
    assert figure.svg.startswith("<svg")
    assert timeline._repr_mimebundle_()[0]["text/html"] == figure.to_html()


def test_text_of_a_request_on_demand():
    trace = run("continuous")
    timeline = Sent(detokenize=lambda ids: "".join(f"<{i}>" for i in ids))
    timeline.feed(0, trace)
    timeline._handle_custom_msg({"text": {"lane": 0, "req": 2, "step": 10}}, [])
    tokens = [
        row.token_id
        for s in trace.steps[:11]
        for row in s.rows
        if row.req_idx == 2 and row.token_id is not None
    ]
    ((answer, _),) = timeline.take()
    assert answer["text"] + answer["token"] == "".join(f"<{i}>" for i in tokens)
    assert answer["token"] == f"<{tokens[-1]}>"


@pytest.mark.parametrize(
    "message", ["hello", None, {}, {"hello": 1, "lane": 7}, {"hello": 0, "lane": "0"},
                {"text": {}}, {"text": {"lane": 0, "req": "x", "step": None}}, {"text": 3}],
)  # fmt: skip
def test_odd_messages_from_a_page_are_ignored(message):
    timeline = Sent(detokenize=str)
    timeline.feed(0, run("static"))
    timeline._handle_custom_msg(message, [])
    assert timeline.take() == []


def test_bad_arguments_are_refused_with_the_numbers():
    with pytest.raises(ValueError, match="1 or 2 runs, got lanes=3"):
        Timeline(lanes=3)
    with pytest.raises(ValueError, match=r"2 titles were given for 1 lane"):
        Timeline(titles=["a", "b"])
    with pytest.raises(ValueError, match="lanes 0 to 0, got 1"):
        Timeline().feed(1, [])


def test_the_module_is_one_file_and_offline():
    esm, css = Timeline._esm, Timeline._css
    assert not re.search(r"^\s*import\s", esm, re.MULTILINE)
    assert "import(" not in esm
    assert len(re.findall(r"^export default ", esm, re.MULTILINE)) == 1
    for text in (esm, css):
        assert "http" not in text
        assert "@import" not in text
        assert "url(" not in text
    assert len(SOURCES) == len(set(SOURCES))
