"""A benchmark's figures as text: the table of one run, a sweep's table and plot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minillm.bench.summary import SLO

WIDTH = 58
# key, heading, how it is defined: one line each under the figures.
SECTIONS = (
    ("ttft", "Time to first token (TTFT)", "from the scheduled send"),
    ("ttft_sent", "TTFT from the actual send", "without the wait in the client"),
    ("tpot", "Time per output token (TPOT)", "without the first token"),
    ("itl", "Inter-token latency (ITL)", "between tokens"),
    ("icl", "Inter-chunk latency (ICL)", "between chunks; vLLM's bench calls this ITL"),
    ("e2el", "End-to-end latency (E2EL)", "from the scheduled send to the last token"),
)
ROWS = (("Mean", "mean"), ("Median", "median"), ("P90", "p90"), ("P99", "p99"))


def number(value: float | None, form: str = "{:,.2f}") -> str:
    """A figure, or n/a where nothing was seen."""
    return "n/a" if value is None else form.format(value)


def run_table(summary: dict[str, Any], source: str) -> list[str]:
    """The lines of one run's result. source: where the figures come from, in words."""
    lines = [" Serving benchmark result ".center(WIDTH, "="), source]
    lines += [_line(label, text) for label, text in _totals(summary)]
    for key, heading, definition in SECTIONS:
        if key == "itl" and not summary["samples"]["itl"] and summary["samples"]["icl"]:
            continue  # a warning says why
        if key == "icl" and _same(summary, "icl", "itl"):
            continue
        if key == "ttft_sent" and _same(summary, "ttft_sent", "ttft"):
            continue
        lines += [f" {heading} ".center(WIDTH, "-"), f"({definition})"]
        star = " *" if key in summary["few_for_p99"] else ""
        name = "TTFT" if key == "ttft_sent" else key.upper()
        for label, prefix in ROWS:
            mark = star if prefix == "p99" else ""
            value = number(summary[f"{prefix}_{key}_ms"])
            lines.append(_line(f"{label} {name} (ms){mark}:", value))
    lines.append("=" * WIDTH)
    return lines


def _totals(summary: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("Successful requests:", f"{summary['completed']:,}"),
        ("Failed requests:", f"{summary['failed']:,}"),
    ]
    rows += [(f"  {kind}:", f"{count:,}") for kind, count in summary["errors"].items()]
    if summary["unfinished"]:
        rows.append(("Unfinished requests:", f"{summary['unfinished']:,}"))
    rows += [
        ("Benchmark duration (s):", number(summary["duration"])),
        ("Total input tokens:", number(summary["total_input_tokens"], "{:,}")),
        ("Total generated tokens:", number(summary["total_output_tokens"], "{:,}")),
        ("Sent requests/s:", number(summary["request_rate_sent"])),
        ("Request throughput (req/s):", number(summary["request_throughput"])),
    ]
    if any(summary["slo"].values()):
        share = number(summary["goodput_fraction"], "{:.0%}")
        rows.append(("Request goodput (req/s):", number(summary["request_goodput"])))
        rows.append((f"  {SLO(**summary['slo'])}:", share))
    return [
        *rows,
        ("Output token throughput (tok/s):", number(summary["output_throughput"])),
        ("Total token throughput (tok/s):", number(summary["total_token_throughput"])),
        ("Peak concurrent requests:", f"{summary['max_concurrent_requests']:,}"),
    ]


def _same(summary: dict[str, Any], one: str, other: str) -> bool:
    """Whether two latencies would print the same lines."""
    names = [prefix for _, prefix in ROWS]
    texts = [[number(summary[f"{p}_{key}_ms"]) for p in names] for key in (one, other)]
    return texts[0] == texts[1]


def _line(label: str, value: str) -> str:
    return f"{label:<40}{value:>{WIDTH - 40}}"


# ── sweeps ──────────────────────────────────────────────────────────────────────────────────

SWEEP_COLUMNS = (
    ("req/s", "request_throughput", "{:,.2f}"),
    ("goodput", "request_goodput", "{:,.2f}"),
    ("tok/s", "output_throughput", "{:,.0f}"),
    ("TTFT p50", "median_ttft_ms", "{:,.0f}"),
    ("TTFT p99", "p99_ttft_ms", "{:,.0f}"),
    ("TPOT p50", "median_tpot_ms", "{:,.1f}"),
    ("TPOT p99", "p99_tpot_ms", "{:,.1f}"),
    ("E2EL p50", "median_e2el_ms", "{:,.0f}"),
    ("errors", "error_rate", "{:.0%}"),
)


def sweep_table(walk: str, points: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heading and rows; the point of the highest goodput is marked."""
    best = best_point(points)
    columns = [c for c in SWEEP_COLUMNS if c[1] != "request_goodput" or best is not None]
    rows = []
    for point in points:
        few = "ttft" in point["few_for_p99"]
        cells = [
            number(point[key], form) + (" *" if few and key.startswith("p99") else "")
            for _, key, form in columns
        ]
        rows.append([f"{point['load']:g}" + (" ←" if point is best else ""), *cells])
    return [walk, *[heading for heading, _, _ in columns]], rows


def best_point(points: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The first point of the highest goodput; None without limits or without a good request."""
    known = [point for point in points if point["request_goodput"]]
    return max(known, key=lambda point: point["request_goodput"], default=None)


def text_plot(
    points: Sequence[tuple[float, float, str]], x_name: str, y_name: str,
    width: int = 64, height: int = 14,
) -> list[str]:  # fmt: skip
    """Points (x, y, mark) in a frame of characters, both axes from 0."""
    if not points:
        return []
    x_max = max(x for x, _, _ in points) or 1.0
    y_max = max(y for _, y, _ in points) or 1.0
    grid = [[" "] * (width + 4) for _ in range(height)]
    for x, y, mark in points:
        row = height - 1 - round(y / y_max * (height - 1))
        column = round(x / x_max * (width - 1))
        for offset, letter in enumerate(mark[:5]):
            grid[row][column + offset : column + offset + 1] = [letter]
    left = max(len(f"{y_max:,.0f}"), 1)
    lines = [y_name]
    for i, cells in enumerate(grid):
        tick = f"{y_max:,.0f}" if i == 0 else "0" if i == height - 1 else ""
        lines.append(f"{tick:>{left}} ┤" + "".join(cells).rstrip())
    lines.append(" " * left + " └" + "─" * width)
    lines.append(" " * left + f"  0{x_name:^{width - 2 - len(f'{x_max:,.0f}')}}{x_max:,.0f}")
    return lines
