"""The moment that the cursor points at, in words: a sentence, and a table of who is under way."""

from __future__ import annotations

from minillm.core.trace import StepRecord, TraceHeader
from minillm.recordings import Recording
from widgets import cards
from widgets.headline import plural
from widgets.numbers import number3, percent, seconds
from widgets.replay.model import Asked, ReplayModel, Situation

ROWS, QUOTE = 12, 36  # of the table, and characters of a prompt: it stays small
ORIGIN = ("device", "model", "dtype")
COLUMNS = ("request", "state", "output tokens", "prompt tokens", "first token after", "it asks")


def sentence(model: ReplayModel, situation: Situation, t: float | None) -> str:
    """Where the replay is, and what runs, waits and is held there."""
    number = model.step_at(t)
    at = "At the end" if t is None else f"At {seconds(t)}"
    if number is None:
        return f"{at}, before the first step: {_queued(situation)}."
    step = model.trace.steps[number]
    elapsed = model.end if t is None else t
    made = f"{plural(situation.output_tokens, 'output token')} so far"
    if elapsed > 0 and situation.output_tokens:
        made += f", {number3(situation.output_tokens / elapsed)} a second"
    return (
        f"{at}, step {number + 1:,} of {len(model.starts):,}: {_busy(step)}; {made}; "
        f"{_memory(step, model.trace.header)}."
    )


def _queued(situation: Situation) -> str:
    return f"{plural(sum(1 for _ in situation.in_flight()), 'request')} in the queue"


def _busy(step: StepRecord) -> str:
    rows = plural(len(step.raw_rows), "row")
    return f"{rows} computed, {plural(step.waiting, 'request')} waiting"


def _memory(step: StepRecord, header: TraceHeader) -> str:
    cached = f", {step.kv_cached:,} cached" if step.kv_cached else ""
    share = percent(step.kv_used / header.num_blocks)
    return f"{step.kv_used:,} of {header.num_blocks:,} KV blocks in use ({share}){cached}"


def moment(model: ReplayModel, situation: Situation, t: float | None) -> cards.Html:
    """The sentence and the table, as HTML and as plain text."""
    words = sentence(model, situation, t)
    shown = list(situation.in_flight())[:ROWS] or list(situation.requests.values())[-ROWS:]
    rows = [_row(asked) for asked in shown]
    total = len({event.req for event in model.trace.events if event.event == "arrive"})
    left = situation.ended, max(0, total - len(situation.requests))
    rest = f"{left[0]:,} done, {left[1]:,} still to come."
    hidden = sum(1 for _ in situation.in_flight()) - len(shown)
    if hidden > 0:
        rest = f"{plural(hidden, 'more request')} under way, {rest}"
    html = cards.card(
        cards.head(words, cards.provenance(model.trace.header)),
        cards.table(COLUMNS, rows, left=True), f'<p class="ml-note">{rest}</p>',
    )  # fmt: skip
    return cards.Html(html, f"{words}\n{cards.text_table(COLUMNS, rows)}\n{rest}")


def _row(asked: Asked) -> tuple[str, ...]:
    of = "" if asked.limit is None else f" of {asked.limit:,}"
    prompt = "n/a" if asked.prompt is None else f"{asked.prompt:,}"
    if asked.prompt and asked.in_flight and asked.read < asked.prompt and not asked.tokens:
        prompt = f"{asked.read:,} of {prompt} read"
    first = None if asked.first_token is None else asked.first_token - asked.arrived
    waited = "not yet" if first is None else seconds(first)
    preview = " ".join(asked.preview.split())
    quote = preview if len(preview) <= QUOTE else f"{preview[: QUOTE - 1].rstrip()}…"
    return asked.name, asked.state, f"{asked.tokens:,}{of}", prompt, waited, quote


def about(recording: Recording | None, header: TraceHeader, left_out: int = 0) -> dict:
    """What the bar says of a run: the description, where its figures come from, how it was made."""
    parts = [recording.description] if recording else ["A trace file of your own."]
    if left_out:
        parts.append(f"Its last {plural(left_out, 'step')} are not shown: a replay keeps 8,192.")
    made = f"Recorded on {recording.recorded_on}. {recording.source}" if recording else ""
    return {
        "text": " ".join(parts), "made": made,
        "header": {name: getattr(header, name) for name in ("provenance", *ORIGIN)},
    }  # fmt: skip
