"""The trace's format, against the golden file that JavaScript reads too."""

import json
from pathlib import Path

import pytest

from minillm.core import SamplingParams, Trace, summarize
from minillm.core.trace import letter
from tests.core.helpers import make_engine, run_all

GOLDEN = Path(__file__).parents[1] / "golden" / "trace.jsonl"


def golden_run():
    """Everything happens in it: chunks, a prefix hit, a preemption, an abort, a refusal."""
    engine = make_engine(num_blocks=6, max_num_seqs=3, max_num_batched_tokens=8, max_model_len=20)
    params = SamplingParams(max_tokens=8, ignore_eos=True)
    engine.add_request("A", [1] * 5, params, prompt_preview="one one one")
    engine.step()
    engine.add_request("B", [1] * 9, params, nickname="Zoë", prompt_preview="“ünï”")
    engine.add_request("C", [2] * 3, params)
    engine.add_request("D", [3], params)
    with pytest.raises(ValueError, match="20 tokens in all"):
        engine.add_request("E", [3] * 20, params)
    engine.step()
    engine.abort("D")
    run_all(engine)
    return engine


def test_the_golden_trace_is_what_the_engine_writes():
    lines = list(golden_run().trace.to_jsonl())
    assert lines == GOLDEN.read_text(encoding="utf-8").splitlines()
    events = {json.loads(line).get("event") for line in lines}
    assert {"arrive", "admit", "first_token", "preempt", "finish", "abort", "refuse"} <= events
    ops = {op for line in lines for op, *_ in json.loads(line).get("blocks", [])}
    assert ops == {"a", "f", "s", "e", "c"}


def test_reading_gives_back_what_was_written():
    trace = golden_run().trace
    lines = list(trace.to_jsonl())
    again = Trace.from_jsonl(lines)
    assert list(again.to_jsonl()) == lines
    assert again.records == trace.records
    assert summarize(again) == summarize(trace)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "The trace is empty"),
        (["{}"], "Line 1 .*not a header"),
        (["{nonsense"], "Line 1"),
        (["HEADER", '{"type":"other"}'], "Line 2 .*'other'"),
        (["HEADER", '{"type":"step"}'], "Line 2"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(lines, message):
    header = GOLDEN.read_text(encoding="utf-8").splitlines()[0]
    with pytest.raises(ValueError, match=message):
        Trace.from_jsonl(header if line == "HEADER" else line for line in lines)


def test_another_schema_or_provenance_is_refused():
    header = json.loads(GOLDEN.read_text(encoding="utf-8").splitlines()[0])
    with pytest.raises(ValueError, match="schema 2"):
        Trace.from_jsonl([json.dumps({**header, "schema": 2})])
    with pytest.raises(ValueError, match="guessed"):
        Trace.from_jsonl([json.dumps({**header, "provenance": "guessed"})])


def test_the_letters_of_requests():
    assert [letter(i) for i in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
