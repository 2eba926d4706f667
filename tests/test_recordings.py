"""The recorded runs that come with the course, and the door for trace files of one's own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from minillm import data, recordings
from minillm.core import Trace, summarize
from minillm.core.trace import DEAD, record_line
from minillm.recordings import load_recording, trace_from_bytes, trace_to_bytes

GOLDEN = Path(__file__).parent / "golden" / "trace.jsonl"
STREAM = GOLDEN.with_name("trace_stream.txt")
ALL = recordings.recordings()


@pytest.fixture(params=ALL, ids=[each.name for each in ALL])
def recording(request):
    return request.param


def test_the_list_and_the_files_are_the_same():
    files = {name for name in data.names() if name.endswith(".jsonl.gz")}
    assert files == {f"recorded/{each.name}.jsonl.gz" for each in ALL}
    assert len({each.name for each in ALL}) == len({each.title for each in ALL}) == len(ALL)
    folder = Path(data.__file__).parent / "recorded"
    assert sum(path.stat().st_size for path in folder.glob("*.gz")) < 1.5e6


def test_every_recording_says_where_it_comes_from(recording):
    assert recording.measured == (recording.header.provenance == "measured")
    assert recording.measured or recording.header.provenance == "simulated"
    for text in (recording.device, recording.model, recording.dtype, recording.policy):
        assert text
    for sentence in (recording.description, recording.source):
        assert sentence.endswith(".")
    year, month, day = map(int, recording.recorded_on.split("-"))
    assert (year, 1 <= month <= 12, 1 <= day <= 31) >= (2026, True, True)
    if recording.measured:  # nobody had a GPU when these were recorded
        assert recording.device.startswith("CPU")
        assert "other programs took" in recording.source
    else:
        assert "simulated" in recording.source


def test_every_recording_is_consistent(recording):
    trace = recording.trace
    arrived = {e.req: e.data["max_tokens"] for e in trace.events if e.event == "arrive"}
    ended = {e.req: e.data["reason"] for e in trace.events if e.event == "finish"}
    assert ended == dict.fromkeys(arrived, "length")
    tokens = dict.fromkeys(arrived, 0)
    for step in trace.steps:
        assert step.t_end >= step.t_start
        for row in step.rows:
            tokens[row.req_idx] += row.token_id is not None
            assert row.token_id is None or row.kind != DEAD
    assert tokens == arrived
    summary = summarize(trace)
    assert summary.completed == summary.requests == len(arrived)
    assert summary.output_tokens == sum(arrived.values())
    assert [step.step for step in trace.steps] == sorted(step.step for step in trace.steps)
    assert max(step.kv_used + step.kv_cached for step in trace.steps) <= trace.header.num_blocks


def test_every_recording_passes_the_door_and_comes_out_as_it_went_in(recording):
    packed = data.read_bytes(f"recorded/{recording.name}.jsonl.gz")
    trace = trace_from_bytes(packed)
    assert trace.records == recording.trace.records
    assert trace_to_bytes(trace) == gzip.decompress(packed)


def test_a_recording_is_found_by_its_name_and_read_once():
    first = load_recording(ALL[0].name)
    assert first.trace is load_recording(ALL[0].name).trace
    with pytest.raises(ValueError, match=rf"'no-such': choose one of {ALL[0].name}, "):
        load_recording("no-such")


# ── files of one's own ──────────────────────────────────────────────────────────────────────


LINES = GOLDEN.read_text(encoding="utf-8").splitlines()
STEP = next(number for number, line in enumerate(LINES) if '"type":"step"' in line)
HEADER, FIRST = json.loads(LINES[0]), json.loads(LINES[STEP])


def file(**changes) -> bytes:
    """The golden trace with one step's fields changed."""
    lines = [*LINES]
    lines[STEP] = json.dumps({**FIRST, **changes})
    return "\n".join(lines).encode()


def test_a_file_may_be_plain_packed_marked_and_of_any_system():
    text = GOLDEN.read_bytes()
    expected = Trace.from_jsonl(LINES).records
    for content in (
        text, gzip.compress(text), b"\xef\xbb\xbf" + text, text.replace(b"\n", b"\r\n"),
        gzip.compress(text[:900]) + gzip.compress(text[900:]),
    ):  # fmt: skip
        assert trace_from_bytes(content).records == expected


def test_what_a_server_said_is_a_trace_too():
    text = STREAM.read_text(encoding="utf-8")
    said = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    trace = trace_from_bytes(text.encode())
    records = [each for each in said if each["type"] in ("step", "event")]
    assert [json.loads(record_line(record)) for record in trace.records] == records
    lines = text.splitlines()
    number = next(i for i, line in enumerate(lines) if '"type":"step"' in line)
    lines[number] = lines[number].replace('"budget":8', '"budget":"8"')
    with pytest.raises(ValueError, match=rf"Line {number + 1} .*budget .* got '8'"):
        trace_from_bytes("\n".join(lines).encode())


def test_a_preview_with_a_line_separator_of_unicode_is_no_end_of_a_line():
    text = GOLDEN.read_text(encoding="utf-8").replace("one one one", "one\u2028one\x85one")
    assert len(trace_from_bytes(text.encode()).events) == len(Trace.from_jsonl(LINES).events)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty"),
        (b" \n ", "The file is empty"),
        (b'{"traceEvents":[]}', "Line 1 .*not a header"),
        (b"[1]", "Line 1 .*no JSON object"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", r"Line 1 .*not UTF-8 text \(byte 0 of the file is 0x89\)"),
        (gzip.compress(b"x")[:-3], "cannot be unpacked"),
        (b"\x1f\x8b\x00nonsense", "cannot be unpacked"),
        (LINES[0].encode(), "no step"),
        (f"{LINES[0]}\n\nnonsense".encode(), r"Line 3 .*not JSON \(Expecting value, character 1\)"),
        (json.dumps({**HEADER, "schema": 9}).encode(), "Line 1 .*schema 9"),
        (json.dumps({**HEADER, "device": 3}).encode(), "Line 1 .*device must be a text, got 3"),
        (json.dumps({**HEADER, "num_blocks": 10**9}).encode(), "Line 1 .*num_blocks .*1000000000"),
        (json.dumps({**HEADER, "extra": 1}).encode(), "Line 1 .*no field 'extra'"),
        (b'{"type":"header"}', "Line 1 .*a header needs 'block_size'"),
        (file(t_end=-1), "ends at -1 s, before it starts"),
        (file(t_start="0"), "t_start must be a number of seconds, got '0'"),
        (file(waiting=-1), "waiting must be a whole number of at least 0, got -1"),
        (file(rows=[[0, 1, 2]]), r"a row is \[request, kind.*got \[0, 1, 2\]"),
        (file(rows=[[0, 7, 1, 0, 0, None]]), "a row's kind must be .* from 0 to 2, got 7"),
        (file(rows=[[True, 1, 1, 0, 0, None]]), "a row's request must be .*, got True"),
        (file(blocks=[["a", 6, 0]]), "a block must be a whole number from 0 to 5, got 6"),
        (file(blocks=[["af", 1, 0]]), r"one of afsec, block, request\], got \['af', 1, 0\]"),
        (file(terms=3), "terms must be an object or null, got 3"),
        (file(kv_used=float("nan")), "NaN is no number in JSON"),
        (("\n".join(LINES) + '\n{"type":"event","t":1}').encode(), "an event needs 'req'"),
        (LINES[0].encode() + b"\n" + b"[" * 100_000, "Line 2 .*cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused_in_one_sentence(content, message):
    with pytest.raises(ValueError, match=message) as caught:
        trace_from_bytes(content)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_steps_out_of_order_are_refused():
    last = max(number for number, line in enumerate(LINES) if '"type":"step"' in line)
    lines = [*LINES]
    lines[STEP], lines[last] = lines[last], lines[STEP]
    with pytest.raises(ValueError, match="before the one above it"):
        trace_from_bytes("\n".join(lines).encode())


def test_a_file_that_is_too_long_is_refused_before_it_is_unpacked_whole(monkeypatch):
    monkeypatch.setattr(recordings, "MOST_BYTES", 2**20)
    with pytest.raises(ValueError, match=r"has 2\.0 MB; a trace of at most 1 MB"):
        trace_from_bytes(b"x" * 2**21)
    with pytest.raises(ValueError, match="more than 1 MB"):
        trace_from_bytes(gzip.compress(b"\0" * 2**28))


# ── what the course's own show ──────────────────────────────────────────────────────────────


def trace_of(name: str) -> Trace:
    return load_recording(name).trace


def test_they_show_what_they_are_for():
    assert summarize(trace_of("four-static")).row_padding_fraction == pytest.approx(0.45)
    assert summarize(trace_of("four-continuous")).row_padding_fraction == 0
    assert any(event.event == "preempt" for event in trace_of("memory-short").events)
    hits = {op.op for step in trace_of("prefix-hits").steps for op in step.blocks}
    assert "s" in hits
    whole, chunked = trace_of("long-prompt-whole"), trace_of("long-prompt-chunked")
    longest = [
        max(row.n_tokens for step in trace.steps for row in step.rows) for trace in (whole, chunked)
    ]
    assert longest[0] == 1500
    assert longest[1] <= 128


def test_runs_of_one_group_serve_the_same_requests():
    for group in (
        ("four-static", "four-continuous"), ("chat-static", "chat-dynamic", "chat-continuous"),
        ("long-prompt-whole", "long-prompt-chunked"),
        ("a100-static", "a100-continuous", "h100-continuous"),
    ):  # fmt: skip
        asked = [
            {e.id: e.data for e in trace_of(name).events if e.event == "arrive"} for name in group
        ]
        assert all(each == asked[0] for each in asked)
