"""Bytes → events → a request's record: what counts as a token, whatever the cuts (C42, C44)."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.bench.chunks import StreamError, read_chunk
from minillm.bench.client import StreamReader
from minillm.bench.record import ClientRequest
from minillm.bench.sse import MAX_EVENT, SSEParser
from tests.bench.stub_server import delta, frame, text, usage


def data_of(wire: str) -> str:
    return wire.removeprefix("data: ").strip()


def read(*events: tuple[float, str]) -> ClientRequest:
    """A record after a stream of (time, frame) and [DONE]."""
    record = ClientRequest(0, 0.0, 20, sent=0.0)
    reader = StreamReader(record)
    for when, wire in events:
        reader.take(data_of(wire), when)
    reader.take("[DONE]", 9.0)
    reader.end("text/event-stream")
    record.finished = 9.0
    return record


# ── the parser ──────────────────────────────────────────────────────────────────────────────

STREAM = (
    ': ping\n\ndata: {"a": "ü→"}\n\n'
    "event: x\nid: 7\ndata:two\ndata: lines\n\n: ping\ndata: [DONE]\n\n"
)
EVENTS = ['{"a": "ü→"}', "two\nlines", "[DONE]"]


@given(st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 120), max_size=12))
def test_events_do_not_depend_on_cuts_or_line_ends(end: str, cuts: list[int]):
    wire = STREAM.replace("\n", end).encode()
    places = sorted({0, len(wire), *(cut % len(wire) for cut in cuts)})
    parser, events = SSEParser(), []
    for start, stop in pairwise(places):
        events += parser.feed(wire[start:stop])
    assert events + parser.close() == EVENTS
    assert parser.num_comments == 2


def test_one_byte_at_a_time():
    parser, events = SSEParser(), []
    for byte in STREAM.replace("\n", "\r\n").encode():
        events += parser.feed(bytes([byte]))
    assert events == EVENTS


def test_an_event_is_there_with_the_bytes_that_end_it():
    parser = SSEParser()
    assert parser.feed(b"data: 1\r\n\r") == ["1"]
    assert parser.feed(b"\ndata: 2\n") == []
    assert parser.close() == ["2"]


def test_a_line_without_end_and_wrong_utf8_are_refused():
    with pytest.raises(ValueError, match="bytes"):
        SSEParser().feed(b"data: " + b"x" * (MAX_EVENT + 1))
    with pytest.raises(ValueError):
        SSEParser().feed(b"data: \xff\xfe\n\n")


# ── what counts as a token ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wire", "counts"),
    [
        (delta(role="assistant"), False),
        (delta("", role="assistant"), False),
        (delta("Hi", role="assistant"), True),
        (delta("Hi"), True),
        (delta(""), True),  # a token that shows no text
        (delta(finish="stop"), False),
        (text("Hi"), True),
        (text(""), True),
        (usage(3), False),
        (frame({"usage": {"completion_tokens": 3}}), False),  # without choices
        (frame({"choices": None}), False),
        (frame({"choices": [{"delta": {"reasoning_content": "hm"}}]}), True),
        (frame({"choices": [{"delta": {"reasoning": "hm", "content": None}}]}), True),
        (frame({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}), True),
        (frame({"choices": [{"delta": None}]}), False),
    ],
)
def test_which_chunks_are_output(wire: str, counts: bool):
    assert read_chunk(data_of(wire)).has_output is counts


@pytest.mark.parametrize("data", ["{", "[]", "3", '{"choices": [1]}', '{"choices": "x"}', "nul"])
def test_nonsense_is_a_malformed_stream(data: str):
    with pytest.raises(StreamError) as caught:
        read_chunk(data)
    assert caught.value.kind == "malformed stream"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from(["choices", "delta", "text", "usage", "error", "content",
                                         "finish_reason", "completion_tokens", "role"]),
                        inner, max_size=4), max_leaves=12))  # fmt: skip
def test_no_json_breaks_the_reader(value: object):
    with suppress(StreamError):
        read_chunk(json.dumps(value))


def test_an_error_event_carries_its_message():
    with pytest.raises(StreamError, match="out of blocks") as caught:
        read_chunk('{"error": {"message": "out of blocks", "type": "server_error"}}')
    assert caught.value.kind == "error event"


# ── times from chunks ───────────────────────────────────────────────────────────────────────


def test_four_tokens_a_chunk():
    """20 tokens in 5 chunks at 10 ms a token: between chunks 40 ms, a token 8.42 ms."""
    record = read(*((0.040 * (i + 1), text("abcd")) for i in range(5)), (0.2, usage(20)))
    assert record.ttft == pytest.approx(0.040)
    assert record.icl == pytest.approx([0.040] * 4)
    assert record.tpot * 1e3 == pytest.approx(160 / 19)
    assert record.itl == []  # nobody can see it
    assert (record.output_tokens, record.prompt_tokens) == (20, 7)


def test_role_comment_and_usage_first_are_not_the_first_token():
    record = read(
        (0.0, delta("", role="assistant")), (0.01, usage(0)), (0.05, delta("a")),
        (0.06, delta("b")), (0.07, delta(finish="length")), (0.07, usage(2)),
    )  # fmt: skip
    assert record.ttft == pytest.approx(0.05)
    assert record.e2e == pytest.approx(0.06)
    assert record.itl == pytest.approx([0.01])


def test_a_closing_chunk_beyond_the_usage_is_no_token():
    frames = [(0.1, text("a")), (0.2, text("b")), (0.3, text("", "stop"))]
    assert read(*frames, (0.3, usage(2))).e2e == pytest.approx(0.2)
    assert read(*frames, (0.3, usage(3))).e2e == pytest.approx(0.3)  # an EOS that counts
    assert read(*frames).output_tokens == 3


def test_one_token_or_one_chunk_has_no_tpot():
    assert read((0.1, text("a")), (0.1, usage(1))).tpot is None
    assert read((0.1, text("abcd")), (0.1, usage(4))).tpot is None


def test_due_and_sent_are_told_apart():
    record = ClientRequest(0, 1.0, 5, sent=3.0, chunk_times=[4.0, 5.0], finished=5.0)
    assert (record.ttft, record.ttft_sent, record.e2e, record.e2e_sent) == (3.0, 1.0, 4.0, 2.0)
    assert record.client_queue == 2.0


@pytest.mark.parametrize(
    ("events", "content_type", "kind"),
    [
        ([], "text/event-stream", "cut short"),
        ([], "text/html", "no output"),
        ([text("a")], "text/event-stream", "cut short"),
        (["data: [DONE]"], "text/event-stream", "no output"),
        ([usage(0), "data: [DONE]"], "text/event-stream", "no output"),
        ([delta(role="assistant"), delta(finish="stop")], "text/event-stream", "no output"),
    ],
)
def test_streams_that_do_not_count(events: list[str], content_type: str, kind: str):
    reader = StreamReader(ClientRequest(0, 0.0, 5, sent=0.0))
    for wire in events:
        reader.take(data_of(wire), 0.1)
    with pytest.raises(StreamError) as caught:
        reader.end(content_type)
    assert caught.value.kind == kind


def test_an_end_without_done_is_fine_after_a_finish_reason():
    reader = StreamReader(ClientRequest(0, 0.0, 5, sent=0.0))
    reader.take(data_of(text("a", "stop")), 0.1)
    reader.end("text/event-stream")
    assert reader.record.chunk_times == [0.1]
