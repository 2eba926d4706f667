"""Recorded traces: the data in the package, the CSV reader's refusals, rates."""

from __future__ import annotations

import pytest

from minillm import data
from minillm.sim.traces import named_trace, parse_trace, trace_workload

LINES = ["arrival_s,input_len,output_len", "0.0,5,2", "1.0,7,3", "4.0,9,1"]


def test_every_trace_of_the_package_can_be_read():
    rows = {name: named_trace(name) for name in data.trace_names()}
    assert len(rows["azure2023-conv"]) == 19_366
    assert len(rows["azure2023-code"]) == 8_819
    assert len(rows["mooncake-conversation"]) == 3_000
    assert len(rows["vllm019-rtx4090"]) == len(rows["vllm019-rtxpro6000"]) == 300
    assert rows["vllm019-rtx4090"][0].measured_ttft_s == 0.6894


def test_every_data_file_has_its_provenance():
    readme = data.read_text("traces/README.md")
    files = [name for name in data.names() if name.endswith(".csv") and "traces/" in name]
    assert len(files) == len(data.TRACES)
    for name in files:
        assert name.removeprefix("traces/") in readme
    for licence in ("CC-BY 4.0", "Apache-2.0", "MIT"):
        assert licence in readme


def test_an_unknown_trace_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"Unknown trace 'azure': choose one of azure2023-conv, "):
        named_trace("azure")


@pytest.mark.parametrize("name", ["nothing.csv", "../core/engine.py", "traces"])
def test_only_data_files_are_read(name):
    with pytest.raises(ValueError, match="no data file"):
        data.read_text(name)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2.0,x,3", "Line 4 of the trace: input_len must be an integer ≥ 1, got 'x'."),
        ("2.0,0,3", "Line 4 of the trace: input_len must be an integer ≥ 1, got '0'."),
        ("2.0,4,-1", "Line 4 of the trace: output_len must be an integer ≥ 1, got '-1'."),
        ("nan,4,3", "Line 4 of the trace: arrival_s must be a number of seconds ≥ 0, got 'nan'."),
        ("-1,4,3", "Line 4 of the trace: arrival_s must be a number of seconds ≥ 0, got '-1'."),
        ("2.0,4", "Line 4 of the trace: it has 2 cells, the heading has 3."),
    ],
)
def test_a_broken_row_is_named_by_its_line(line, said):
    with pytest.raises(ValueError) as error:
        parse_trace([*LINES[:3], line])
    assert str(error.value) == said


def test_blank_lines_count_as_lines_and_not_as_rows():
    assert len(parse_trace([*LINES, "", "  "])) == 3
    with pytest.raises(ValueError, match=r"Line 6 of mine\.csv: "):
        parse_trace([*LINES, "", "1,1"], "mine.csv")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "Line 1 of the trace names no column input_len and output_len."),
        (["arrival_s,input_len"], "Line 1 of the trace names no column output_len."),
        (LINES[:1], "The trace is empty: it has no request."),
    ],
)
def test_a_trace_without_heading_or_rows_is_refused(lines, said):
    with pytest.raises(ValueError) as error:
        parse_trace(lines)
    assert str(error.value) == said


def test_block_hashes_must_cover_the_prompt():
    head = "arrival_s,input_len,output_len,block_hashes"
    (row,) = parse_trace([head, "0,1025,3,4 5 6"])
    assert row.block_hashes == (4, 5, 6)
    with pytest.raises(ValueError, match="1025 tokens are 3 blocks of 512, but block_hashes has 2"):
        parse_trace([head, "0,1025,3,4 5"])


def test_columns_come_in_any_order_and_rows_are_sorted():
    rows = parse_trace(["output_len,note,input_len,arrival_s", "2,hi,5,3.0", "4,ho,6,1.0"])
    assert [(row.arrival_s, row.input_len, row.output_len) for row in rows] == [
        (1.0, 6, 4),
        (3.0, 5, 2),
    ]


def test_a_rate_scales_all_gaps_alike():
    rows = parse_trace(LINES)
    assert [r.time for r in trace_workload(rows)] == [0.0, 1.0, 4.0]
    scaled = [r.time for r in trace_workload(rows, rate=10.0)]
    assert scaled == pytest.approx([0.0, 0.05, 0.2])
    assert [r.time for r in trace_workload(rows, rate=10.0, count=2)] == pytest.approx([0.0, 0.1])
    assert [r.time for r in trace_workload(rows, rate=10.0, count=1)] == [0.0]


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), float("inf"), "4", True])
def test_a_rate_must_be_above_zero(rate):
    for arrivals in ("trace", "poisson"):
        with pytest.raises(ValueError, match="rate must be a number of requests a second > 0"):
            trace_workload(parse_trace(LINES), rate=rate, arrivals=arrivals)


def test_what_cannot_be_timed_is_refused():
    lengths = parse_trace(["input_len,output_len", "5,2", "7,3"])
    with pytest.raises(ValueError, match="need a rate"):
        trace_workload(lengths)
    assert len(trace_workload(lengths, rate=2.0)) == 2
    at_once = parse_trace([LINES[0], "1.0,5,2", "1.0,7,3"])
    with pytest.raises(ValueError, match="All 2 requests come at once"):
        trace_workload(at_once, rate=2.0)
    with pytest.raises(ValueError, match="The trace has 3 requests, fewer than 4"):
        trace_workload(parse_trace(LINES), count=4)
    with pytest.raises(ValueError, match="must be an integer ≥ 1, got 0"):
        trace_workload(parse_trace(LINES), count=0)
    with pytest.raises(ValueError, match="Unknown arrivals 'burst'"):
        trace_workload(parse_trace(LINES), rate=1.0, arrivals="burst")


def test_equal_block_hashes_give_equal_tokens():
    head = "arrival_s,input_len,output_len,block_hashes"
    rows = parse_trace([head, "0,1200,3,7 8 9", "1,1100,3,7 8 10", "2,1536,3,7 11 9"])
    a, b, c = (request.prompt_token_ids() for request in trace_workload(rows))
    assert [len(a), len(b), len(c)] == [1200, 1100, 1536]
    assert a[:1024] == b[:1024]
    assert a[1024] != b[1024]
    assert a[:512] == c[:512]
    assert a[512] != c[512]
