"""Tables of metrics: what each is for and what a run gave, what a mean hides, what a queue means.

metric_table({"closed": (run, trace), …}, slo)   # aim, who cares, each run's figure
hidden_table({"whole": trace, …})                # mean beside p50, p95, p99 of ITL and TPOT
goodput_table({rate: summary, …}, slo, where)    # throughput and goodput over the rate
queue_table({"here": rate, …})                   # how long ten in the queue wait
own_table(run, functions, slo)                   # a student's functions on a run
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from minillm.core import Trace, request_metrics
from minillm.core.metrics import goodput, percentile
from widgets import cards
from widgets.numbers import number3, percent, seconds
from widgets.roofline_model import share_text

if TYPE_CHECKING:
    from minillm.bench.load import Run
    from minillm.bench.summary import SLO

TEN = 10
HIDDEN = ("run", "of", "mean", "p50", "p95", "p99", "longest")
RATES = (
    "requests/s come", "served/s", "TTFT p50", "TTFT p99", "TPOT p99", "goodput/s", "good share",
)  # fmt: skip
QUEUE = ("engine", "it serves", "ten in front of you", "in front for 500 ms")


def metric_table(runs: Mapping[str, tuple[Run, Trace]], slo: SLO) -> cards.Html:
    """A row a metric: what it is good for, who asks, and its figure in each run."""
    found = [_run_figures(run, trace, slo) for run, trace in runs.values()]
    rows = [
        (metric, aim, who, *(figures[i] for figures in found))
        for i, (metric, aim, who) in enumerate(METRICS)
    ]
    title = "Metric, optimise for, who cares"
    columns = ("metric", "optimise for", "who cares", *runs)
    where = cards.provenance(next(iter(runs.values()))[1].header)
    return _card(title, where, columns, rows, left=True, note=f"Goodput: {slo}.")


METRICS = (
    ("TTFT, p99", "a short queue, prompts read soon", "who waits for the first word"),
    ("ITL, p99", "steps of even length", "who reads along"),
    ("TPOT, p99", "quick steps on average", "who waits for long answers"),
    ("E2E, p99", "all of it", "agents and tools, which need the whole answer"),
    ("tokens/s in all", "large batches", "who pays for the machine"),
    ("goodput, requests/s", "promises kept", "who made the promise"),
    ("most in the queue", "room for bursts, refusing in time", "who runs the server"),
    ("KV memory, at most", "full, but without preemptions", "who runs the server"),
    ("preemptions", "none", "who runs the server"),
    ("failed requests", "none", "everybody"),
)


def _run_figures(run: Run, trace: Trace, slo: SLO) -> tuple[str, ...]:
    from minillm.bench.summary import summarize_run

    summary, blocks = summarize_run(run.requests, slo), trace.header.num_blocks
    latencies = (summary[f"p99_{name}_ms"] for name in ("ttft", "itl", "tpot", "e2el"))
    preempted = sum(event.event == "preempt" for event in trace.events)
    return (
        *(_ms(value) for value in latencies),
        _figure(summary["output_throughput"]), _figure(summary["request_goodput"]),
        f"{max((step.waiting for step in trace.steps), default=0):,}",
        share_text(max((step.kv_used for step in trace.steps), default=0) / blocks),
        f"{preempted:,}", f"{summary['failed']:,} of {len(run.requests):,}",
    )  # fmt: skip


def hidden_table(runs: Mapping[str, Trace]) -> cards.Html:
    """Mean and percentiles of ITL (over all gaps) and TPOT (over requests), two rows a run."""
    rows = []
    for name, trace in runs.items():
        requests = [one for one in request_metrics(trace).values() if one.output_tokens > 1]
        gaps = [gap for one in requests for gap in one.itl]
        for metric, values in (("ITL", gaps), ("TPOT", [one.tpot for one in requests])):
            rows.append((name, f"{metric}, {len(values):,} values", *spread(values)))
    first = next(iter(runs.values()))
    return _card("What a mean hides", cards.provenance(first.header), HIDDEN, rows)


def spread(values: Sequence[float]) -> tuple[str, ...]:
    """Mean, p50, p95, p99 and the longest of some seconds."""
    if not values:
        return ("n/a",) * 5
    return tuple(
        seconds(value)
        for value in (fmean(values), *(percentile(values, q) for q in (50, 95, 99)), max(values))
    )


def above(trace: Trace, limit_s: float) -> dict[str, bool]:
    """Whether the mean, p50 and p99 of a run's ITL lie above a limit (seconds)."""
    gaps = [gap for one in request_metrics(trace).values() for gap in one.itl]
    found = {"mean": fmean(gaps), "p50": percentile(gaps, 50), "p99": percentile(gaps, 99)}
    return {name: value > limit_s for name, value in found.items()}


def goodput_table(found: Mapping[float, dict[str, Any]], slo: SLO, where: str) -> cards.Html:
    """A row a rate: what came, what was served, what was served well."""
    rows = [
        (
            number3(rate), _figure(summary["request_throughput"]), _ms(summary["median_ttft_ms"]),
            _ms(summary["p99_ttft_ms"]), _ms(summary["p99_tpot_ms"]),
            _figure(summary["request_goodput"]),
            percent(summary["goodput_fraction"] or 0.0),
        )
        for rate, summary in found.items()
    ]  # fmt: skip
    best = max(found, key=lambda rate: found[rate]["request_goodput"] or 0.0)
    most = max(found, key=lambda rate: found[rate]["request_throughput"] or 0.0)
    title = (
        f"Most served at {number3(most)} requests per second, most served well at {number3(best)}."
    )
    return _card(title, where, RATES, rows, note=f"Goodput: {slo}.")


def queue_table(engines: Mapping[str, float | None], ahead: int = TEN) -> cards.Html:
    """Requests per second that each engine serves → the wait of somebody with `ahead` in front."""
    rows = [
        (name, "n/a", "n/a", "n/a") if not rate else
        (name, f"{number3(rate)} requests/s", f"wait {seconds(ahead / rate)}",
         f"at most {int(rate * 0.5)}")
        for name, rate in engines.items()
    ]  # fmt: skip
    return _card("The same queue, another wait", "queue ÷ service rate", QUEUE, rows, left=True)


def own_table(run: Run, own: Mapping[str, Callable], slo: SLO) -> cards.Html:
    """Figures of a run by the student's ttft, itl, tpot, percentile and goodput, and by the core's.

    Only completed requests, as in every table here. slo: needs TTFT and TPOT.
    """
    from minillm.bench.summary import run_duration, summarize_run

    done = [one for one in run.requests if one.completed]
    duration = run_duration(run.requests) or 0.0
    right = summarize_run(run.requests)
    p99 = own["percentile"]
    mine = {
        "TTFT p99": p99([own["ttft"](one.scheduled, one.chunk_times) for one in done], 99),
        "ITL p99": p99([gap for one in done for gap in own["itl"](one.chunk_times) or ()], 99),
        "TPOT p50": p99([own["tpot"](one.chunk_times) for one in done if len(one.itl)], 50),
    }
    rows = [
        (name, _seconds(mine[name]), _ms(right[key]))
        for name, key in (("TTFT p99", "p99_ttft_ms"), ("ITL p99", "p99_itl_ms"),
                          ("TPOT p50", "median_tpot_ms"))
    ]  # fmt: skip
    limits = (slo.ttft_ms / 1e3, slo.tpot_ms / 1e3)
    served = [(one.ttft, one.tpot, one.completed) for one in run.requests]
    core = goodput(done, duration, ttft_s=limits[0], tpot_s=limits[1])
    said = own["goodput"](served, duration, *limits)
    rows.append(("goodput, requests/s", _number(said), _figure(core)))
    columns = ("the open loop above", "your functions", "minillm.bench")
    return _card("Your functions on the live run", "● measured", columns, rows)


def _number(value: object) -> str:
    """What a student's function gave, if it is a number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return number3(value) if is_number else "n/a"


def _seconds(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return seconds(value) if is_number else "n/a"


def _figure(value: float | None) -> str:
    return "n/a" if value is None else number3(value)


def _ms(value: float | None) -> str:
    return "n/a" if value is None else seconds(value / 1e3)


def _card(
    title: str, where: str, columns: Sequence[str], rows: list, *, left: bool = False,
    note: str = "",
) -> cards.Html:  # fmt: skip
    aside = f'<p class="ml-note">{note}</p>' if note else ""
    html = cards.card(cards.head(title, where), cards.table(columns, rows, left=left), aside)
    text = "\n".join(filter(None, [title, cards.text_table(columns, rows), note, where]))
    return cards.Html(html, text)
