"""The capstone's tables: configurations against an SLO, a served load, speculation over the batch.

config_table({"3 × A100": (replicas, requests)}, ttft_s=0.5, tpot_s=0.05)
load_table(summary)                                   # of minillm.bench.summary.summarize_run
speculation_table(model, draft, guesses=4, accepted=0.7, batches=(1, 8, 64))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minillm.core.metrics import RequestMetrics, goodput, percentile
from minillm.sim import GPUCostModel
from minillm.sim.pipeline import Load
from widgets import cards
from widgets.numbers import percent, seconds

CONTEXT = 512  # tokens that each user has behind them


def config_table(
    runs: Mapping[str, Sequence[RequestMetrics]], *, ttft_s: float, tpot_s: float
) -> cards.Html:
    """A row a configuration: the share within the SLO, and what the rest missed."""
    columns = ("configuration", "within the SLO", "TTFT p99", "TPOT p99")
    rows = []
    for name, requests in runs.items():
        good = goodput(requests, 1.0, ttft_s=ttft_s, tpot_s=tpot_s) / len(requests)
        late = [[value for r in requests if (value := getattr(r, which)) is not None]
                for which in ("ttft", "tpot")]  # fmt: skip
        rows.append((name, percent(good), *(seconds(percentile(values, 99)) for values in late)))
    title = f"TTFT ≤ {seconds(ttft_s)} and TPOT ≤ {seconds(tpot_s)}"
    return _card(title, "◐ simulated", columns, rows)


def load_table(summary: Mapping, source: str) -> cards.Html:
    """The figures of one load that a reader looks at first."""
    rows = [
        ("completed", f"{summary['completed']:,}"), ("failed", f"{summary['failed']:,}"),
        ("output tokens per second", cards.number(summary["output_throughput"])),
        ("most requests at once", str(summary["max_concurrent_requests"])),
        *(
            (f"{label} p50 / p99", " / ".join(
                cards.number(summary[f"{q}_{name}_ms"], "ms") for q in ("median", "p99")
            ))
            for label, name in (("TTFT", "ttft"), ("TPOT", "tpot"), ("ITL", "itl"))
        ),
        ("within the SLO", percent(summary["goodput_fraction"])),
    ]  # fmt: skip
    return _card("Your load on your server", source, ("figure", "value"), rows)


def tokens_per_round(guesses: int, accepted: float) -> float:
    """Tokens that a verification gives in the mean: (1 − a^(k+1)) / (1 − a) (Leviathan et al.,
    ICML 2023), each guess being accepted with probability a < 1 if those before it were."""
    return (1 - accepted ** (guesses + 1)) / (1 - accepted)


def speculation_gain(
    model: GPUCostModel, draft: GPUCostModel, batch: int, guesses: int, accepted: float
) -> tuple[float, float, float]:
    """(seconds of a plain step, seconds of a round, tokens per second ÷ those without it)."""
    users = Load(batch, batch * CONTEXT, (), batch)
    rows = batch * (guesses + 1)
    verify = Load(chunks=[(CONTEXT, guesses + 1)] * batch, num_sampled=rows)
    plain = model.seconds(users)
    whole = guesses * draft.seconds(users) + model.seconds(verify)
    return plain, whole, tokens_per_round(guesses, accepted) * plain / whole


def speculation_table(
    model: GPUCostModel, draft: GPUCostModel, *, guesses: int, accepted: float,
    batches: Iterable[int],
) -> cards.Html:  # fmt: skip
    """The gain against the batch."""
    columns = ("batch", "rows to verify", "a plain step", "guess and verify", "gain")
    rows = []
    for batch in batches:
        plain, whole, gain = speculation_gain(model, draft, batch, guesses, accepted)
        rows.append((
            str(batch), f"{batch * (guesses + 1):,}", seconds(plain), seconds(whole),
            f"{gain:.2f}×",
        ))  # fmt: skip
    title = f"{guesses} guesses by {draft.model.name}, each right {percent(accepted)} of the time"
    return _card(title, f"◐ simulated: {model.gpu.name}, {model.model.name}", columns, rows)


def _card(
    title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> cards.Html:
    html = cards.card(cards.head(title, note), cards.table(columns, rows))
    return cards.Html(html, f"{title} ({note})\n{cards.text_table(columns, rows)}")
