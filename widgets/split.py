"""A model that is split: who holds which part, what a split costs on GPUs, and a pipeline's bubble.

runs["TP 3"] = measure_split(llm, prompts, params)   # on real worker processes
split_table(runs)                                    # their parts, the pace, whether tokens agree
costs_table({"TP 4": GPUCostModel(…), …})            # simulated: one user, many users, prompts
pipeline_table(stages=4, micro_batches=4)            # who computes what, and when nobody does
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from minillm.core import SamplingParams
from minillm.sim import GPUCostModel
from minillm.sim.pipeline import Load
from widgets import cards
from widgets.numbers import plural, seconds

if TYPE_CHECKING:
    from minillm.llm import LLM

CONTEXT = 512  # tokens that each decoding user has behind them
MANY_USERS = 128
PROMPTS, PROMPT_LEN = 4, 2048
PARTS = ("", "process", "layers", "query heads", "KV heads", "rows of the vocabulary", "weights")
COSTS = (
    "split", "1 user, a token", "of it all-reduces", f"{MANY_USERS} users, a token each",
    "prompt tokens per second", "room for KV, tokens",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SplitRun:
    """What came of one model. parts: a row a worker, empty for a model in one process."""

    where: str
    tokens: tuple[tuple[int, ...], ...]  # of each prompt
    wall_s: float
    parts: tuple[tuple[str, ...], ...]

    @property
    def tokens_per_s(self) -> float:
        return sum(map(len, self.tokens)) / self.wall_s


def measure_split(llm: LLM, prompts: Sequence[str], params: SamplingParams) -> SplitRun:
    """Complete the prompts as one batch, after a token for each that is not timed."""
    llm.generate(list(prompts), SamplingParams(1))
    start = time.perf_counter()
    found = llm.generate(list(prompts), params)
    wall_s = time.perf_counter() - start
    parts = tuple(
        (
            f"worker {one.rank}", str(one.process_id), _span(one.layers), str(one.num_heads),
            str(one.num_kv_heads), _span(one.vocabulary), f"{one.weight_bytes / 1e6:.0f}\u202fMB",
        )
        for one in getattr(llm.runner, "workers", ())
    )  # fmt: skip
    return SplitRun(llm.info.device, tuple(tuple(c.token_ids) for c in found), wall_s, parts)


def _span(part: range) -> str:
    return f"{part.start:,}–{part.stop - 1:,}"


def split_table(runs: Mapping[str, SplitRun]) -> cards.Html:
    """Each worker's part; then pace and tokens of each run beside the first one's."""
    first = next(iter(runs.values()))
    columns = ("", "tokens per second", "the same tokens", "where")
    rows = [
        (name, cards.number(run.tokens_per_s), _agreement(first, run), run.where)
        for name, run in runs.items()
    ]
    title = "One model, split over processes"
    note = "● measured on this machine"
    html, text = [cards.head(title, note)], [f"{title} ({note})"]
    for name, run in runs.items():
        if run.parts:
            html += [f'<p class="ml-note">{name}</p>', cards.table(PARTS, run.parts)]
            text += [name, cards.text_table(PARTS, run.parts)]
    html.append(cards.table(columns, rows, left=True))
    text.append(cards.text_table(columns, rows))
    return cards.Html(cards.card(*html), "\n".join(text))


def _agreement(first: SplitRun, run: SplitRun) -> str:
    """How many of the tokens are the first run's, each sequence up to where they part."""
    total = sum(map(len, first.tokens))
    same = sum(
        sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
        for ours, theirs in zip(first.tokens, run.tokens, strict=True)
    )
    return f"all {total}" if same == total else f"{same} of {total}, until rounding parts them"


# ── simulated GPUs ──────────────────────────────────────────────────────────────────────────


def decode_load(users: int) -> Load:
    """A step in which that many users get a token."""
    return Load(users, users * CONTEXT, (), users)


def costs_table(splits: Mapping[str, GPUCostModel]) -> cards.Html:
    """What a step costs under each split, and how much KV there is room for."""
    prompts = Load(chunks=[(0, PROMPT_LEN)] * PROMPTS, num_sampled=PROMPTS)
    rows = []
    for name, cost in splits.items():
        one = decode_load(1)
        rows.append((
            name, seconds(cost.seconds(one)), seconds(cost.load_terms(one)["all_reduce"]),
            seconds(cost.seconds(decode_load(MANY_USERS))),
            f"{prompts.num_tokens / cost.seconds(prompts):,.0f}", _room(cost),
        ))  # fmt: skip
    first = next(iter(splits.values()))
    title = f"{first.model.name} {first.dtype.name}, split over GPUs"
    note = "◐ simulated"
    remark = (
        f"Users have {CONTEXT} tokens behind them; prompts are {PROMPTS} of {PROMPT_LEN:,} tokens "
        "at once. Prompts and users are dealt to as many micro-batches as a pipeline has stages."
    )
    html = cards.card(
        cards.head(title, note), cards.table(COSTS, rows), f'<p class="ml-note">{remark}</p>'
    )
    return cards.Html(html, f"{title} ({note})\n{cards.text_table(COSTS, rows)}\n{remark}")


def _room(cost: GPUCostModel) -> str:
    try:
        return f"{cost.kv_tokens():,}"
    except ValueError:
        return "none: the weights fill it"


def pipeline_table(stages: int, micro_batches: int) -> cards.Html:
    """Which micro-batch a stage computes at which time, a dot where it has nothing to do."""
    columns = ("time", *map(str, range(1, stages + micro_batches)))
    rows = [
        (
            f"stage {stage}",
            *(
                str(time - stage) if 0 < time - stage <= micro_batches else "·"
                for time in range(1, stages + micro_batches)
            ),
        )
        for stage in range(stages)
    ]
    pieces = "1 micro-batch" if micro_batches == 1 else f"{micro_batches} micro-batches"
    title = f"{plural(stages, 'stage')}, {pieces}"
    html = cards.card(cards.head(title, "a · is a stage with nothing to do"),
                      cards.table(columns, rows))  # fmt: skip
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}")
