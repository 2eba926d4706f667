"""/metrics for Prometheus: vLLM's names under `minillm:`, folded from the engine's own trace.

So the server's figures are the trace's, by the definitions of minillm/core/metrics.py. Each app
has a CollectorRegistry of its own: two of them in one process do not meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from minillm.core import LLMEngine
from minillm.core.trace import Record, RequestEvent, StepRecord

PREFIX = "minillm:"
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
    80, 160,
)  # fmt: skip
ITL_BUCKETS = (
    0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1, 2.5, 5, 10,
)  # fmt: skip
E2E_BUCKETS = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480)
STEP_BUCKETS = tuple(2**i for i in range(15))


@dataclass(slots=True)
class _Live:
    """What a request's next figure is counted from."""

    arrival: float
    prompt_len: int | None  # None: turned away before anybody counted
    last_token: float | None = None


class ServerMetrics:
    """Counters and histograms that `take` feeds; gauges that ask the engine when scraped."""

    def __init__(self, engine: LLMEngine, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._engine = engine
        self._label = model_name
        self._live: dict[int, _Live] = {}
        self._ended: list[int] = []  # their last tokens come with the step that is under way
        self._prefix_seen = (0, 0)

        self._gauge("num_requests_running", "Requests in the running batch.").set_function(
            lambda: len(engine.scheduler.running)
        )
        self.waiting = self._gauge("num_requests_waiting", "Requests that wait to be admitted.")
        self._gauge("kv_cache_usage_perc", "Used KV blocks; 1 is all of them.").set_function(
            lambda: engine.kv.num_used_blocks / engine.kv.pool.num_blocks
        )
        self.preemptions = self._counter("num_preemptions", "Preemptions (recompute).")
        self.prefix_queries = self._counter(
            "prefix_cache_queries", "Prompt tokens looked up in the prefix cache."
        )
        self.prefix_hits = self._counter("prefix_cache_hits", "Prompt tokens found there.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens prefilled.")
        self.generation_tokens = self._counter("generation_tokens", "Tokens generated.")
        self.steps = self._counter("engine_steps", "Steps computed.")
        self.padding_tokens = self._counter(
            "padding_tokens", "Tokens computed and thrown away (static and dynamic batches)."
        )
        self.finished = Counter(
            PREFIX + "request_success", "Requests that have ended, by reason.",
            ["model_name", "finished_reason"], registry=self.registry,
        )  # fmt: skip
        self.refused = Counter(
            PREFIX + "request_refused", "API calls that got an error, by its code.",
            ["model_name", "code"], registry=self.registry,
        )  # fmt: skip
        self.ttft = self._histogram(
            "time_to_first_token_seconds", "Arrival to first token.", TTFT_BUCKETS
        )
        self.itl = self._histogram(
            "inter_token_latency_seconds", "Between consecutive tokens.", ITL_BUCKETS
        )
        self.e2e = self._histogram(
            "e2e_request_latency_seconds", "Arrival to last token.", E2E_BUCKETS
        )
        self.iteration_tokens = self._histogram(
            "iteration_tokens_total", "Tokens in one step, padding left out.", STEP_BUCKETS
        )

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def count_refused(self, code: str) -> None:
        self.refused.labels(self._label, code).inc()

    # ── the engine thread ───────────────────────────────────────────────────────────────────

    def take(self, records: Iterable[Record]) -> None:
        """Count what happened since the last call."""
        for record in records:
            if isinstance(record, StepRecord):
                self._take_step(record)
            else:
                self._take_event(record)
        queries, hits = self._engine.kv.prefix_queries, self._engine.kv.prefix_hits
        self.prefix_queries.inc(queries - self._prefix_seen[0])
        self.prefix_hits.inc(hits - self._prefix_seen[1])
        self._prefix_seen = (queries, hits)

    def _take_step(self, step: StepRecord) -> None:
        tokens = sampled = padding = 0
        for req, _, n_tokens, n_padding, _, token_id in step.raw_rows:
            tokens += n_tokens
            padding += n_padding
            if token_id is None:
                continue
            sampled += 1
            live = self._live.get(req)
            if live is not None:
                if live.last_token is not None:
                    self.itl.observe(step.t_end - live.last_token)
                live.last_token = step.t_end
        self.steps.inc()
        self.generation_tokens.inc(sampled)
        self.padding_tokens.inc(padding)
        self.iteration_tokens.observe(tokens)
        for req in self._ended:
            self._live.pop(req, None)
        self._ended.clear()

    def _take_event(self, event: RequestEvent) -> None:
        if event.event == "arrive":
            self._live[event.req] = _Live(event.t, event.data["prompt_len"])
            return
        live = self._live.get(event.req)
        if live is None:
            return
        if event.event == "first_token":
            self.ttft.observe(event.t - live.arrival)
            self.prompt_tokens.inc(live.prompt_len)
        elif event.event == "preempt":
            self.preemptions.inc()
        elif event.event == "refuse":  # counted by count_refused, with its code
            del self._live[event.req]
        elif event.event in ("finish", "abort"):
            if live.last_token is None:
                del self._live[event.req]
            else:
                self._ended.append(event.req)
            reason = event.data["reason"]
            self.finished.labels(self._label, reason).inc()
            if reason in ("stop", "length"):
                self.e2e.observe(event.t - live.arrival)

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _gauge(self, name: str, text: str) -> Gauge:
        gauge = Gauge(PREFIX + name, text, ["model_name"], registry=self.registry)
        return gauge.labels(self._label)

    def _counter(self, name: str, text: str) -> Counter:
        counter = Counter(PREFIX + name, text, ["model_name"], registry=self.registry)
        return counter.labels(self._label)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        histogram = Histogram(
            PREFIX + name, text, ["model_name"], registry=self.registry, buckets=buckets
        )
        return histogram.labels(self._label)
