"""What a long prompt does to the others: how long it waits itself, and how long they stand still.

measure_stall(trace)                     # the figures of one run
stall_table({"whole": trace, …})         # a row a run
step_table(cost, {"8 users": Load(…)})   # how long single steps take, simulated
step_picture(trace)                      # a dash a step: as wide as it lasts, as high as the gap
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from minillm.core import Trace, request_metrics
from minillm.core.metrics import RequestMetrics, percentile
from minillm.core.trace import PREFILL, StepRecord, letter
from minillm.sim import GPUCostModel
from minillm.sim.pipeline import Load
from widgets import cards
from widgets.axes import Scale
from widgets.numbers import number3, plural, seconds
from widgets.shapes import Drawing, Line, Shape, Text
from widgets.still import static

COLUMNS = (
    "", "its chunks", "its TTFT", "usual gap of the others", "their longest gap", "times as long",
)  # fmt: skip
WIDTH, HEIGHT, LEFT = 820.0, 210.0, 62.0


@dataclass(frozen=True, slots=True)
class Stall:
    """prompt: tokens; chunks: steps that read it. Seconds; None where the run does not tell.

    usual_s: median gap between two tokens of the others while no prompt is read. worst_s: their
    longest gap between the long prompt's arrival and its first token.
    """

    req: int
    prompt: int
    chunks: int
    ttft_s: float | None
    usual_s: float | None
    worst_s: float | None

    @property
    def ratio(self) -> float | None:
        """How many times the usual gap the longest one is."""
        return self.worst_s / self.usual_s if self.worst_s and self.usual_s else None


def measure_stall(trace: Trace) -> Stall:
    """The stall that the request with the longest prompt makes. ValueError without requests."""
    requests = request_metrics(trace)
    if not requests:
        raise ValueError("The trace has no request: there is no prompt to wait for.")
    late = max(requests.values(), key=lambda request: request.prompt_tokens)
    others = [request for request in requests.values() if request is not late]
    rows = [row for step in trace.steps for row in step.rows]
    chunks = sum(row.req_idx == late.index and row.kind == PREFILL for row in rows)
    end = late.token_times[0] if late.token_times else None
    hit = [
        b - a
        for request in others for a, b in pairwise(request.token_times)
        if end is not None and b > late.arrival and a < end - 1e-9
    ]  # fmt: skip
    return Stall(
        late.index, late.prompt_tokens, chunks, late.ttft,
        percentile(_quiet_gaps(trace, others), 50), max(hit, default=None),
    )  # fmt: skip


def _quiet_gaps(trace: Trace, others: list[RequestMetrics]) -> list[float]:
    """The others' gaps that lie in steps without a prompt."""
    reads = {s.t_end for s in trace.steps if any(row.kind == PREFILL for row in s.rows)}
    return [b - a for one in others for a, b in pairwise(one.token_times) if b not in reads]


def stall_table(runs: Mapping[str, Trace], title: str = "") -> cards.Html:
    """Several runs with one long prompt each, side by side."""
    if not runs:
        text = "No run got as far as the long prompt."
        return cards.Html(cards.card(cards.head(text)), text)
    found = {name: measure_stall(trace) for name, trace in runs.items()}
    rows = [
        (
            name, f"{stall.chunks:,}", seconds(stall.ttft_s), seconds(stall.usual_s),
            seconds(stall.worst_s), "n/a" if stall.ratio is None else f"{number3(stall.ratio)}×",
        )
        for name, stall in found.items()
    ]  # fmt: skip
    first = next(iter(found.values()))
    title = title or f"{letter(first.req)}’s prompt of {first.prompt:,} tokens, and the others"
    where = cards.provenance(next(iter(runs.values())).header)
    html = cards.card(cards.head(title, where), cards.table(COLUMNS, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(COLUMNS, rows)}\n{where}")


def step_table(cost: GPUCostModel, steps: Mapping[str, Load]) -> cards.Html:
    """How long steps take on a simulated GPU, beside the least that any of them can take."""
    model, gpu = cost.model, cost.gpu
    matrices = model.weight_bytes(cost.dtype) - 2.0 * model.vocab_size * model.hidden
    floor = (
        f"Every step reads the weights: {matrices / 1e9:.1f} GB at the datasheet’s "
        f"{gpu.bandwidth / 1e9:,.0f} GB/s are {seconds(matrices / gpu.bandwidth)} already."
    )
    columns = ("one step", "tokens", "takes")
    rows = [
        (name, f"{load.num_tokens:,}", seconds(cost.seconds(load))) for name, load in steps.items()
    ]
    title = "What one step takes"
    where = f"◐ simulated: {gpu.name}, {model.name} {cost.dtype.name}"
    html = cards.card(
        cards.head(title, where), cards.table(columns, rows), f'<p class="ml-note">{floor}</p>'
    )
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{floor}\n{where}")


def stall_sentence(stall: Stall, budget: str) -> str:
    """What one budget comes to."""
    return (
        f"Budget {budget}: the long prompt has its first token after {seconds(stall.ttft_s)}, in "
        f"{plural(stall.chunks, 'chunk')}; the others never wait longer than "
        f"{seconds(stall.worst_s)} for their next one."
    )


def step_picture(trace: Trace, *, title: str = "", limit_ms: float = 50.0, span_s: float = 2.0):
    """The steps around the long prompt's arrival as dashes, time across and their length up.

    Amber steps hold a part of a prompt. Axes are the same for every run, so pictures compare.
    """
    stall = measure_stall(trace)
    arrival = next(e.t for e in trace.events if e.event == "arrive" and e.req == stall.req)
    x = Scale(-0.2, span_s, LEFT, WIDTH)
    y = Scale(5.0, 1000.0, HEIGHT + 34, 34.0, True)
    shapes: list[Shape] = [Text(0, 14, title, "ink", 13, True)] if title else []
    for value in (5, 10, 20, 50, 100, 200, 500, 1000):
        shapes.append(Line(LEFT, y.at(value), WIDTH, y.at(value), "grid", 0.8))
        shapes.append(Text(LEFT - 8, y.at(value) + 4, f"{value:,} ms", "ink3", 11, anchor="end"))
    for value, label in x.ticks(110):
        shapes.append(Line(x.at(value), y.start, x.at(value), y.start + 4, "line"))
        shapes.append(Text(x.at(value), y.start + 18, label, "ink3", 11, anchor="middle"))
    shapes.append(Text(WIDTH, y.start + 34, "seconds since the long prompt came", "ink3", 11,
                       anchor="end"))  # fmt: skip
    shapes.append(Line(x.at(0), y.end, x.at(0), y.start, "ink3", 1, True))
    shapes.append(Line(LEFT, y.at(limit_ms), WIDTH, y.at(limit_ms), "ok", 1.4))
    shapes.append(Text(WIDTH, y.at(limit_ms) - 5, f"ITL ≤ {limit_ms:g} ms", "ok_text", 11, True,
                       anchor="end"))  # fmt: skip
    for step in trace.steps:
        shapes += _dash(step, arrival, x, y)
    words = f"{title} {stall_sentence(stall, _budget(trace))} {trace.header.provenance}."
    table = (("figure", "value"), [
        ("first token of the long prompt", seconds(stall.ttft_s)),
        ("longest gap of the others", seconds(stall.worst_s)),
    ])  # fmt: skip
    return static(Drawing(WIDTH, y.start + 40, shapes), words, table)


def _dash(step: StepRecord, arrival: float, x: Scale, y: Scale) -> list[Shape]:
    start, end = step.t_start - arrival, step.t_end - arrival
    if end < x.low or start > x.high:
        return []
    reads = any(row.kind == PREFILL for row in step.rows)
    left, right = x.at(max(start, x.low)), x.at(min(end, x.high))
    height = y.at((step.t_end - step.t_start) * 1e3)
    width = max(right - left - 0.6, 1.2)
    if not reads:
        return [Line(left, height, left + width, height, "decode", 4)]
    inner = left + max(width - 0.8, 1.0)
    return [
        Line(left, height, left + width, height, "edge", 6.5),
        Line(left + 0.8, height, inner, height, "prefill", 5),
    ]


def _budget(trace: Trace) -> str:
    budget = trace.header.config.get("max_num_batched_tokens")
    return "n/a" if budget is None else f"{budget:,}"
