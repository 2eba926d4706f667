"""What a batch computed for nobody, counted from a run's rows: prompt padding and dead rows.

waste_card(trace)                       # a row a request: what it gave, what was wasted on it
waste_table({"batch size 4": trace, …})   # a row a run: shares, tokens a second
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minillm.core import Trace, summarize
from minillm.core.trace import DEAD, PREFILL
from widgets import cards
from widgets.numbers import number3, percent, plural, seconds

COLUMNS = ("", "prompt", "prompt padding", "output", "last token in step", "dead rows")
RUN_COLUMNS = ("", "prompt padding", "dead rows", "of all rows", "tok/s", "done in")


@dataclass(slots=True)
class Rows:
    """One request's part of a run. prompt, padding, output in tokens; steps count from 1.

    rows: all rows computed for it; dead: of those, after its last token.
    """

    request_id: str
    prompt: int = 0
    padding: int = 0
    output: int = 0
    last_step: int | None = None
    rows: int = 0
    dead: int = 0


def count_rows(trace: Trace) -> list[Rows]:
    """Every request's rows, in order of arrival."""
    found = {index: Rows(name) for index, name in trace.request_ids().items()}
    for number, step in enumerate(trace.steps, 1):
        for row in step.rows:
            rows = found[row.req_idx]
            rows.rows += 1
            if row.kind == DEAD:
                rows.dead += 1
                continue
            if row.kind == PREFILL:
                rows.prompt += row.n_tokens
                rows.padding += row.n_padding
            if row.token_id is not None:
                rows.output += 1
                rows.last_step = number
    return list(found.values())


def waste_card(trace: Trace) -> cards.Html:
    """Who wasted how much: dead rows of all rows, and beside them the prompts' padding."""
    found = count_rows(trace)
    total, dead = sum(r.rows for r in found), sum(r.dead for r in found)
    share = percent(dead / total) if total else "n/a"
    text = f"{dead:,} of {plural(total, 'row')} were computed for nobody: {share}."
    padding, prompt = sum(r.padding for r in found), sum(r.prompt for r in found)
    apart = (
        f"Prompt padding is counted apart: {padding:,} tokens beside the prompts' {prompt:,}, "
        "in the step that reads them."
    )
    rows = [
        (r.request_id, f"{r.prompt:,}", f"{r.padding:,}", f"{r.output:,}",
         "n/a" if r.last_step is None else f"{r.last_step:,}", f"{r.dead:,}")
        for r in found
    ]  # fmt: skip
    html = cards.card(
        cards.head(text, cards.provenance(trace.header)),
        cards.table(COLUMNS, rows), f'<p class="ml-note">{apart}</p>',
    )  # fmt: skip
    return cards.Html(html, f"{text}\n{cards.text_table(COLUMNS, rows)}\n{apart}")


def waste_table(runs: Mapping[str, Trace], title: str = "What was thrown away") -> cards.Html:
    """Several runs side by side: padding in tokens, dead rows and their share, speed."""
    traces = list(runs.values())
    rows = []
    for name, trace in runs.items():
        counted, s = count_rows(trace), summarize(trace)
        padding, dead = sum(r.padding for r in counted), sum(r.dead for r in counted)
        rows.append((
            name, f"{padding:,} tokens", f"{dead:,}", percent(s.row_padding_fraction),
            number3(s.output_tok_s), seconds(s.makespan_s),
        ))  # fmt: skip
    where = cards.provenance(traces[0].header) if traces else ""
    html = cards.card(cards.head(title, where), cards.table(RUN_COLUMNS, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(RUN_COLUMNS, rows)}\n{where}")
