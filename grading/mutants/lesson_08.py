"""Plans for exercise 8: right ones, written differently; wrong ones; and stubs."""

from __future__ import annotations


def two_passes(left, budget):
    rows = []
    for decodes in (True, False):
        for i, tokens in enumerate(left):
            if (tokens == 1) is decodes and budget > 0:
                chunk = min(tokens, budget)
                rows.append((i, chunk, chunk == tokens))
                budget -= chunk
    return rows


def token_by_token(left, budget):
    chunks = [0] * len(left)
    for i in sorted(range(len(left)), key=lambda i: left[i] > 1):  # stable
        while budget and chunks[i] < left[i]:
            chunks[i] += 1
            budget -= 1
    return tuple([i, n, n == left[i]] for i, n in enumerate(chunks) if n)


def in_order_of_arrival(left, budget):
    """Lets a long prompt before the decodes."""
    rows = []
    for i, tokens in enumerate(left):
        chunk = min(tokens, budget)
        if chunk:
            rows.append((i, chunk, chunk == tokens))
            budget -= chunk
    return rows


def prompts_first(left, budget):
    rows = []
    for i in sorted(range(len(left)), key=lambda i: left[i] == 1):
        chunk = min(left[i], budget)
        if chunk:
            rows.append((i, chunk, chunk == left[i]))
            budget -= chunk
    return rows


def prompts_whole(left, budget):
    """No chunks: a prompt that does not fit waits for ever."""
    rows = [(i, 1, True) for i, tokens in enumerate(left) if tokens == 1][:budget]
    rest = budget - len(rows)
    for i, tokens in enumerate(left):
        if 1 < tokens <= rest:
            rows.append((i, tokens, True))
            rest -= tokens
    return rows


def no_budget(left, budget):
    return [(i, tokens, True) for i, tokens in enumerate(left)]


def decodes_are_free(left, budget):
    """Counts only the prompts' tokens against the budget."""
    rows = [(i, 1, True) for i, tokens in enumerate(left) if tokens == 1]
    for i, tokens in enumerate(left):
        chunk = min(tokens, budget)
        if tokens > 1 and chunk:
            rows.append((i, chunk, chunk == tokens))
            budget -= chunk
    return rows


def one_too_many(left, budget):
    return two_passes(left, budget + 1)


def one_too_few(left, budget):
    return two_passes(left, budget - 1)


def budget_for_each(left, budget):
    return [(i, min(tokens, budget), tokens <= budget) for i, tokens in enumerate(left)]


def samples_every_chunk(left, budget):
    return [(i, tokens, True) for i, tokens, _ in two_passes(left, budget)]


def no_token_for_the_prompt(left, budget):
    """Thinks that prefill gives no token."""
    return [(i, tokens, left[i] == 1) for i, tokens, _ in two_passes(left, budget)]


def never_with_a_full_budget(left, budget):
    rows = two_passes(left, budget)
    return [(i, tokens, samples and tokens < budget) for i, tokens, samples in rows]


def one_prompt_a_step(left, budget):
    rows = two_passes(left, budget)
    prompts = [row for row in rows if left[row[0]] > 1]
    return [row for row in rows if left[row[0]] == 1] + prompts[:1]


def shortest_first(left, budget):
    rows = []
    for i in sorted(range(len(left)), key=lambda i: left[i]):
        chunk = min(left[i], budget)
        if chunk:
            rows.append((i, chunk, chunk == left[i]))
            budget -= chunk
    return rows


def equal_shares(left, budget):
    prompts = [i for i, tokens in enumerate(left) if tokens > 1]
    rows = [(i, 1, True) for i, tokens in enumerate(left) if tokens == 1][:budget]
    share = (budget - len(rows)) // max(1, len(prompts))
    rows += [(i, min(share, left[i]), share >= left[i]) for i in prompts if share]
    return rows


def decodes_or_prompts(left, budget):
    """Never both in one step."""
    rows = [(i, 1, True) for i, tokens in enumerate(left) if tokens == 1][:budget]
    return rows or two_passes(left, budget)


def rows_of_nothing(left, budget):
    planned = {i: (i, tokens, samples) for i, tokens, samples in two_passes(left, budget)}
    return [planned.get(i, (i, 0, False)) for i in range(len(left))]


def eats_its_input(left, budget):
    rows = two_passes(left, budget)
    for i, tokens, _ in rows:
        left[i] -= tokens
    return rows


def only_the_example(left, budget):
    return [(1, 1, True), (0, 3, False)]


def stub(left, budget):
    raise NotImplementedError


def lesson_stub(left, budget):
    if not left:
        return []
    tokens = min(left[0], budget)
    return [(0, tokens, tokens == left[0])]


def nothing(left, budget):
    return []


RIGHT = [{"plan_step": two_passes}, {"plan_step": token_by_token}]
WRONG = [
    {"plan_step": wrong}
    for wrong in (
        in_order_of_arrival, prompts_first, prompts_whole, no_budget, decodes_are_free,
        one_too_many, one_too_few, budget_for_each, samples_every_chunk, no_token_for_the_prompt,
        never_with_a_full_budget, one_prompt_a_step, shortest_first, equal_shares,
        decodes_or_prompts, rows_of_nothing, eats_its_input, only_the_example,
    )
]  # fmt: skip
STUBS = [{"plan_step": stub}, {"plan_step": lesson_stub}, {"plan_step": nothing}]
