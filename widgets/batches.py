"""What batches a run was made of: who was sent together, when, and how long they had waited.

batches_card(trace)                                     # a row a batch
windows_card(llm, requests, (0, 0.05), max_batch=8)     # a window in front of a continuous engine
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from minillm.core import Arrival, Trace, drive, percentile, request_metrics, summarize
from minillm.sim import CostModel
from widgets import cards
from widgets.numbers import number3, seconds

if TYPE_CHECKING:
    from minillm.llm import LLM

COLUMNS = ("batch", "sent at", "who", "size", "the oldest had waited")
WINDOW_COLUMNS = ("window", "TTFT p50", "TTFT p99", "ITL p50", "tok/s")


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that began in the same step. sent: seconds since the first arrival.

    waited: seconds from the arrival of its oldest request until then.
    """

    sent: float
    members: tuple[str, ...]
    waited: float


def sent_batches(trace: Trace) -> list[Batch]:
    """The batches of a run, in order."""
    names = trace.request_ids()
    arrived = {event.req: event.t for event in trace.events if event.event == "arrive"}
    origin = min(arrived.values(), default=0.0)
    begun: set[int] = set()
    found = []
    for step in trace.steps:
        new = [row.req_idx for row in step.rows if row.req_idx not in begun]
        if new:
            begun.update(new)
            waited = step.t_start - min(arrived[index] for index in new)
            members = tuple(names[index] for index in new)
            found.append(Batch(step.t_start - origin, members, waited))
    return found


def batches_card(trace: Trace) -> cards.Html:
    """A row a batch: when it was sent, who was in it, how long its oldest request had waited."""
    batches = sent_batches(trace)
    rows = [
        (str(number), _ms(each.sent), " ".join(each.members), str(len(each.members)),
         _ms(each.waited))
        for number, each in enumerate(batches, 1)
    ]  # fmt: skip
    parts = [f"[{', '.join(each.members)}] at {_ms(each.sent)}" for each in batches]
    text = "; ".join(parts[:4]) + (" …" if len(parts) > 4 else "") or "No batch was sent."
    html = cards.card(
        cards.head(text, cards.provenance(trace.header)), cards.table(COLUMNS, rows, left=True)
    )
    return cards.Html(html, f"{text}\n{cards.text_table(COLUMNS, rows)}")


def held_until(
    llm: LLM, requests: Iterable[Arrival], window: float, max_batch: int
) -> list[Arrival]:
    """The same requests as a window lets them go (seconds): what comes after it sees them then.

    llm: any simulated one; its time does not count, since a window alone computes nothing.
    """
    requests = list(requests)
    engine = (
        type(llm)
        .simulated(CostModel(0, 0, 0))
        .new_engine("dynamic", max_num_seqs=max_batch, max_queue_delay_s=window)
    )
    alone = [replace(r, params=replace(r.params, max_tokens=1)) for r in requests]
    for _ in drive(engine, alone):
        pass
    begun = {m.request_id: m.admitted for m in request_metrics(engine.trace).values()}
    return [replace(request, time=begun[request.request_id]) for request in requests]


def windows_card(
    llm: LLM, requests: Sequence[Arrival], windows: Iterable[float], max_batch: int
) -> cards.Html:
    """Windows (seconds) in front of a continuous engine, one after the other, on the same requests.

    TTFT counts from when a request came to the window. llm: a simulated one.
    """
    from widgets.lesson import simulate

    came = {request.request_id: request.time for request in requests}
    if not requests:
        raise ValueError("There is no request to hold back.")
    rows, header = [], None
    for window in windows:
        trace = simulate(llm, held_until(llm, requests, window, max_batch), "continuous")
        metrics, summary, header = request_metrics(trace).values(), summarize(trace), trace.header
        ttft = [m.token_times[0] - came[m.request_id] for m in metrics if m.token_times]
        span = trace.steps[-1].t_end - min(came.values())
        rows.append((
            _ms(window), _ms(percentile(ttft, 50)), _ms(percentile(ttft, 99)),
            f"{number3(summary.itl_p50_ms)}\u202fms", number3(summary.output_tokens / span),
        ))  # fmt: skip
    title = "A window in front of a continuous engine"
    where = cards.provenance(header) if header else ""
    html = cards.card(cards.head(title, where), cards.table(WINDOW_COLUMNS, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(WINDOW_COLUMNS, rows)}\n{where}")


def _ms(value: float | None) -> str:
    """Milliseconds below a second and for 0; seconds above."""
    if value is None or value >= 1:
        return seconds(value)
    return cards.number(round(value * 1e3, 6), "ms")
