"""A run or a sweep as one HTML page with SVG figures: nothing to load, readable in the dark too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from minillm.bench.record import ClientRequest
from minillm.bench.report import best_point, number
from minillm.bench.svg import Series, line_chart

MAX_POINTS = 400  # of one curve
BINS = 60

STYLE = """
:root{color-scheme:light dark;--ink:#1f2933;--soft:#52606d;--grid:#e4e7eb;--paper:#fff;
--a:#2563a8;--b:#c05621;--c:#2f855a;--d:#805ad5}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--soft:#9aa5b1;--grid:#323f4b;
--paper:#161b22;--a:#63a4ff;--b:#f6a560;--c:#68d391;--d:#b794f4}}
body{margin:2rem auto;max-width:1180px;padding:0 1rem;font:15px/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--paper)}
h1{font-size:1.5rem;margin:0}.source,.note{color:var(--soft)}.note{max-width:70ch}
figure{margin:0}.figures{display:grid;gap:1.5rem;margin:1.5rem 0;
grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr))}
svg{width:100%;height:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
th,td{padding:.25rem .8rem;text-align:right;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}tr.best{font-weight:600}
.head{font-size:14px;font-weight:600;fill:var(--ink)}.tick{font-size:11px;fill:var(--soft)}
.name{font-size:12px;fill:var(--soft)}.grid{stroke:var(--grid)}
.axis{stroke:var(--soft);fill:none}.limit{stroke:var(--ink);stroke-dasharray:5 4}
.line{fill:none;stroke-width:2}.s0{stroke:var(--a)}.s1{stroke:var(--b)}.s2{stroke:var(--c)}
.s3{stroke:var(--d)}.dot.s0{fill:var(--a)}.dot.s1{fill:var(--b)}.dot.s2{fill:var(--c)}
.dot.s3{fill:var(--d)}
"""


def page(
    title: str,
    source: str,
    figures: Sequence[str],
    heading: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    best: int | None = None,
) -> str:
    """The whole document. best: the number of the row to stress."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heading)
    body = ""
    for number_of, row in enumerate(rows):
        css = ' class="best"' if number_of == best else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
        body += f"<tr{css}>{cells}</tr>"
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>{escape(title)}</h1><p class="source">{escape(source)}</p>{said}'
        f'<div class="figures">{"".join(figures)}</div>'
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div></body></html>\n"
    )


def run_figures(requests: Sequence[ClientRequest], slo: dict[str, float | None]) -> list[str]:
    """Latency over time, distributions, tokens a second, requests in flight."""
    done = [r for r in requests if r.completed]
    if not done:
        return ["<p>No request was completed: there is nothing to draw.</p>"]
    over_time = sorted((r.scheduled, r.ttft * 1e3) for r in done)
    return [
        line_chart(
            "TTFT of each request, when it was due", [Series("TTFT", _thin(over_time), line=False)],
            "seconds after the start", "TTFT (ms)", limit=slo["ttft_ms"],
        ),
        line_chart(
            "How many requests were faster",
            [Series(name, _cumulative(values), steps=True, dots=False) for name, values in (
                ("TTFT", [r.ttft * 1e3 for r in done]), ("E2E", [r.e2e * 1e3 for r in done]),
            )], "ms", "share of requests (%)",
        ),
        line_chart(
            "How many tokens came faster",
            [Series("TPOT", _cumulative([r.tpot * 1e3 for r in done if r.tpot is not None]),
                    steps=True, dots=False),
             Series("ICL", _cumulative([g * 1e3 for r in done for g in r.icl]),
                    steps=True, dots=False)],
            "ms", "share (%)",
        ),
        line_chart(
            "Output tokens a second", [Series("tokens/s", _token_rate(done), dots=False)],
            "seconds after the start", "tokens/s",
        ),
        line_chart(
            "Requests in flight",
            [Series("in flight", _in_flight(requests), steps=True, dots=False)],
            "seconds after the start", "requests",
        ),
    ]  # fmt: skip


def sweep_figures(walk: str, points: Sequence[dict[str, Any]]) -> list[str]:
    """Throughput against latency, goodput over the load, TTFT over the load."""

    def curve(x_key: str, y_key: str) -> list[tuple[float, float]]:
        return [(p[x_key], p[y_key]) for p in points if None not in (p[x_key], p[y_key])]

    slo = points[0]["slo"]
    labels = [f"{p['load']:g}" for p in points if p["median_tpot_ms"] is not None]
    unit = "requests at a time" if walk == "concurrency" else "requests/s asked for"
    limits = any(slo.values())
    served = [Series("completed", curve("load", "request_throughput"))]
    if limits:
        served.append(Series("goodput", curve("load", "request_goodput")))
    return [
        line_chart(
            f"Throughput against latency, by {walk}",
            [Series("median", curve("output_throughput", "median_tpot_ms"), labels),
             Series("p99", curve("output_throughput", "p99_tpot_ms"))],
            "output tokens/s of all", "TPOT (ms)", limit=slo["tpot_ms"],
        ),
        line_chart(
            "Requests a second" + (", and those within the limits" if limits else ""),
            served, unit, "requests/s",
        ),
        line_chart(
            "Time to first token",
            [Series("median", curve("load", "median_ttft_ms")),
             Series("p99", curve("load", "p99_ttft_ms"))],
            unit, "TTFT (ms)", limit=slo["ttft_ms"], log_y=True,
        ),
    ]  # fmt: skip


def run_rows(summary: dict[str, Any]) -> list[list[str]]:
    """A row for each latency of the run."""
    names = {
        "ttft": "TTFT from the scheduled send", "ttft_sent": "TTFT from the actual send",
        "tpot": "TPOT", "itl": "ITL, between tokens", "icl": "ICL, between chunks",
        "e2el": "E2E", "client_queue": "wait in the client",
    }  # fmt: skip
    columns = ("mean", "median", "p90", "p95", "p99")
    return [
        [label, *[number(summary[f"{column}_{key}_ms"]) for column in columns],
         f"{summary['samples'][key]:,}"]
        for key, label in names.items()
    ]  # fmt: skip


RUN_HEADING = ("latency (ms)", "mean", "median", "p90", "p95", "p99", "samples")


def best_row(points: Sequence[dict[str, Any]]) -> int | None:
    best = best_point(points)
    return next((i for i, point in enumerate(points) if point is best), None)


def _thin(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MAX_POINTS of them, evenly chosen, first and last included."""
    if len(points) <= MAX_POINTS:
        return list(points)
    step = (len(points) - 1) / (MAX_POINTS - 1)
    return [points[round(i * step)] for i in range(MAX_POINTS)]


def _cumulative(values: Sequence[float]) -> list[tuple[float, float]]:
    ordered = sorted(values)
    return _thin([(value, 100 * (i + 1) / len(ordered)) for i, value in enumerate(ordered)])


def _token_rate(done: Sequence[ClientRequest]) -> list[tuple[float, float]]:
    """Tokens a second in BINS equal times; a chunk counts for its share of the usage."""
    end = max(r.chunk_times[-1] for r in done)
    width = max(end, 1e-9) / BINS
    bins = [0.0] * BINS
    for request in done:
        weight = request.output_tokens / len(request.chunk_times)
        for when in request.chunk_times:
            bins[min(math.floor(when / width), BINS - 1)] += weight
    return [((i + 0.5) * width, count / width) for i, count in enumerate(bins)]


def _in_flight(requests: Sequence[ClientRequest]) -> list[tuple[float, float]]:
    changes = [(r.sent, 1) for r in requests if r.sent is not None]
    changes += [(r.finished, -1) for r in requests if r.sent is not None and r.finished is not None]
    now, points = 0, []
    for when, change in sorted(changes):
        now += change
        points.append((when, float(now)))
    return _thin(points)
