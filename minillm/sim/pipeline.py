"""Pipeline parallelism: one engine step is a turn of q micro-batches over pp stages.

While all are in flight, a turn lasts as long as its slowest micro-batch takes through all stages
(its next token depends on this one), or as a stage is busy with all of them, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """What a step computes. chunks: (tokens before, tokens computed) of each prefill chunk."""

    num_decode: int = 0
    context: int = 0  # Σ over decode rows, the token itself included
    chunks: Sequence[tuple[int, int]] = ()
    num_sampled: int = 0

    @property
    def num_tokens(self) -> int:
        return self.num_decode + sum(count for _, count in self.chunks)


def split(load: Load, num_batches: int) -> list[Load]:
    """Deal a step to at most `num_batches` micro-batches, each with about as many tokens.

    A prompt's chunk stays whole: its tokens attend to each other, layer by layer. The largest goes
    first, each to the micro-batch with the fewest tokens; decode rows then fill up the rest, each
    with the mean context.
    """
    num_rows = load.num_decode + len(load.chunks)
    num_batches = min(num_batches, num_rows)
    chunks: list[list[tuple[int, int]]] = [[] for _ in range(num_batches)]
    tokens = [0] * num_batches
    for chunk in sorted(load.chunks, key=lambda chunk: -chunk[1]):
        i = tokens.index(min(tokens))
        chunks[i].append(chunk)
        tokens[i] += chunk[1]
    singles = _fill(tokens, load.num_decode)
    mean = load.context / max(load.num_decode, 1)
    share = load.num_sampled / num_rows if num_rows else 0.0
    batches = []
    for count, part in zip(singles, chunks, strict=True):
        if count or part:
            sampled = round(share * (count + len(part)))
            batches.append(Load(count, round(mean * count), part, sampled))
    return batches


def _fill(tokens: Sequence[int], num_singles: int) -> list[int]:
    """How many of num_singles tokens each vessel takes so that the lowest are filled first."""
    order = sorted(range(len(tokens)), key=lambda i: tokens[i])
    left, used = num_singles, 0
    for used in range(1, len(order) + 1):  # how many vessels reach a common level
        level_of = sum(tokens[i] for i in order[:used]) + left
        if used == len(order) or level_of <= used * tokens[order[used]]:
            break
    singles = [0] * len(tokens)
    if not used:
        return singles
    level, extra = divmod(sum(tokens[i] for i in order[:used]) + left, used)
    for rank, i in enumerate(order[:used]):
        singles[i] = level + (rank < extra) - tokens[i]
    return singles


def turn(batches: Sequence[dict[str, float]], pp: int) -> dict[str, float]:
    """The terms of a turn from those of its micro-batches (each over all stages).

    A term is its mean over the stages; what the turn lasts beyond their sum, the bubble and the
    transfers, is `pipeline`.
    """
    totals = [sum(terms.values()) for terms in batches]
    seconds = max(max(totals), sum(totals) / pp)
    mean = {name: sum(terms[name] for terms in batches) / pp for name in batches[0]}
    mean["pipeline"] = 0.0
    mean["pipeline"] = seconds - sum(mean.values())
    return mean
