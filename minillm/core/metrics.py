"""TTFT, ITL, TPOT, E2E and the padding shares: one definition of each, read from a trace.

TTFT: arrival to the end of the step that gave the first token. ITL: time between consecutive
tokens. TPOT: (E2E − TTFT) / (n − 1), None for n = 1. E2E: arrival to the last token.
Percentiles by linear interpolation (numpy's default). Missing is None, never 0 or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from minillm.core.trace import DEAD, RequestEvent, StepRecord, Trace

FEW_FOR_P99 = 100  # fewer samples than this, and a p99 says little


def percentile(values: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0 ≤ q ≤ 100) by linear interpolation; None without values."""
    if not 0 <= q <= 100:
        raise ValueError(f"A percentile lies between 0 and 100, got {q!r}.")
    if not values:
        return None
    ordered = sorted(values)
    rank = (len(ordered) - 1) * q / 100
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


@dataclass(slots=True)
class RequestMetrics:
    """One request's times (seconds on the trace's clock) and counts (tokens)."""

    index: int
    request_id: str
    arrival: float
    prompt_tokens: int
    admitted: float | None = None
    token_times: list[float] = field(default_factory=list)
    finished: float | None = None
    reason: str | None = None
    cached_tokens: int = 0
    num_preemptions: int = 0

    @property
    def output_tokens(self) -> int:
        return len(self.token_times)

    @property
    def queue_time(self) -> float | None:
        return None if self.admitted is None else self.admitted - self.arrival

    @property
    def ttft(self) -> float | None:
        return self.token_times[0] - self.arrival if self.token_times else None

    @property
    def e2e(self) -> float | None:
        return self.token_times[-1] - self.arrival if self.token_times else None

    @property
    def itl(self) -> list[float]:
        return [b - a for a, b in pairwise(self.token_times)]

    @property
    def tpot(self) -> float | None:
        if self.output_tokens < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_tokens - 1)

    @property
    def completed(self) -> bool:
        return self.reason in ("stop", "length")


@dataclass(frozen=True, slots=True)
class Padding:
    """Tokens and rows computed over all steps, and how many of them were padding."""

    real_tokens: int
    prompt_padding: int
    dead_rows: int
    rows: int

    @property
    def total_tokens(self) -> int:
        return self.real_tokens + self.prompt_padding + self.dead_rows


@dataclass(slots=True)
class Tally:
    """A trace added up, all at once or piece by piece: a long run need not keep its records.

    requests: by index, in order of arrival. running: Σ over steps. busy_s: seconds in steps.
    kv_block_s: Σ of a step's seconds · blocks in use. Graph filler rows count nowhere.
    """

    requests: dict[int, RequestMetrics] = field(default_factory=dict)
    steps: int = 0
    last_end: float | None = None
    running: int = 0
    real_tokens: int = 0
    prompt_padding: int = 0
    dead_rows: int = 0
    rows: int = 0
    busy_s: float = 0.0
    kv_block_s: float = 0.0
    kv_used_max: int = 0

    @property
    def padding(self) -> Padding:
        return Padding(self.real_tokens, self.prompt_padding, self.dead_rows, self.rows)

    def take(self, trace: Trace) -> Tally:
        """Add all records of a trace that it has not been given yet."""
        for event in trace.events:
            self._take_event(event)
        for step in trace.steps:
            self._take_step(step)
        return self

    def drain(self, trace: Trace) -> None:
        """Add all records, and let the trace forget them."""
        self.take(trace)
        for records in (trace.events, trace.steps, trace.records):
            records.clear()

    def _take_event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            prompt = event.data.get("prompt_len", 0)
            self.requests[event.req] = RequestMetrics(event.req, event.id, event.t, prompt)
            return
        request = self.requests[event.req]
        if event.event == "admit" and request.admitted is None:
            request.admitted = event.t
            request.cached_tokens = event.data.get("tokens_cached", 0)
        elif event.event == "preempt":
            request.num_preemptions += 1
        elif event.event in ("finish", "abort", "refuse"):
            request.finished = event.t
            request.reason = event.event if event.event != "finish" else event.data["reason"]

    def _take_step(self, step: StepRecord) -> None:
        requests, end = self.requests, step.t_end
        real = 0
        for index, kind, n_tokens, n_padding, _, token_id in step.raw_rows:
            real += n_tokens
            if token_id is not None:
                requests[index].token_times.append(end)
            if n_padding:
                if kind == DEAD:
                    self.dead_rows += n_padding
                else:
                    self.prompt_padding += n_padding
        self.real_tokens += real
        self.steps += 1
        self.last_end = end
        self.running += step.running
        self.rows += len(step.raw_rows)
        self.busy_s += end - step.t_start
        self.kv_block_s += (end - step.t_start) * step.kv_used
        self.kv_used_max = max(self.kv_used_max, step.kv_used)


def request_metrics(trace: Trace) -> dict[int, RequestMetrics]:
    """Each request's figures by its index, in order of arrival."""
    return Tally().take(trace).requests


def count_padding(trace: Trace) -> Padding:
    """Real and padding tokens over all steps."""
    return Tally().take(trace).padding


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures: tokens, seconds, shares between 0 and 1; None where nothing was seen."""

    requests: int
    completed: int
    failed: int
    output_tokens: int
    prompt_tokens: int
    steps: int
    makespan_s: float | None
    output_tok_s: float | None
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    tpot_p50_ms: float | None
    tpot_p99_ms: float | None
    e2e_p50_ms: float | None
    e2e_p99_ms: float | None
    padding_fraction: float | None
    prompt_padding_fraction: float | None
    dead_row_fraction: float | None
    row_padding_fraction: float | None
    mean_running: float | None
    preemptions: int
    few_for_p99: bool


def summarize(trace: Trace) -> Summary:
    """The figures of one run."""
    tally = Tally().take(trace)
    return summarize_together(list(tally.requests.values()), [tally])


def summarize_together(requests: Sequence[RequestMetrics], tallies: Sequence[Tally]) -> Summary:
    """The figures of requests that several engines on one clock served, and of all their steps."""
    each = [tally.padding for tally in tallies]
    padding = Padding(
        sum(p.real_tokens for p in each), sum(p.prompt_padding for p in each),
        sum(p.dead_rows for p in each), sum(p.rows for p in each),
    )  # fmt: skip
    steps = sum(tally.steps for tally in tallies)
    ends = [tally.last_end for tally in tallies if tally.steps]
    done = [r for r in requests if r.completed]
    tokens = sum(r.output_tokens for r in done)
    start = min((r.arrival for r in requests), default=0.0)
    makespan = max(ends) - start if ends else None
    ttft = _milliseconds(r.ttft for r in done)
    itl = _milliseconds(gap for r in done for gap in r.itl)
    tpot = _milliseconds(r.tpot for r in done)
    e2e = _milliseconds(r.e2e for r in done)
    running = sum(tally.running for tally in tallies)
    return Summary(
        requests=len(requests),
        completed=len(done),
        failed=sum(r.reason in ("error", "refuse") for r in requests),
        output_tokens=tokens,
        prompt_tokens=sum(r.prompt_tokens for r in done),
        steps=steps,
        makespan_s=makespan,
        output_tok_s=_share(tokens, makespan),
        ttft_p50_ms=percentile(ttft, 50), ttft_p99_ms=percentile(ttft, 99),
        itl_p50_ms=percentile(itl, 50), itl_p99_ms=percentile(itl, 99),
        tpot_p50_ms=percentile(tpot, 50), tpot_p99_ms=percentile(tpot, 99),
        e2e_p50_ms=percentile(e2e, 50), e2e_p99_ms=percentile(e2e, 99),
        padding_fraction=_share(padding.prompt_padding + padding.dead_rows, padding.total_tokens),
        prompt_padding_fraction=_share(padding.prompt_padding, padding.total_tokens),
        dead_row_fraction=_share(padding.dead_rows, padding.total_tokens),
        row_padding_fraction=_share(padding.dead_rows, padding.rows),
        mean_running=_share(running, steps),
        preemptions=sum(r.num_preemptions for r in requests),
        few_for_p99=len(ttft) < FEW_FOR_P99,
    )  # fmt: skip


def goodput(
    requests: Iterable[RequestMetrics],
    duration_s: float,
    *,
    ttft_s: float | None = None,
    tpot_s: float | None = None,
    e2e_s: float | None = None,
) -> float | None:
    """Completed requests a second that meet every given limit; None for no duration.

    A request of one token has no TPOT and so meets that limit (DistServe, OSDI 2024).
    """
    if not duration_s > 0:
        return None
    good = 0
    for request in requests:
        limits = ((request.ttft, ttft_s), (request.tpot, tpot_s), (request.e2e, e2e_s))
        within = all(value is None or limit is None or value <= limit for value, limit in limits)
        good += request.completed and within
    return good / duration_s


def _milliseconds(seconds: Iterable[float | None]) -> list[float]:
    return [value * 1e3 for value in seconds if value is not None]


def _share(part: float, whole: float | None) -> float | None:
    return part / whole if whole else None
