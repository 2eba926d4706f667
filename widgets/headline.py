"""The sentence above a timeline and the figures beside it, computed from traces.

Pure Python. Definitions are minillm.core.metrics'. "Waits n steps" counts the steps that ran, in
whole or in part, between a request's arrival and its first row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from minillm.core.metrics import Summary, count_padding, summarize
from minillm.core.trace import PREFILL, Trace, TraceHeader, letter
from widgets.numbers import THIN, fixed, number3, percent, plural

SAME = 0.05  # a ratio within 5 % of 1 is "about the same"
POLICIES = ("static", "dynamic", "continuous")


@dataclass(frozen=True, slots=True)
class LaneFigures:
    """What stands in a lane's right margin. tok_s: output tokens a second; shares 0 to 1."""

    title: str
    tok_s: float | None
    elapsed_s: float | None
    row_padding_fraction: float | None
    useful_rows: float | None
    slots: int | None
    summary: Summary


@dataclass(frozen=True, slots=True)
class Headline:
    """text: the finding, a sentence a line. subtitle: what both runs had.

    notes: what the timeline points at: {lane, req, text, mark, tone: "ink"|"pre"}.
    """

    text: str
    subtitle: str
    notes: list[dict] = field(default_factory=list)
    figures: tuple[LaneFigures, ...] = ()


def lane_figures(trace: Trace, title: str = "") -> LaneFigures:
    """The figures of one run."""
    summary, padding = summarize(trace), count_padding(trace)
    steps = len(trace.steps)
    return LaneFigures(
        title=title or policy_title(trace.header.policy),
        tok_s=summary.output_tok_s,
        elapsed_s=summary.makespan_s,
        row_padding_fraction=summary.row_padding_fraction,
        useful_rows=(padding.rows - padding.dead_rows) / steps if steps else None,
        slots=trace.header.config.get("max_num_seqs"),
        summary=summary,
    )


def headline(traces: Sequence[Trace], titles: Sequence[str] = ()) -> Headline:
    """The headline of one run, or of two compared (the second against the first)."""
    if len(traces) not in (1, 2):
        raise ValueError(f"A headline is about 1 or 2 runs, got {len(traces)}.")
    names = [*titles, "", ""]
    figures = tuple(lane_figures(t, n) for t, n in zip(traces, names, strict=False))
    notes = [note for lane, trace in enumerate(traces) for note in _preemptions(lane, trace)]
    if len(traces) == 1:
        return Headline(_single(figures[0]), settings(traces), notes, figures)
    lines = [_pace(*figures)]
    named = None if _unfinished(figures) else _most_helped(*traces)
    if named is not None:
        req, before, after = named
        lines.append(f"{letter(req)} {_starts(after)} instead of {_instead(before)}.")
        for lane, steps in enumerate((before, after)):
            text = f"{letter(req)} {_waits(steps)}"
            notes.append({"lane": lane, "req": req, "text": text, "mark": True, "tone": "ink"})
    if difference := _other_machine(*traces):
        lines.append(difference)
    return Headline("\n".join(lines), settings(traces), notes, figures)


# ── sentences ───────────────────────────────────────────────────────────────────────────────────


def policy_title(policy: str) -> str:
    """A lane's title from its policy's name: "continuous" → "Continuous"."""
    return policy[:1].upper() + policy[1:]


def policy_subtitle(header: TraceHeader) -> str:
    """How the policy works, with this run's limits."""
    config = header.config
    until = "then runs until the longest output ends"
    if header.policy == "static":
        return f"waits for {config.get('max_num_seqs', 'a full batch')}, {until}"
    if header.policy == "dynamic":
        delay = config.get("max_queue_delay_s")
        wait = "waits" if delay is None else f"waits ≤ {delay * 1000:g}{THIN}ms for company"
        return f"{wait}, {until}"
    if header.policy != "continuous":
        return ""
    budget = config.get("max_num_batched_tokens")
    joins = "joins and leaves at every step"
    if not config.get("enable_chunked_prefill", True):
        return f"{joins}; prompts whole"
    return joins if budget is None else f"{joins}; prompts in chunks of ≤ {budget:,} tokens"


def settings(traces: Sequence[Trace]) -> str:
    """What the runs had: "same 14 requests, 6 slots, 48 KV blocks"."""
    counts = [len(trace.request_ids()) for trace in traces]
    header = traces[-1].header
    if len(set(counts)) > 1:
        parts = [" and ".join(f"{count:,}" for count in counts) + " requests"]
    else:
        same = "same " if len(traces) > 1 else ""
        parts = [same + plural(counts[0], "request")]
    if slots := header.config.get("max_num_seqs"):
        parts.append(plural(slots, "slot"))
    parts.append(plural(header.num_blocks, "KV block"))
    return ", ".join(parts)


def _single(figures: LaneFigures) -> str:
    name = _named(figures.title)
    if figures.tok_s is None:
        return f"{name}: no request has finished."
    text = f"{name}: {number3(figures.tok_s)} tokens per second."
    if figures.row_padding_fraction:
        text += f"\n{percent(figures.row_padding_fraction)} of its rows are padding."
    return text


def _pace(first: LaneFigures, second: LaneFigures) -> str:
    name = _named(second.title)
    if short := _unfinished((first, second)):
        done, all_ = short.summary.completed, short.summary.requests
        return f"{short.title}: {done} of {plural(all_, 'request')} finished, so no comparison."
    if not first.tok_s or not second.tok_s:
        return f"{name}: nothing to compare yet."
    ratio = second.tok_s / first.tok_s
    if abs(ratio - 1) < SAME:
        return f"{name}: about the same tokens per second ({ratio:.2f}×)."
    if ratio < 1:
        return f"{name}: only {_ratio(ratio)}× the tokens per second here."
    return f"{name}: {_ratio(ratio)}× the tokens per second."


def _unfinished(figures: Sequence[LaneFigures]) -> LaneFigures | None:
    """The first run in which some request did not complete."""
    for each in figures:
        if each.summary.completed < each.summary.requests:
            return each
    return None


def _other_machine(first: Trace, second: Trace) -> str:
    a, b = first.header, second.header
    if (a.provenance, a.device, a.model, a.dtype) == (b.provenance, b.device, b.model, b.dtype):
        return ""
    return "The two runs differ in device or model, not in policy alone."


def _starts(steps: int) -> str:
    return "starts at once" if steps == 0 else f"starts after {plural(steps, 'step')}"


def _instead(steps: int) -> str:
    return f"{steps:,}" if steps else "at once"


def _waits(steps: int) -> str:
    return "starts at once" if steps == 0 else f"waits {plural(steps, 'step')}"


def _named(title: str) -> str:
    return f"{title} batching" if title.lower() in POLICIES else title


def _ratio(ratio: float) -> str:
    return fixed(ratio, 0 if ratio >= 10 else 1 if ratio >= 1.15 else 2)


# ── what to point at ────────────────────────────────────────────────────────────────────────────


def steps_waited(trace: Trace) -> dict[int, int]:
    """For each request that ran: the steps between its arrival and its first row."""
    arrived = {event.req: event.t for event in trace.events if event.event == "arrive"}
    begun: dict[int, float] = {}
    for step in trace.steps:
        for row in step.rows:
            begun.setdefault(row.req_idx, step.t_start)
    return {
        req: sum(s.t_end > arrived[req] + 1e-9 and s.t_start < start - 1e-9 for s in trace.steps)
        for req, start in begun.items()
        if req in arrived
    }


def _most_helped(first: Trace, second: Trace) -> tuple[int, int, int] | None:
    """(request, steps it waits in the first, in the second): where the second helps most."""
    before, after = steps_waited(first), steps_waited(second)
    shared = [req for req in before if req in after and before[req] > after[req]]
    if not shared:
        return None
    req = max(shared, key=lambda each: (before[each] - after[each], -each))
    return req, before[req], after[req]


def _preemptions(lane: int, trace: Trace) -> list[dict]:
    """A note at the first preempted request: what it has to compute again."""
    lost = [event for event in trace.events if event.event == "preempt"]
    if not lost:
        return []
    first, more = lost[0], len(lost) - 1
    again = 0
    for step in trace.steps:
        if step.t_start < first.t - 1e-9:
            continue
        row = next((row for row in step.rows if row.req_idx == first.req), None)
        if row is None:
            continue
        if row.kind != PREFILL:
            break
        again += row.n_tokens
        if row.token_id is not None:
            break
    text = f"{letter(first.req)} preempted at ✕: pool full"
    text += f"; it recomputes {again:,} tokens" if again else ""
    text += f" ({more} more)" if more else ""
    return [{"lane": lane, "req": first.req, "text": text, "mark": False, "tone": "pre"}]
