"""LongPrompt: some requests decode, a long prompt comes in between, and all see what it costs.

    long = LongPrompt(llm, others, text, budget=64)
    long.start()                  # A: the prompt whole; B: in chunks within the budget
    long                          # a field to paste a prompt into, the budget, Run, Stop, both runs
    result = await long.finished()
    result.stalls                 # of A and B: TTFT of the prompt, gaps of the others

The long prompt is sent once each of the others has had `after` tokens, so that it meets them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from minillm.core import Arrival, LLMEngine, RequestOutput, SamplingParams, Trace
from minillm.core.trace import letter
from widgets import cards, legs
from widgets.figures import static_figure
from widgets.headline import headline
from widgets.legs import Leg
from widgets.numbers import seconds
from widgets.report import RunReport
from widgets.session import STOP_LIMIT_S, EngineSession
from widgets.stalls import Stall, measure_stall, stall_table

if TYPE_CHECKING:
    from minillm.llm import LLM

BUDGETS = (8, 16, 32, 64, 128, 256, 512)
Budget = int | None  # tokens a step; None: prompts are read whole


def budget_name(budget: Budget) -> str:
    """How a run is called."""
    return "Prompt whole" if budget is None else f"Budget {budget:,}"


@dataclass(frozen=True, repr=False)
class LongPromptResult(RunReport):
    """budgets: by lane. others: how many requests there are beside the long prompt."""

    budgets: tuple[Budget, ...] = ()
    others: int = 0

    @property
    def runs(self) -> dict[str, Trace]:
        """The runs that the long prompt came to, by the name of their budget."""
        return {
            budget_name(self.budgets[lane]): trace
            for lane, trace in sorted(self.traces.items())
            if len(trace.request_ids()) > self.others
        }

    @property
    def stalls(self) -> list[Stall]:
        """Of these runs."""
        return [measure_stall(trace) for trace in self.runs.values()]

    def ratio(self, lane: int) -> float | None:
        """How many times the usual gap the longest one is; None where the run does not tell."""
        trace = self.runs.get(budget_name(self.budgets[lane]))
        return None if trace is None else measure_stall(trace).ratio

    @property
    def finding(self) -> str:
        """What the others waited, a sentence a line; empty where a run was stopped before."""
        return "\n".join(
            f"{name}: the others wait at most {seconds(stall.worst_s)} for {letter(stall.req)}."
            for name, stall in zip(self.runs, self.stalls, strict=True)
            if stall.worst_s is not None
        )

    def __repr__(self) -> str:
        return "\n".join([repr(stall_table(self.runs)), *self.remarks()])

    def _repr_html_(self) -> str:
        runs, picture = self.runs, ""
        if runs and all(trace.steps for trace in runs.values()):
            traces = list(runs.values())
            head = replace(headline(traces, list(runs)), text=self.finding, notes=[])
            picture = static_figure(traces, list(runs), head=head).svg
            picture = f"<summary>The timeline as a still picture</summary>{picture}"
            picture = f"<details>{picture}</details>"
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks())
        return stall_table(runs).html + (cards.card(remarks, picture) if remarks or picture else "")


class LongPrompt:
    """See the module's docstring. prompt: text. max_tokens: of its answer.

    Raises ValueError where the others would be done before the prompt comes.
    """

    def __init__(
        self,
        llm: LLM,
        others: Iterable[Arrival],
        prompt: str,
        *,
        budget: int = 64,
        budgets: Sequence[int] = BUDGETS,
        after: int = 4,
        max_tokens: int = 4,
        threads: bool | None = None,
    ) -> None:
        self.llm, self.others, self.prompt = llm, tuple(others), prompt
        if min((one.params.max_tokens for one in self.others), default=0) <= after:
            raise ValueError(f"Each of the others needs more than {after} output tokens.")
        self.after, self.params = after, SamplingParams(max_tokens, ignore_eos=True)
        slots = len(self.others) + 1  # each needs a token of the budget
        self.budgets = [each for each in budgets if each >= slots]
        if not self.budgets:
            raise ValueError(f"A budget of at least {slots} is needed for {slots} requests.")
        self.a: Budget = None
        self.b: Budget = budget
        self._given: dict[str, int] = {}
        self._sent = False
        self.session = EngineSession(None, threads=threads, on_output=self._take)
        self.session.on_end.append(self._conclude)
        self._warm = llm.info.provenance == "simulated"

    def start(self, b: Budget = None, *, a: Budget = None, prompt: str | None = None) -> LongPrompt:
        """Run under budget A (None: whole), then B, and return at once."""
        if self.session.running:
            self.session.stop()
            self.session.join()
        legs.stop_others(self.session, self.llm.info, STOP_LIMIT_S)
        self.a, self.b = a, b or self.b
        if prompt is not None and prompt.strip():
            self.prompt = prompt
        self._ids = self.llm.encode(self.prompt)
        plan = []
        for lane, budget in enumerate((self.a, self.b)):
            self.timeline.reset(lane, None, budget_name(budget), "")
            plan.append(Leg(lambda budget=budget: self._engine(budget), self.others, lane))
        self.session.watch(self.timeline, 0).watch(self.timeline, 1)
        self.session.start_legs(plan)
        return self

    def stop(self) -> None:
        """End the run after the step in hand."""
        self.session.stop()

    async def finished(self) -> LongPromptResult:
        """Wait for both runs; figures, and what went wrong."""
        return self._result(await self.session.finished())

    def close(self) -> None:
        """Stop and let go of the views."""
        self.session.close()

    @cached_property
    def timeline(self):
        """The live timeline: lane 0 is A, lane 1 is B."""
        from widgets.timeline import Timeline

        return Timeline(
            lanes=2, titles=[budget_name(self.a), budget_name(self.b)],
            expected_requests=len(self.others) + 1, detokenize=self.llm.tokenizer.decode,
        )  # fmt: skip

    @cached_property
    def panel(self):
        """A field for the prompt, the budget, Run, Stop, and the timeline, as one widget."""
        from widgets.long_prompt_panel import long_prompt_panel

        return long_prompt_panel(self)

    def _repr_mimebundle_(self, **kwargs: object) -> object:
        return self.panel._repr_mimebundle_(**kwargs)

    def _result(self, report: RunReport) -> LongPromptResult:
        return LongPromptResult(
            report.traces, report.errors, report.num_errors, report.refused, report.stopped,
            budgets=(self.a, self.b), others=len(self.others),
        )  # fmt: skip

    def _conclude(self, report: RunReport) -> None:
        """Say above the timeline what the others waited, rather than how fast both runs were."""
        finding = self._result(report).finding
        if finding and not report.stopped:
            self.timeline.set_headline(finding)

    # ── on the driver ───────────────────────────────────────────────────────────────────────

    def _engine(self, budget: Budget) -> LLMEngine:
        if not self._warm:
            self._warm = True
            legs.warm_up(self.llm, self.others[0].prompt_token_ids)
        self._given, self._sent = {}, False
        limits = {"enable_chunked_prefill": False}
        if budget is not None:
            limits = {"max_num_batched_tokens": budget}
        return self.llm.new_engine("continuous", max_num_seqs=len(self.others) + 1, **limits)

    def _take(self, output: RequestOutput) -> None:
        """Count the others' tokens, and send the long prompt when all have had enough."""
        if self._sent:
            return
        name = output.request_id
        self._given[name] = self._given.get(name, 0) + len(output.new_token_ids)
        if len(self._given) == len(self.others) and min(self._given.values()) >= self.after:
            self._sent = True
            self.session.submit(self._ids, self.params, preview=self.prompt)
