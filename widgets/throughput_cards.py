"""Tables about throughput and what it costs: batch by batch, device by device, limit by limit.

number_rows(gpu, (1, 8, 32), 508)       # (batch, tok/s, tok/s per user, MFU, bandwidth use)
numbers_table({"A100": rows, …})        # the table of all devices
spot_table(("A100-80GB-SXM",), …)       # the best batch over limits and contexts
published_table("A100", "Llama-3")      # measured by others, each with its source
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from minillm.core.trace import StepRecord
from minillm.sim.activity import sizes_of, step_work
from minillm.sim.hardware import get_gpu
from minillm.sim.step_table import step_table
from widgets import cards
from widgets.numbers import number3
from widgets.roofline_model import share_text

if TYPE_CHECKING:
    from minillm.llm import LLM

NUMBERS = ("batch", "tok/s in all", "tok/s per user", "MFU", "bandwidth use")
AT_ONCE = "output_throughput_100_prompts_at_once"
Row = tuple[int, float, float, float | None, float | None]  # NUMBERS; shares 0 to 1


def number_rows(
    llm: LLM,
    batches: Iterable[int],
    prompt: int,
    limits: tuple[float, float] | None = None,
    outputs: int = 9,
) -> list[Row]:
    """One decode step at each batch. limits: peak FLOP/s and bytes/s; None: the data sheet's.

    A real model's first steps are slower than later ones, so the largest batch runs once before.
    The shares are None where the model's sizes are not known.
    """
    from minillm.bench.step_times import run_steps, seconds_of

    header = llm.new_engine().trace.header
    if limits is None:
        gpu = get_gpu(header.device)
        limits = (gpu.peak_flops, gpu.bandwidth)
    batches, rows = list(batches), []
    if header.provenance == "measured":
        run_steps(llm, max(batches), prompt, outputs)
    for batch in batches:
        step = run_steps(llm, batch, prompt, outputs).decode
        took = seconds_of(step)
        rows.append((batch, batch / took, 1 / took, *_shares(step, took, header, limits)))
    return rows


def _shares(step: StepRecord, took: float, header, limits: tuple[float, float]) -> tuple:
    sizes = sizes_of(header)
    if sizes is None:
        return None, None
    return tuple(
        work / took / most for work, most in zip(step_work(step, *sizes), limits, strict=True)
    )


def numbers_table(devices: Mapping[str, Sequence[Row]], where: Sequence[str]) -> cards.Html:
    """The rows of several devices under one another. where: a line on each device's origin."""
    rows = [
        (f"{name}, {batch:,}", number3(total), number3(each), *map(share_text, shares))
        for name, found in devices.items()
        for batch, total, each, *shares in found
    ]
    title = "Real numbers: what a batch gives, to all and to each"
    columns = ("device, batch", *NUMBERS[1:])
    notes = "".join(f'<p class="ml-note">{line}</p>' for line in where)
    html = cards.card(cards.head(title), cards.table(columns, rows), notes)
    return cards.Html(html, "\n".join([title, cards.text_table(columns, rows), *where]))


def spot_table(
    gpus: Mapping[str, str],
    limits_ms: Sequence[float] = (15, 20, 30, 50),
    contexts: Sequence[int] = (512, 2048, 8192),
    model: str = "llama-3.1-8b",
) -> cards.Html:
    """The largest simulated batch (a power of two that fits) within each limit, per context."""
    batches = [2**power for power in range(10)]
    rows = []
    for name, gpu in gpus.items():
        for context in contexts:
            steps = step_table(gpu, model, batches=batches, context=context)["steps"]
            cells = []
            for limit in limits_ms:
                good = [step for step in steps if step["fits"] and step["ms"] <= limit]
                cells.append(f"{good[-1]['batch']:,}" if good else "none")
            rows.append((f"{name}, context {context:,}", *cells))
    title = "The sweet spot moves with the limit, the context and the device"
    columns = ("largest batch within", *(f"{limit:g}\u2009ms" for limit in limits_ms))
    where = f"◐ simulated: {model} bf16, powers of two up to {batches[-1]:,}"
    html = cards.card(cards.head(title, where), cards.table(columns, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{where}")


def published_table(hardware: str, model: str) -> cards.Html:
    """Published tokens per second with 100 prompts at once, matching regular expressions."""
    text = (files("minillm.data") / "measured.csv").read_text(encoding="utf-8")
    rows = [
        (
            f"{row['hardware']}, {row['engine'].split('+')[0]}", number3(float(row["value"])),
            number3(float(row["value"]) / 100), f"{row['source']} ({row['url_or_path']})",
        )
        for row in csv.DictReader(text.splitlines())
        if row["metric"] == AT_ONCE and re.search(hardware, row["hardware"])
        and re.search(model, row["model"]) and row["dtype"] in ("bf16", "fp16")
    ]  # fmt: skip
    title = "Published: 100 prompts at once"
    columns = ("", "tok/s in all", "÷ 100", "source")
    html = cards.card(cards.head(title, "◇ published"), cards.table(columns, rows, left=True))
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n◇ published")
