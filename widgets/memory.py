"""What a run did with its KV blocks: who was preempted, what prefixes spared, who fits at once.

preempted_card(trace)                      # who gave blocks back, and what was computed again
pool_table({"64 blocks": trace, …})        # a row a run: use, preemptions, tokens again, speed
prefix_table({"with": trace, …})           # a row a run: prompt tokens found and computed, blocks
fit_table(models, [512, 8192])             # users who fit into each simulated GPU at once
allocator_card(trace, BlockAllocator)      # an allocator of one's own against the engine's blocks
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from minillm.core import Arrival, SamplingParams, Trace, summarize
from minillm.core.metrics import Tally, percentile, request_metrics
from minillm.core.trace import PREFILL, letter
from minillm.sim import GPUCostModel
from widgets import cards
from widgets.block_story import block_story
from widgets.numbers import number3, percent, plural, seconds

if TYPE_CHECKING:
    from minillm.llm import LLM

POOL = ("", "blocks in use, mean", "at most", "preemptions", "computed again", "tok/s", "ITL p99")
PREFIX = ("", "prompts", "found in the cache", "computed", "blocks at most", "TTFT p50")


@dataclass(slots=True)
class Memory:
    """One request's part. Tokens: prompt, output; again: computed a second time; cached: found."""

    request_id: str
    prompt: int
    output: int = 0
    preemptions: int = 0
    again: int = 0
    cached: int = 0
    most_blocks: int = 0


def count_memory(trace: Trace) -> list[Memory]:
    """Every request's blocks and tokens, in order of arrival."""
    found = {
        index: Memory(r.request_id, r.prompt_tokens, r.output_tokens, r.num_preemptions)
        for index, r in request_metrics(trace).items()
    }
    for event in trace.events:
        if event.event == "admit":
            found[event.req].cached += event.data.get("tokens_cached", 0)
    held = dict.fromkeys(found, 0)
    highest: dict[int, int] = {}  # how far each request had been computed
    for step in trace.steps:
        for op, _, req in step.raw_blocks:
            if op in "as":
                held[req] += 1
                found[req].most_blocks = max(found[req].most_blocks, held[req])
            elif op == "f":
                held[req] -= 1
        for row in step.rows:
            end, known = row.start + row.n_tokens, highest.get(row.req_idx, 0)
            found[row.req_idx].again += max(0, min(end, known) - row.start)
            highest[row.req_idx] = max(end, known)
    return list(found.values())


def first_victim(trace: Trace) -> tuple[str, bool] | None:
    """(the first request that was preempted, whether it was the last one admitted); else None."""
    running: list[int] = []
    for event in trace.events:
        if event.event == "admit":
            running.append(event.req)
        elif event.event in ("finish", "abort") and event.req in running:
            running.remove(event.req)
        elif event.event == "preempt":
            return letter(event.req), event.req == running[-1]
    return None


def preempted_card(trace: Trace) -> cards.Html:
    """The story of the blocks, and a row a request."""
    story, counted = block_story(trace), count_memory(trace)
    again = sum(memory.again for memory in counted)
    times = sum(memory.preemptions for memory in counted)
    total = f"{plural(times, 'preemption')}; {plural(again, 'token')} computed a second time."
    columns = ("", "prompt", "output", "blocks at most", "preempted", "tokens computed again")
    rows = [
        (m.request_id, f"{m.prompt:,}", f"{m.output:,}", f"{m.most_blocks:,}",
         f"{m.preemptions:,}×", f"{m.again:,}")
        for m in counted
    ]  # fmt: skip
    where = cards.provenance(trace.header)
    html = cards.card(
        cards.head(story.text, where), f"<p>{story.lead}</p>", cards.table(columns, rows),
        f'<p class="ml-note">{total}</p>',
    )  # fmt: skip
    table = cards.text_table(columns, rows)
    return cards.Html(html, "\n".join([story.text, story.lead, table, total, where]))


def pool_table(runs: Mapping[str, Trace], title: str) -> cards.Html:
    """The same requests in pools of different size."""
    rows = []
    for name, trace in runs.items():
        tally, s, pool = Tally().take(trace), summarize(trace), trace.header.num_blocks
        gaps = [gap for request in tally.requests.values() for gap in request.itl]
        again = sum(memory.again for memory in count_memory(trace))
        mean = tally.kv_block_s / tally.busy_s / pool if tally.busy_s else None
        rows.append((
            name, percent(mean), percent(tally.kv_used_max / pool), f"{s.preemptions:,}",
            plural(again, "token"), number3(s.output_tok_s), seconds(percentile(gaps, 99)),
        ))  # fmt: skip
    return _table(title, POOL, rows, runs)


def prefix_table(runs: Mapping[str, Trace], title: str) -> cards.Html:
    """What prompts with a common beginning cost, with the prefix cache and without."""
    rows = []
    for name, trace in runs.items():
        counted = count_memory(trace)
        steps = [row for step in trace.steps for row in step.rows]
        computed = sum(row.n_tokens for row in steps if row.kind == PREFILL)
        most, ttft = max(step.kv_used for step in trace.steps), summarize(trace).ttft_p50_ms
        rows.append((
            name, plural(sum(m.prompt for m in counted), "token"),
            f"{sum(m.cached for m in counted):,}", f"{computed:,}", f"{most:,}",
            seconds(None if ttft is None else ttft / 1e3),
        ))  # fmt: skip
    return _table(title, PREFIX, rows, runs)


def _table(
    title: str, columns: Sequence[str], rows: Sequence[tuple], runs: Mapping[str, Trace]
) -> cards.Html:
    where = cards.provenance(next(iter(runs.values())).header)
    html = cards.card(cards.head(title, where), cards.table(columns, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{where}")


def fit_table(
    models: Iterable[GPUCostModel], lengths: Sequence[int], gpu_memory_utilization: float = 0.9
) -> cards.Html:
    """How many users of each length fit beside the weights at once: a row a GPU."""
    models = list(models)
    columns = ("", "KV per token", "tokens that fit", *(f"{n:,} each" for n in lengths))
    rows = []
    for cost in models:
        tokens = cost.kv_tokens(gpu_memory_utilization)
        kib = cost.model.kv_bytes(cost.dtype) / 1024
        users = [f"{tokens // each:,}" for each in lengths]
        rows.append((cost.gpu.name, f"{kib:,.0f}\u202fKiB", f"{tokens:,}", *users))
    title = "Users who fit into the KV cache at once, by tokens each"
    first = models[0]
    share = percent(gpu_memory_utilization)
    where = f"◐ computed: {first.model.name} {first.dtype.name}, {share} of the memory claimed"
    html = cards.card(cards.head(title, where), cards.table(columns, rows))
    return cards.Html(html, f"{title}\n{cards.text_table(columns, rows)}\n{where}")


def same_beginning(
    llm: LLM, beginning: str, questions: Sequence[str], output: int
) -> tuple[list[Arrival], int]:
    """Requests A, B, C … whose prompts begin alike, and the length of A's prompt (tokens).

    With that length as token budget the first step reads A's prompt alone, so that the others find
    it in the cache.
    """
    found = []
    for index, question in enumerate(questions):
        text = f"{beginning}\n\n{question}"
        params = SamplingParams(output, ignore_eos=True)
        ids = tuple(llm.encode(text))
        found.append(Arrival(letter(index), ids, params, prompt_preview=question))
    return found, len(found[0].prompt_token_ids)


# ── an allocator of one's own ───────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Calls:
    """What a run asked of its allocator: (name, arguments, the table after it)."""

    made: list[tuple[str, tuple, list[int]]] = field(default_factory=list)


def allocator_calls(trace: Trace) -> Calls:
    """The run's allocations and frees, as calls of allocate(request, num_tokens) and free(request).

    Raises ValueError for a run that shared or cached blocks: those are more than these two calls.
    """
    size, tables, calls = trace.header.block_size, {}, Calls()
    ops = [op for step in trace.steps for op in step.raw_blocks]
    if any(op not in "af" for op, _, _ in ops):
        raise ValueError("This run shared blocks: run it with enable_prefix_caching=False.")
    for (op, req), group in groupby(ops, key=lambda each: (each[0], each[2])):
        blocks = [block for _, block, _ in group]
        name = letter(req)
        if op == "a":
            tables[req] = tables.get(req, []) + blocks
            calls.made.append(("allocate", (name, len(tables[req]) * size), list(tables[req])))
        else:
            del tables[req]
            calls.made.append(("free", (name,), []))
    return calls


def allocator_card(trace: Trace, allocator: type) -> cards.Html:
    """The engine's block tables beside those of one's own class, call by call."""
    header, calls = trace.header, allocator_calls(trace).made
    own, rows, first = allocator(header.num_blocks, header.block_size), [], ""
    asked = same = 0
    for name, args, table in calls:
        got = getattr(own, name)(*args)
        call = f"{name}({', '.join(map(repr, args))})"
        if name == "free":
            rows.append((call, "", ""))
            continue
        agrees = got is not None and list(got) == table
        asked, same = asked + 1, same + agrees
        if not agrees and not first:
            first = f"{call}: the engine has {table}, yours gives {got}"
        rows.append((call, str(table), "✓" if agrees else f"✕ {got}"))
    title = f"{same:,} of the engine’s {plural(asked, 'allocation')} give the same blocks"
    columns = ("call", "the engine’s table", "yours")
    listing = cards.table(columns, rows, left=True)
    html = cards.card(
        cards.head(title, cards.provenance(header)),
        f"<p>The first that differs: {first}.</p>" if first else "",
        f"<details><summary>Call by call</summary>{listing}</details>",
    )
    return cards.Html(html, f"{title}\n{first}" if first else title)
