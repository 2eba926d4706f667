"""Comparison: the same requests under two policies, one after the other, on one time axis.

    ab = Comparison(llm, arrivals, "static", "continuous", max_num_seqs=8)
    ab.start()                    # returns at once; the panel has Run and Stop too
    ab                            # shows controls and a timeline of two lanes
    result = await ab.finished()  # figures of both; result.speedup

A policy is a name or a Scheduler subclass. Both run on the same weights, never at once, with the
same arrival times; neither has the other's prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from minillm.core import Arrival, LLMEngine, request_metrics
from minillm.core.metrics import RequestMetrics
from widgets import legs
from widgets.headline import policy_title
from widgets.legs import Leg, Policy, name_of
from widgets.live import Control
from widgets.report import RunReport
from widgets.session import STOP_LIMIT_S, EngineSession

if TYPE_CHECKING:
    from minillm.llm import LLM


@dataclass(frozen=True, repr=False)
class ComparisonResult(RunReport):
    """Two runs of the same requests, lanes 0 and 1."""

    @property
    def speedup(self) -> float | None:
        """Output tokens per second of B ÷ those of A; None when one of them has none."""
        if len(self.traces) < 2:
            return None
        a, b = (summary.output_tok_s for summary in self.summaries)
        return b / a if a and b else None

    def waited_steps(self, request_id: str, lane: int) -> int | None:
        """Steps that ran, in whole or in part, from its arrival to its first one; None: never."""
        request = self._metrics(request_id, lane)
        steps = self.traces[lane].steps if request else []
        for position, step in enumerate(steps):
            if any(row.req_idx == request.index for row in step.rows):
                return sum(before.t_end > request.arrival for before in steps[:position])
        return None

    def ttft(self, request_id: str, lane: int) -> float | None:
        """Seconds from arrival to the first token; None when it got none."""
        request = self._metrics(request_id, lane)
        return request.ttft if request else None

    def _metrics(self, request_id: str, lane: int) -> RequestMetrics | None:
        """None where the run was stopped before that request, or that lane, began."""
        if lane not in self.traces:
            return None
        by_id = {each.request_id: each for each in request_metrics(self.traces[lane]).values()}
        return by_id.get(request_id)


class Comparison:
    """See the module's docstring. settings: fields of SchedulerConfig, for both policies.

    pace: simulated seconds per second, for a simulated LLM.
    """

    def __init__(
        self,
        llm: LLM,
        arrivals: Iterable[Arrival],
        a: Policy = "static",
        b: Policy = "continuous",
        *,
        policies: Iterable[Policy] = ("static", "dynamic", "continuous"),
        pace: float | None = None,
        threads: bool | None = None,
        **settings: object,
    ) -> None:
        self.llm, self.settings, self.pace = llm, settings, pace
        self.arrivals = tuple(arrivals)
        self.policies: list[Policy] = list(policies)
        self.a, self.b = a, b
        for policy in (a, b):
            llm.new_engine(policy, **settings)  # refuses here what would fail in the run
            if policy not in self.policies:
                self.policies.append(policy)
        self.session = EngineSession(None, threads=threads)
        self._warm = llm.info.provenance == "simulated"

    def start(self, a: Policy | None = None, b: Policy | None = None) -> Comparison:
        """Run A, then B, and return at once; a run that is on is stopped first."""
        if self.session.running:
            self.session.stop()
            self.session.join()
        legs.stop_others(self.session, self.llm.info, STOP_LIMIT_S)
        self.a, self.b = a or self.a, b or self.b
        for lane, policy in enumerate((self.a, self.b)):
            self.timeline.reset(lane, None, policy_title(name_of(policy)), "")
        self.session.watch(self.timeline, 0).watch(self.timeline, 1)
        plan = [
            Leg(lambda policy=policy: self._engine(policy), self.arrivals, lane)
            for lane, policy in enumerate((self.a, self.b))
        ]
        self.session.start_legs(plan, Control(pace=self.pace))
        return self

    def stop(self) -> None:
        """End the run after the step in hand."""
        self.session.stop()

    async def finished(self) -> ComparisonResult:
        """Wait for both runs; figures, and what went wrong."""
        report = await self.session.finished()
        return ComparisonResult(
            report.traces, report.errors, report.num_errors, report.refused, report.stopped
        )

    def close(self) -> None:
        """Stop and let go of the views."""
        self.session.close()

    @property
    def running(self) -> bool:
        return self.session.running

    @cached_property
    def timeline(self):
        """The live timeline: lane 0 is A, lane 1 is B."""
        from widgets.timeline import Timeline

        return Timeline(
            lanes=2, titles=[policy_title(name_of(policy)) for policy in (self.a, self.b)],
            expected_requests=len(self.arrivals), detokenize=self.llm.tokenizer.decode,
        )  # fmt: skip

    @cached_property
    def panel(self):
        """Controls above the timeline, as one widget."""
        from widgets.controls import comparison_panel

        return comparison_panel(self)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)

    def _engine(self, policy: Policy) -> LLMEngine:
        """On the driver: an engine for one run; before the first one the model is warmed up."""
        if not self._warm:
            self._warm = True
            legs.warm_up(self.llm, self.arrivals[0].prompt_token_ids if self.arrivals else (1,))
        return self.llm.new_engine(policy, **self.settings)
