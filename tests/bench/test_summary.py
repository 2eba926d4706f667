"""Figures of a run: null where nothing was seen (C45), failures apart (C46), goodput, the pages."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minillm.bench.page import RUN_HEADING, page, run_figures, run_rows, sweep_figures
from minillm.bench.record import ClientRequest
from minillm.bench.report import best_point, run_table, sweep_table, text_plot
from minillm.bench.summary import SLO, most_at_once, parse_slo, summarize_run, warnings
from minillm.bench.svg import Series, line_chart


def request(
    index: int,
    due: float,
    chunks: list[float],
    *,
    tokens: int | None = None,
    sent: float | None = None,
) -> ClientRequest:
    return ClientRequest(
        index, due, 8, due if sent is None else sent, chunks, chunks[-1],
        10, len(chunks) if tokens is None else tokens, "length",
    )  # fmt: skip


def failure(index: int, due: float, kind: str = "HTTP 503") -> ClientRequest:
    record = ClientRequest(index, due, 8, due, [], due + 0.001)
    record.fail(kind, "no room")
    return record


def test_the_figures_of_two_requests():
    figures = summarize_run([request(0, 0.0, [0.1, 0.2, 0.3]), request(1, 1.0, [1.3, 1.7, 2.1])])
    assert figures["duration"] == pytest.approx(2.1)
    assert figures["request_throughput"] == pytest.approx(2 / 2.1)
    assert figures["output_throughput"] == pytest.approx(6 / 2.1)
    assert figures["total_token_throughput"] == pytest.approx(26 / 2.1)
    assert figures["mean_ttft_ms"] == pytest.approx(200)
    assert figures["median_tpot_ms"] == pytest.approx(250)
    assert figures["p99_itl_ms"] == pytest.approx(400)
    assert figures["mean_e2el_ms"] == pytest.approx(700)
    assert figures["request_rate_sent"] == pytest.approx(1.0)
    assert figures["samples"]["itl"] == 4
    assert set(figures["few_for_p99"]) == set(figures["samples"])


def test_failures_improve_nothing():
    good = [request(i, 0.1 * i, [0.1 * i + 0.5, 0.1 * i + 0.6]) for i in range(4)]
    alone = summarize_run(good)
    figures = summarize_run([*good, failure(4, 0.05), failure(5, 0.15, "timeout")])
    assert (figures["completed"], figures["failed"]) == (4, 2)
    assert figures["error_rate"] == pytest.approx(1 / 3)
    assert figures["errors"] == {"HTTP 503": 1, "timeout": 1}
    for key in ("mean_ttft_ms", "p99_e2el_ms", "request_throughput", "output_throughput"):
        assert figures[key] == alone[key]


@pytest.mark.parametrize("requests", [[], [failure(0, 0.0)], [ClientRequest(0, 0.0, 8)]])
def test_without_success_everything_is_null(requests: list[ClientRequest]):
    figures = summarize_run(requests, SLO(ttft_ms=1))
    latencies = [value for key, value in figures.items() if key.endswith("_ms")]
    assert len(latencies) == 8 * 6
    assert set(latencies) == {None}
    assert figures["few_for_p99"] == []
    json.dumps(figures, allow_nan=False)
    text = "\n".join(run_table(figures, "(simulated)"))
    assert "n/a" in text
    assert "nan" not in text.lower().replace("finance", "")
    assert run_figures(requests, figures["slo"]) == [
        "<p>No request was completed: there is nothing to draw.</p>"
    ]


def test_goodput_counts_who_keeps_every_limit():
    requests = [
        request(0, 0.0, [0.1, 0.2]), request(1, 0.0, [0.6, 0.7]), request(2, 0.0, [0.1, 1.0]),
        request(3, 0.0, [0.1]), failure(4, 0.0),
    ]  # fmt: skip
    figures = summarize_run(requests, parse_slo(["ttft:500", "tpot:200"]))
    assert figures["request_goodput"] * figures["duration"] == pytest.approx(2)  # 0 and 3
    assert figures["goodput_fraction"] == pytest.approx(0.5)
    assert figures["slo"] == {"ttft_ms": 500, "tpot_ms": 200, "e2el_ms": None}
    assert summarize_run(requests)["request_goodput"] is None


@pytest.mark.parametrize(
    "wrong", ["ttft", "ttft:x", "itl:5", "ttft:0", "ttft:-1", "ttft:nan", ":5"]
)
def test_wrong_limits_are_refused(wrong: str):
    with pytest.raises(ValueError, match="limit for goodput"):
        parse_slo([wrong])
    with pytest.raises(ValueError, match="once"):
        parse_slo(["ttft:5", "ttft:6"])


def test_warnings_say_what_to_know():
    late = [request(i, 0.0, [1.0, 1.1], sent=0.5) for i in range(3)]
    figures = summarize_run(late)
    assert any("could not keep up" in note for note in warnings(figures, False, False))
    assert not any("could not keep up" in note for note in warnings(figures, False, True))
    late[0].usage_tokens = None
    assert any(
        "1 answers came without usage" in n for n in warnings(summarize_run(late), True, True)
    )


def test_most_at_once():
    spans = [request(0, 0.0, [2.0]), request(1, 1.0, [3.0]), request(2, 2.0, [4.0])]
    assert most_at_once(spans) == 2  # at 2.0 one ends before the next begins


def test_the_table_shows_what_differs():
    lines = "\n".join(run_table(summarize_run([request(0, 0.0, [0.1, 0.2])]), "(measured)"))
    assert "Inter-token latency (ITL)" in lines
    assert "ICL" not in lines  # the same figures twice
    assert "P99 TTFT (ms) *:" in lines
    several = summarize_run([request(0, 0.0, [0.1, 0.2], tokens=8, sent=0.05)])
    lines = "\n".join(run_table(several, "(measured)"))
    assert "Inter-token" not in lines
    assert "Inter-chunk latency (ICL)" in lines
    assert "TTFT from the actual send" in lines


# ── figures ─────────────────────────────────────────────────────────────────────────────────

values = st.floats(0, 1e9, allow_nan=False)


@given(st.lists(st.tuples(values, values), max_size=20), st.booleans(), st.none() | values)
def test_every_chart_is_valid_xml_inside_its_frame(
    points: list[tuple[float, float]], log_y: bool, limit: float | None
):
    series = [
        Series("a < b & c", sorted(points), labels=["x"]),
        Series("steps", points, steps=True),
    ]
    text = line_chart("a <title>", series, "x & y", "ms", limit=limit, log_y=log_y)
    root = ElementTree.fromstring(text)
    for dot in root.iter("circle"):
        assert 0 <= float(dot.get("cx")) <= 560
        assert -1 <= float(dot.get("cy")) <= 301
    assert "nan" not in text


@given(st.lists(st.tuples(values, values, st.text("•12", max_size=8)), max_size=12))
def test_every_text_plot_fits(points: list[tuple[float, float, str]]):
    lines = text_plot(points, "tok/s", "ms")
    assert len({len(line) < 100 for line in lines}) <= 1
    assert not lines or len(lines) == 17


def point(load: float, goodput: float | None) -> dict:
    figures = summarize_run([request(0, 0.0, [0.1, 0.2])], SLO(ttft_ms=50))
    return {"load": load, **figures, "request_goodput": goodput}


def test_a_sweep_marks_its_best_point():
    points = [point(1, 0.5), point(2, 2.0), point(4, 1.0)]
    assert best_point(points) is points[1]
    heading, rows = sweep_table("concurrency", points)
    assert "goodput" in heading
    assert [row[0] for row in rows] == ["1", "2 ←", "4"]
    assert best_point([point(1, None), point(2, 0.0)]) is None


def test_pages_are_whole_documents():
    requests = [request(i, 0.1 * i, [0.1 * i + 0.2, 0.1 * i + 0.3]) for i in range(600)]
    figures = summarize_run(requests)
    text = page(
        "A < B", "(simulated)", run_figures(requests, figures["slo"]), RUN_HEADING,
        run_rows(figures), ["a & b"],
    )  # fmt: skip
    assert text.count("<svg") == text.count("</svg>") == 5
    assert "A &lt; B" in text
    assert "http" not in text.replace("http://www.w3.org", "")  # nothing is loaded from anywhere
    assert len(text) < 400_000
    assert len(sweep_figures("rate", [point(1, 0.5), point(2, 1.0)])) == 3
