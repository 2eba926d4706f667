"""Pipeline parallelism: one engine step is a turn of q micro-batches over pp stages.

While all are in flight, a turn lasts as long as its slowest micro-batch takes through all stages
(its next token depends on this one), or as a stage is busy with all of them, whichever is longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from minillm.core.batch import ScheduledRow


def split(rows: Sequence[ScheduledRow], num_batches: int) -> list[list[ScheduledRow]]:
    """Deal the rows to at most `num_batches` micro-batches, each with about as many tokens.

    A prompt's chunk stays whole: its tokens attend to each other, layer by layer. So the largest
    goes first, each to the micro-batch with the fewest tokens.
    """
    num_batches = min(num_batches, len(rows))
    chunks = [row for row in rows if row.num_tokens + row.num_padding > 1]
    if not chunks:
        return [list(rows[i::num_batches]) for i in range(num_batches)]
    chunks.sort(key=lambda row: -(row.num_tokens + row.num_padding))
    batches: list[list[ScheduledRow]] = [[] for _ in range(num_batches)]
    tokens = [0] * num_batches
    singles = [row for row in rows if row.num_tokens + row.num_padding == 1]
    for row in chunks + singles:
        i = tokens.index(min(tokens))
        batches[i].append(row)
        tokens[i] += row.num_tokens + row.num_padding
    return [batch for batch in batches if batch]


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
