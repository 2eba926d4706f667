"""What a run gave, as a cell's result: figures in a table, and what went wrong in one card."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from html import escape

from minillm.core import SchedulerContractError, Summary, Trace, summarize
from widgets import cards
from widgets.figures import static_figure
from widgets.headline import headline

COLUMNS = ("", "tok/s", "TTFT p50", "ITL p50", "rows of padding", "steps", "done in")


@dataclass(frozen=True, repr=False)
class RunReport:
    """traces: by lane of the timeline. num_errors: also those beyond the ones kept in `errors`."""

    traces: dict[int, Trace]
    errors: tuple[Exception, ...] = ()
    num_errors: int = 0
    refused: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def trace(self) -> Trace:
        """The only (or first) trace."""
        return self.traces[min(self.traces)]

    @property
    def summary(self) -> Summary:
        return summarize(self.trace)

    @property
    def summaries(self) -> list[Summary]:
        """Figures by lane."""
        return [summarize(trace) for _, trace in sorted(self.traces.items())]

    @property
    def stopped_sentence(self) -> str:
        """What a stopped run came to."""
        done = sum(summary.completed for summary in self.summaries)
        total = sum(summary.requests for summary in self.summaries)
        return f"Stopped: {done} of {_count(total, 'request')} had finished."

    def rows(self) -> list[tuple]:
        """One row of figures a trace, under COLUMNS."""
        return [figures(trace) for _, trace in sorted(self.traces.items())]

    def __repr__(self) -> str:
        lines = [cards.text_table(COLUMNS, self.rows())]
        lines += [cards.provenance(self.trace.header)] if self.traces else []
        return "\n".join([*lines, *self.remarks()])

    def _repr_html_(self) -> str:
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks())
        where = cards.provenance(self.trace.header) if self.traces else ""
        traces = [trace for _, trace in sorted(self.traces.items())]
        title, still = "This run in figures", ""
        if traces and all(trace.steps for trace in traces):
            found = headline(traces)
            title = self.stopped_sentence if self.stopped else found.text.replace("\n", " ")
            picture = static_figure(traces, head=found).svg  # stays in a saved notebook
            still = (
                f"<details><summary>The timeline as a still picture</summary>{picture}</details>"
            )
        return cards.card(
            cards.head(title, where), cards.table(COLUMNS, self.rows()), remarks, still
        )

    def remarks(self) -> list[str]:
        """What a reader should know beside the figures, a sentence each."""
        found = []
        if self.stopped:
            found.append("Stopped before the end: the figures count what was done until then.")
        failed = sum(summarize(trace).failed for trace in self.traces.values())
        if failed:
            found.append(f"{_count(failed, 'request')} failed.")
        found += [f"Refused: {reason}" for reason in self.refused[:3]]
        if len(self.refused) > 3:
            found.append(f"{len(self.refused) - 3} more were refused.")
        return found


def figures(trace: Trace) -> tuple:
    """A trace's row under COLUMNS."""
    s = summarize(trace)
    padding = None if s.row_padding_fraction is None else s.row_padding_fraction * 100
    return (
        trace.header.policy, cards.number(s.output_tok_s), _ms(s.ttft_p50_ms), _ms(s.itl_p50_ms),
        cards.number(padding, "%"), cards.number(s.steps), cards.number(s.makespan_s, "s"),
    )  # fmt: skip


def show_errors(report: RunReport) -> None:
    """Show a run's errors above the cell's result: a card in a notebook, text elsewhere."""
    message = error_card(report)
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        in_notebook = False
    else:
        in_notebook = get_ipython() is not None
    if in_notebook:
        display(message)
    else:
        print(message, file=sys.stderr)


def error_card(report: RunReport) -> cards.Html:
    """The first error in full: which step, which request, the rule, expected and got."""
    error = report.errors[0]
    more = report.num_errors - 1
    if isinstance(error, SchedulerContractError):
        where = f"step {error.step}" + (f", request {error.request_id}" if error.request_id else "")
        title = f"Your scheduler broke a rule in {where}"
        rows = [("rule", error.rule), ("expected", str(error.expected)), ("got", str(error.got))]
        cause = error.__cause__
        if cause is not None:
            rows.append(("raised at", _raised_at(cause)))
    else:
        title, rows = "A step failed", [("error", f"{type(error).__name__}: {error}")]
    after = "The requests of that step ended with reason “error”. The engine goes on."
    if more:
        after += f" {_count(more, 'more step')} failed after it."
    html = cards.card(
        cards.head(title), cards.table(("", ""), rows, left=True),
        f"<p>{escape(after)}</p>", kind="alert",
    )  # fmt: skip
    body = "\n".join(f"  {name}: {value}" for name, value in rows)
    return cards.Html(html, f"{title}\n{body}\n{after}")


def _raised_at(cause: BaseException) -> str:
    """The innermost line of a student's cell (or file) that an exception came from."""
    trace, found = cause.__traceback__, "unknown"
    while trace is not None:
        code = trace.tb_frame.f_code
        found = f"line {trace.tb_lineno} of {code.co_name}()"
        trace = trace.tb_next
        if code.co_name == "schedule":
            break
    return found


def _ms(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.0f}\u202fms"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
