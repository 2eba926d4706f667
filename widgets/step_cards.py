"""Engine steps as tables: how a step's time grows with its users, and what sits idle meanwhile.

steps_card(trace)                             # of a run with one request
users_card(llm, {1: run_steps(llm, 1, 32), 8: run_steps(llm, 8, 32)})
idle_card(gpu, run_steps(gpu, 1, 512).decode)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minillm.core.trace import PREFILL, StepRecord, Trace
from minillm.sim.activity import GPUActivity
from widgets import cards
from widgets.numbers import number3, percent, seconds
from widgets.published import published_points
from widgets.roofline_model import share_text

if TYPE_CHECKING:
    from minillm.bench.step_times import Steps
    from minillm.llm import LLM

USERS = ("users", "one decode step", "× one user's", "tok/s in all", "tok/s per user")
STEPS = ("step", "kind", "tokens computed", "read from the KV cache", "token given", "time")
IDLE = ("asked", "share", "what it says")


def users_card(llm: LLM, runs: Mapping[int, Steps], context: str = "") -> cards.Html:
    """A row for each number of users: the median decode step, and what it gives. context: words."""
    first, last = min(runs), max(runs)
    alone = _lasted(runs[first].decode)
    rows = []
    for users, run in sorted(runs.items()):
        step = _lasted(run.decode)
        rows.append((f"{users}", seconds(step), f"{number3(step / alone)}×",
                     number3(users / step), number3(1 / step)))  # fmt: skip
    times = number3(_lasted(runs[last].decode) / alone)
    title = f"{last // first}× the users: a step takes {times}× the time."
    return _table(title, f"{_where(llm)}{f', {context}' if context else ''}", USERS, rows)


def steps_card(trace: Trace) -> cards.Html:
    """A run of one request, a row a step: what is computed, what is read back, what comes out."""
    rows, given = [], 0
    for number, step in enumerate(trace.steps, 1):
        [row] = step.rows
        given += row.token_id is not None
        token = f"number {given}" if row.token_id is not None else "none yet"
        kind = "prefill" if row.kind == PREFILL else "decode"
        rows.append((f"{number}", kind, f"{row.n_tokens}", f"{row.start}", token,
                     seconds(_lasted(step))))  # fmt: skip
    title = "One request, step by step"
    return _table(title, cards.provenance(trace.header), STEPS, rows)


def idle_card(llm: LLM, step: StepRecord) -> cards.Html:
    """Three questions about one step of a simulated GPU, each with its own answer.

    Raises ValueError for a device without a data sheet.
    """
    activity = GPUActivity.of_run(llm.new_engine().trace.header)
    shares = None if activity is None else activity.of(step)
    if shares is None:
        raise ValueError("These shares need a simulated GPU: LLM.simulated(runner=…for_gpu(…)).")
    rows = [
        ("In what share of the time does any kernel run?", percent(shares.busy),
         "duty cycle; “utilisation” in nvidia-smi"),
        ("What share of its FLOP/s is used?", share_text(shares.tensor), "MFU"),
        ("What share of its memory's GB/s is used?", share_text(shares.dram), "bandwidth use"),
    ]  # fmt: skip
    title = f"One step, {seconds(_lasted(step))}: the arithmetic is {_idle(shares.tensor)} idle."
    return _table(title, _where(llm), IDLE, rows, left=True)


def published_bandwidth(hardware: str, model: str, step_bytes: float, peak: float) -> cards.Html:
    """Published single-user speeds as bandwidth use: bytes of a step · tokens a second ÷ peak.

    hardware, model: regular expressions; peak in bytes a second.
    """
    rows = [
        (point.name, cards.number(point.tok_s, "tok/s"),
         share_text(point.tok_s * step_bytes / peak), point.source)
        for point in published_points(hardware, model)
    ]  # fmt: skip
    columns = ("published", "one user", "of the bandwidth", "source")
    return _table("The same from published speeds", "◇ published", columns, rows, left=True)


def _lasted(step: StepRecord) -> float:
    return step.t_end - step.t_start


def _idle(share: float) -> str:
    return f"{100 * (1 - share):.1f}\u2009%"


def _where(llm: LLM) -> str:
    info = llm.info
    glyph = cards.GLYPHS[info.provenance]
    return f"{glyph} {info.provenance}: {info.device}, {info.model} {info.dtype}"


def _table(title: str, where: str, columns: tuple, rows: list, *, left: bool = False) -> cards.Html:
    html = cards.card(cards.head(title, where), cards.table(columns, rows, left=left))
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{where}")
