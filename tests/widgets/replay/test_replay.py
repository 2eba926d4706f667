"""The replay without a browser: what it opens, how all follow its cursor, what the page may ask."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from minillm.core import summarize
from minillm.recordings import load_recording, recordings, trace_to_bytes
from widgets.replay import Replay
from widgets.replay.export import exported
from widgets.replay.files import PART

GOLDEN = Path(__file__).parents[2] / "golden" / "trace.jsonl"
LIMIT_S = 120.0


@pytest.fixture
def replay():
    made = Replay("a100-continuous")
    made.sent = []
    made.bar.send = lambda content, buffers=None: made.sent.append((content, buffers))
    yield made
    made.close()


def until(condition) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def ask(replay: Replay, what: str, parts=(), **more) -> None:
    """What the page's bar says."""
    replay.bar._handle_custom_msg({"ask": what, **more}, list(parts))


def upload(replay: Replay, name: str, content: bytes) -> None:
    ask(replay, "upload", number=1, name=name, size=len(content))
    for at in range(0, len(content), PART):
        ask(replay, "bytes", [memoryview(content[at : at + PART])], number=1)


def test_without_a_source_it_shows_the_first_of_the_list():
    with closing(Replay()) as replay:
        first = recordings()[0]
        assert replay.bar.chosen == first.name
        assert [run["name"] for run in replay.bar.runs] == [each.name for each in recordings()]
        assert replay.bar.about["text"] == first.description
        assert replay.bar.about["header"]["provenance"] == first.header.provenance


def test_it_takes_a_path_a_trace_bytes_and_a_recording(tmp_path):
    path = tmp_path / "mine.jsonl.gz"
    path.write_bytes(gzip.compress(GOLDEN.read_bytes()))
    recording = load_recording("a100-static")
    for source, own in (
        (path, "mine.jsonl.gz"), (str(path), "mine.jsonl.gz"),
        (recording.trace, "this notebook’s trace"), (GOLDEN.read_bytes(), "trace"), (recording, ""),
    ):  # fmt: skip
        with closing(Replay(source)) as replay:
            assert replay.bar.own == own
            assert replay.bar.chosen == (recording.name if source is recording else "")
            assert replay.timeline.headline


def test_what_cannot_be_opened_raises_and_says_why(tmp_path):
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(GOLDEN.read_text(encoding="utf-8").splitlines()[0] + "\nnonsense")
    with pytest.raises(ValueError, match=r"Line 2 .*not JSON"):
        Replay(wrong)
    with pytest.raises(OSError, match="No such file"):
        Replay(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="no recorded run 'nothing'"):
        Replay("nothing")


def test_all_figures_have_the_whole_run_and_follow_the_cursor(replay):
    model, whole = replay.model, summarize(replay.model.trace)
    assert len(list(replay.timeline._lanes[0].ring.records())) == len(model.trace.steps)
    assert replay.blocks._lanes[0].ring.next_step == len(model.trace.steps)
    ttft = replay.latencies.model.lanes[0].found["ttft"]
    assert ttft.n == whole.requests
    names = {replay.bar.cursor_name, replay.timeline.cursor_name, replay.strips.cursor_name}
    assert names | {replay.blocks.cursor_name} == {replay.cursor.name}
    for t in (0.3, 1.5, 0.1):  # on, and back
        replay.cursor.move(t=t)
        until(lambda t=t: replay.text.text.startswith(f"At {t * 1e3:.0f}" if t < 1 else "At 1.50"))
        found = replay.latencies.model.lanes[0].found
        ends = [s for s in model.trace.steps if s.t_end - model.origin <= t + 1e-9]
        rows = [row for step in ends for row in step.rows if row.token_id is not None]
        assert found["ttft"].n + found["itl"].n == len(rows)
    replay.cursor.move(t=None)
    until(lambda: replay.text.text.startswith("At the end"))
    assert replay.latencies.model.lanes[0].found["ttft"].n == whole.requests


@pytest.mark.parametrize("threads", [True, False])
def test_a_cell_plays_it_and_waits(threads):
    async def run():
        with closing(Replay("a100-continuous", threads=threads)) as replay:
            replay.play(pace=50.0)
            assert replay.bar.playing
            await asyncio.wait_for(replay.finished(), LIMIT_S)
            assert not replay.bar.playing
            assert replay.cursor.t == replay.model.end
            assert "24 done" in replay.text.text

    asyncio.run(run())


def test_the_page_plays_pauses_and_sets_the_pace(replay):
    ask(replay, "pace", pace=4.0)
    assert (replay.player.pace, replay.bar.pace) == (4.0, 4.0)
    ask(replay, "pace", pace=0)
    assert replay.player.pace is None
    for odd in (17, "4", None, float("nan")):
        ask(replay, "pace", pace=odd)
    assert replay.player.pace is None
    ask(replay, "play")
    assert replay.bar.playing
    ask(replay, "pause")
    until(lambda: not replay.bar.playing)


def test_the_page_chooses_another_run(replay):
    replay.cursor.move(t=0.2, req=3)
    ask(replay, "choose", name="a100-static")
    until(lambda: replay.bar.chosen == "a100-static")
    until(lambda: replay.text.text.startswith("At the end"))
    assert replay.timeline.titles == ["Static"]
    assert (replay.cursor.t, replay.cursor.req) == (None, None)
    assert replay.bar.end == pytest.approx(replay.model.end)
    ask(replay, "choose", name="no such run")
    until(lambda: replay.bar.note["wrong"])
    assert "no recorded run 'no such run'" in replay.bar.said
    assert replay.bar.chosen == "a100-static"


def test_the_page_sends_a_file(replay):
    upload(replay, "mine.jsonl", GOLDEN.read_bytes())
    until(lambda: replay.bar.own == "mine.jsonl")
    assert (replay.bar.chosen, replay.bar.said) == ("", "")
    assert replay.bar.about["made"] == ""
    ask(replay, "choose", name="a100-continuous")
    until(lambda: replay.bar.chosen == "a100-continuous")
    assert replay.bar.own == ""


def test_a_wrong_file_is_one_sentence_and_the_run_stays(replay):
    text = GOLDEN.read_text(encoding="utf-8").splitlines()
    upload(replay, "notes.txt", "\n".join([*text[:4], "hello"]).encode())
    until(lambda: replay.bar.said)
    assert replay.bar.note["wrong"]
    assert replay.bar.said == (
        "notes.txt: Line 5 of the trace cannot be read: it is not JSON (Expecting value, "
        "character 1)."
    )
    assert replay.bar.chosen == "a100-continuous"
    ask(replay, "upload", number=1, name="huge.jsonl", size=2**30)
    assert replay.bar.said.startswith("huge.jsonl has 1,024.0 MB")


def fetched(replay: Replay, to: str) -> tuple[dict, bytes]:
    """The file that the page gets for one press of a button."""
    replay.sent.clear()
    ask(replay, "export", to=to, by="me")
    until(lambda: any(content["kind"] == "file" for content, _ in replay.sent))
    said = next(content for content, _ in replay.sent if content["kind"] == "file")
    assert said["by"] == "me"
    whole = b""
    for part in range(said["parts"]):
        ask(replay, "part", number=said["number"], part=part, by="me")
        content, [data] = replay.sent[-1]
        assert (content["kind"], content["part"], content["by"]) == ("part", part, "me")
        whole += data
    return said, gzip.decompress(whole)


def test_the_page_gets_each_export(replay):
    said, content = fetched(replay, "csv")
    assert said["name"] == "a100-continuous.csv"
    assert content.decode().startswith("step,t_start,t_end,request,kind")
    said, content = fetched(replay, "chrome")
    assert said["name"] == "a100-continuous.trace.json"
    assert json.loads(content)["otherData"]["provenance"] == "simulated"
    said, content = fetched(replay, "png")
    assert content.startswith(b"\x89PNG")
    ask(replay, "part", number=999, part=0, by="me")
    assert "press the button again" in replay.bar.said


def test_without_matplotlib_the_page_saves_its_own_picture(replay, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    ask(replay, "export", to="png", by="me")
    until(lambda: any(content["kind"] == "picture" for content, _ in replay.sent))
    assert replay.sent[-1][0] == {"kind": "picture", "by": "me", "name": "a100-continuous.png"}


@pytest.mark.parametrize(
    "odd", [None, 3, {}, {"ask": "x"}, {"ask": ["play"]}, {"ask": "export", "to": "exe"},
            {"ask": "part"}, {"ask": "choose", "name": 3}, {"ask": "bytes", "number": 5}],
)  # fmt: skip
def test_odd_messages_of_the_page_change_nothing(replay, odd):
    replay.bar._handle_custom_msg(odd, [])
    assert replay.bar.chosen == "a100-continuous"
    assert not replay.bar.playing


def test_an_unknown_export_is_refused():
    with pytest.raises(ValueError, match="csv, png, chrome, got 'exe'"):
        exported(load_recording("a100-static").trace, "exe")


def test_frozen_it_is_a_figure_with_its_words(replay):
    still = replay.freeze()
    html = still.to_html()
    assert "alt=" in html
    assert "Recorded on" in html
    assert "24 done" in html
    assert replay.timeline.frozen
    assert replay.blocks.frozen
    assert replay.strips.frozen
    assert replay.latencies.frozen
    replay.load("a100-static")  # another run is live again
    assert not replay.timeline.frozen
    assert trace_to_bytes(replay.model.trace)
