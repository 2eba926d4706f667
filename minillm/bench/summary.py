"""A run in figures, with the keys of `vllm bench serve`'s JSON and some of our own.

Latencies in milliseconds, rates per second, over completed requests alone: a failure never makes
a figure better. Percentiles and goodput are the core's. What was not seen is None, never 0 or NaN;
`few_for_p99` names the latencies whose p99 rests on fewer than 100 samples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from minillm.bench.record import ClientRequest
from minillm.core.metrics import FEW_FOR_P99, goodput, percentile

PERCENTILES = (50, 90, 95, 99)
# Key in the JSON → the samples that a request gives.
LATENCIES = {
    "ttft": lambda r: [r.ttft],
    "ttft_sent": lambda r: [r.ttft_sent],
    "tpot": lambda r: [r.tpot],
    "itl": lambda r: r.itl,
    "icl": lambda r: r.icl,
    "e2el": lambda r: [r.e2e],
    "e2el_sent": lambda r: [r.e2e_sent],
    "client_queue": lambda r: [r.client_queue],
}
SLO_NAMES = ("ttft", "tpot", "e2el")
LATE_MS = 10.0  # the client sends later than this: it, and not the server, is the limit


@dataclass(frozen=True, slots=True)
class SLO:
    """Limits in ms that a good request keeps, all of them; None: no such limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None

    def __bool__(self) -> bool:
        return any(limit is not None for limit in asdict(self).values())

    def __str__(self) -> str:
        names = {"ttft_ms": "TTFT", "tpot_ms": "TPOT", "e2el_ms": "E2E"}
        limits = asdict(self).items()
        return ", ".join(f"{names[k]} ≤ {v:g} ms" for k, v in limits if v is not None)


def parse_slo(parts: Sequence[str]) -> SLO:
    """`ttft:500 tpot:50 e2el:4000`, in ms. Raises ValueError with what is wrong."""
    limits: dict[str, float] = {}
    for part in parts:
        name, _, text = part.partition(":")
        try:
            limit = float(text)
        except ValueError:
            limit = math.nan
        if name not in SLO_NAMES or not (math.isfinite(limit) and limit > 0) or name in limits:
            names = ", ".join(SLO_NAMES)
            raise ValueError(
                f"A limit for goodput is NAME:MS, each NAME ({names}) once and MS above 0, "
                f"got {part!r}."
            )
        limits[name] = limit
    return SLO(**{f"{name}_ms": limit for name, limit in limits.items()})


def summarize_run(requests: Sequence[ClientRequest], slo: SLO | None = None) -> dict[str, Any]:
    """The figures. Requests that were neither answered nor failed are counted as unfinished."""
    slo = slo or SLO()
    done = [r for r in requests if r.completed]
    failed = [r for r in requests if r.failed]
    ended = len(done) + len(failed)
    duration = run_duration(requests)
    prompt, output = _total(r.prompt_tokens for r in done), sum(r.output_tokens for r in done)
    good = goodput(
        done, duration or 0.0, ttft_s=_seconds(slo.ttft_ms), tpot_s=_seconds(slo.tpot_ms),
        e2e_s=_seconds(slo.e2el_ms),
    ) if slo else None  # fmt: skip
    throughput = _rate(len(done), duration)
    return {
        "duration": duration,
        "completed": len(done),
        "failed": len(failed),
        "unfinished": len(requests) - ended,
        "error_rate": len(failed) / ended if ended else None,
        "errors": dict(Counter(r.error_kind for r in failed).most_common()),
        "total_input_tokens": prompt,
        "total_output_tokens": output,
        "request_rate_sent": sent_rate(requests),
        "request_throughput": throughput,
        "request_goodput": good,
        "goodput_fraction": good / throughput if good is not None and throughput else None,
        "output_throughput": _rate(output, duration),
        "total_token_throughput": None if prompt is None else _rate(prompt + output, duration),
        "max_concurrent_requests": most_at_once(requests),
        "slo": asdict(slo),
        **_latencies(done),
        "requests_without_usage": sum(r.usage_tokens is None for r in done),
        "tokens_per_chunk": _rate(output, sum(len(r.chunk_times) for r in done)),
    }


def _latencies(done: Sequence[ClientRequest]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    samples: dict[str, int] = {}
    for name, read in LATENCIES.items():
        known = sorted(v * 1e3 for r in done for v in read(r) if v is not None)
        samples[name] = len(known)
        figures[f"mean_{name}_ms"] = fmean(known) if known else None
        figures[f"median_{name}_ms"] = percentile(known, 50)
        figures[f"std_{name}_ms"] = pstdev(known) if known else None
        for q in PERCENTILES[1:]:
            figures[f"p{q}_{name}_ms"] = percentile(known, q)
    few = [name for name, count in samples.items() if 0 < count < FEW_FOR_P99]
    return {**figures, "samples": samples, "few_for_p99": few}


def run_duration(requests: Sequence[ClientRequest]) -> float | None:
    """Seconds from the first scheduled send to the end of the last request that ended."""
    ends = [r.finished for r in requests if r.finished is not None and not r.cancelled]
    return max(ends) - min(r.scheduled for r in requests) if ends else None


def sent_rate(requests: Iterable[ClientRequest]) -> float | None:
    """Requests a second as really sent: (n − 1) ÷ (last − first)."""
    sent = [r.sent for r in requests if r.sent is not None]
    return _rate(len(sent) - 1, max(sent) - min(sent)) if len(sent) > 1 else None


def most_at_once(requests: Iterable[ClientRequest]) -> int:
    """The largest number of requests in flight at one time."""
    spans = [(r.sent, r.finished) for r in requests if r.sent is not None]
    changes = [(start, 1) for start, _ in spans]
    changes += [(end, -1) for _, end in spans if end is not None]
    most = now = 0
    for _, change in sorted(changes):  # at one instant, ends come first
        now += change
        most = max(most, now)
    return most


def warnings(summary: dict[str, Any], closed: bool, limited: bool) -> list[str]:
    """What a reader must know before believing the figures; full sentences."""
    found = []
    late = summary["p99_client_queue_ms"]
    if not closed and not limited and late is not None and late > LATE_MS:
        found.append(
            f"The client sent up to {late:.0f} ms late (p99): it could not keep up, so the "
            f"latencies contain its own delay."
        )
    if summary["requests_without_usage"]:
        found.append(
            f"{summary['requests_without_usage']} answers came without usage: their chunks are "
            f"counted as tokens."
        )
    if not summary["samples"]["itl"] and summary["samples"]["icl"]:
        found.append(
            f"A chunk carries {summary['tokens_per_chunk']:.1f} tokens, so the time between "
            f"tokens can't be seen: TPOT is their mean, ICL the time between chunks."
        )
    if summary["few_for_p99"] and "ttft" in summary["few_for_p99"]:
        found.append(
            f"Fewer than {FEW_FOR_P99} samples (marked *): a p99 is close to the slowest one."
        )
    return found


def _total(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return None if None in known else sum(known)


def _rate(count: float, seconds: float | None) -> float | None:
    return count / seconds if seconds else None


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1e3
