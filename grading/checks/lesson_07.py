"""Exercise 7: an allocator of KV blocks, driven through scripts of calls, and who fits at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from grading.exercise import Call, Exercise, Finding, Property, calls, equals, run_function, show

ALLOCATOR = "BlockAllocator"
CONCURRENT = "max_concurrent"
SEED = 7
Step = tuple  # ("allocate", request, num_tokens) or ("free", request)


class BlockAllocator:
    """Blocks 0 … num_blocks − 1, handed out in the order in which they became free."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.free_blocks = list(range(num_blocks))
        self.tables: dict[str, list[int]] = {}

    def allocate(self, request: str, num_tokens: int) -> list[int] | None:
        """The request's blocks for so many tokens in all; None, no change: too few are free."""
        table = self.tables.get(request, [])
        more = max(-(-num_tokens // self.block_size) - len(table), 0)
        if more > len(self.free_blocks):
            return None
        self.tables[request] = table + self.free_blocks[:more]
        del self.free_blocks[:more]
        return list(self.tables[request])

    def free(self, request: str) -> None:
        """All of its blocks go back, the last one first; nothing for whoever holds none."""
        self.free_blocks += reversed(self.tables.pop(request, []))


def max_concurrent(lengths: Sequence[int], num_blocks: int, block_size: int) -> int:
    """How many fit at once, first come, first served: whoever does not fit stops the queue."""
    for count, length in enumerate(lengths):
        num_blocks -= -(-length // block_size)
        if num_blocks < 0:
            return count
    return len(lengths)


def play(allocator: type, num_blocks: int, block_size: int, script: Sequence[Step]) -> list[object]:
    """Make an allocator, call it as the script says, and give its answers in order."""
    one = allocator(num_blocks, block_size)
    return [_copied(getattr(one, name)(*args)) for name, *args in script]


def _copied(answer: object) -> object:
    """The answer as it was at that moment: a table may grow later."""
    return list(answer) if isinstance(answer, list | tuple) else answer


def run(objects: Mapping[str, object], args: dict) -> object:
    """A script's answers, or one call of the function; plain data."""
    if "script" not in args:
        return run_function(objects, args)
    return play(objects[ALLOCATOR], args["num_blocks"], args["block_size"], args["script"])


# ── what must hold of a script's answers ────────────────────────────────────────────────────


def right(args: dict) -> list[object]:
    """The answers of a right one."""
    return play(BlockAllocator, args["num_blocks"], args["block_size"], args["script"])


def said(step: Step, answer: object) -> str:
    """allocate('A', 5) gives [0, 1]"""
    name, *args = step
    return f"{name}({', '.join(map(repr, args))}) gives {show(answer)}"


def is_table(answer: object) -> bool:
    return isinstance(answer, list) and all(type(block) is int for block in answer)


def counts(args: dict, answers: list[object]) -> Finding:
    """As many blocks as the tokens need, and None exactly where there are too few."""
    for step, expected, got in zip(args["script"], right(args), answers, strict=True):
        if step[0] == "free":
            continue
        if (expected is None) != (got is None):
            return said(step, expected), said(step, got)
        if expected is not None and (not is_table(got) or len(got) != len(expected)):
            return said(step, expected), said(step, got)
    return None


def exactly(args: dict, answers: list[object]) -> Finding:
    """The very blocks, too."""
    for step, expected, got in zip(args["script"], right(args), answers, strict=True):
        if step[0] == "allocate" and got != expected:
            return said(step, expected), said(step, got)
    return None


def one_owner(args: dict, answers: list[object]) -> Finding:
    """No block is in two tables, or twice in one; all are blocks of the pool."""
    owners: dict[int, str] = {}
    for step, got in zip(args["script"], answers, strict=True):
        name, request = step[:2]
        if name == "free":
            owners = {block: owner for block, owner in owners.items() if owner != request}
            continue
        if got is None:
            continue
        if not is_table(got):
            return "a list of block numbers, or None", said(step, got)
        if not set(got) <= set(range(args["num_blocks"])):
            return f"blocks 0 to {args['num_blocks'] - 1}", said(step, got)
        if len(set(got)) < len(got):
            return "each block once in a table", said(step, got)
        for block in got:
            if owners.setdefault(block, request) != request:
                owner = owners[block]
                return f"a block that nobody holds for {request}", f"block {block}, {owner}’s"
    return counts(args, answers)


def keeps_its_blocks(args: dict, answers: list[object]) -> Finding:
    """A table only grows at its end."""
    tables: dict[str, list[int]] = {}
    for step, got in zip(args["script"], answers, strict=True):
        name, request = step[:2]
        if name == "free":
            tables.pop(request, None)
        elif is_table(got):
            before = tables.get(request, [])
            if got[: len(before)] != before:
                return f"a table that begins with {before}", said(step, got)
            tables[request] = got
    return counts(args, answers)


def random_scripts(seed: int, count: int, most: int) -> list[tuple[int, int, list[Step]]]:
    """Requests that come, grow, leave and come again, in pools that are often full."""
    chance = random.Random(seed)
    drawn = []
    for _ in range(count):
        size, script, tokens = chance.choice([1, 2, 4, 16]), [], {}
        for _ in range(chance.randint(3, most)):
            request = chance.choice("ABCDEF")
            if request in tokens and chance.random() < 0.35:
                script.append(("free", request))
                del tokens[request]
            else:
                tokens[request] = tokens.get(request, 0) + chance.randint(0, 3 * size)
                script.append(("allocate", request, tokens[request]))
        drawn.append((chance.randint(2, 12), size, script))
    return drawn


def random_queues(seed: int, count: int, longest: int) -> list[tuple[list[int], int, int]]:
    chance = random.Random(seed)
    return [
        (
            [chance.randint(1, 64) for _ in range(chance.randint(1, longest))],
            chance.randint(1, 40), chance.choice([1, 4, 16]),
        )
        for _ in range(count)
    ]  # fmt: skip


# ── the exercise ────────────────────────────────────────────────────────────────────────────


def script_property(
    name: str, points: float, hint: str, scripts: Sequence[tuple[int, int, Sequence[Step]]],
    judge: Callable[[dict, list], Finding],
) -> Property:  # fmt: skip
    made = tuple(
        Call(
            f"play({{{ALLOCATOR}}}, {blocks}, {size}, {[tuple(step) for step in script]})",
            {"num_blocks": blocks, "block_size": size, "script": [list(step) for step in script]},
        )
        for blocks, size, script in scripts
    )
    return Property(name, points, hint, made, judge, (ALLOCATOR,))


def a(request: str, num_tokens: int) -> Step:
    return ("allocate", request, num_tokens)


def f(request: str) -> Step:
    return ("free", request)


EXERCISE = Exercise(
    "lesson_07",
    run,
    (
        script_property(
            "as many blocks as the tokens need, in order", 2,
            "How many blocks of 4 tokens do 4 tokens need, and how many do 5?",
            [(1, 1, [a("A", 1)]), (2, 4, [a("A", 1)]), (2, 4, [a("A", 4)]), (2, 4, [a("A", 5)]),
             (3, 4, [a("A", 4), a("B", 8)]), (9, 16, [a("A", 100)])],
            exactly,
        ),
        script_property(
            "no block has two owners", 2,
            "Where is a block noted as taken, and is that done for each one handed out?",
            [(2, 4, [a("A", 4), a("B", 4)]), (3, 4, [a("A", 4), a("B", 4), a("A", 8)]),
             (2, 4, [a("A", 8), f("A"), a("B", 4), a("C", 4)]),
             (3, 1, [a("A", 2), f("A"), f("A"), a("B", 1), a("C", 1), a("D", 1)])],
            one_owner,
        ),
        script_property(
            "all or nothing: None when too few are free, and nothing is changed", 2,
            "What has the pool lost when a request could not be served in full?",
            [(1, 4, [a("A", 4), a("B", 1)]), (2, 4, [a("A", 12), a("B", 8)]),
             (3, 4, [a("A", 4), a("B", 12), a("C", 8)]),
             (3, 4, [a("A", 4), a("B", 4), a("A", 12), a("A", 8), a("B", 8)])],
            counts,
        ),
        script_property(
            "a request that grows keeps its blocks", 1,
            "How many blocks does it hold already, and how many more does it need?",
            [(2, 4, [a("A", 4), a("A", 5)]), (3, 4, [a("A", 3), a("A", 4), a("A", 5)]),
             (4, 4, [a("A", 4), a("B", 4), a("A", 8)]), (2, 4, [a("A", 8), a("A", 4)])],
            keeps_its_blocks,
        ),
        script_property(
            "what is freed can be had again, all of it and once", 2,
            "After all have left, how many blocks must be free?",
            [(1, 4, [a("A", 4), f("A"), a("B", 4)]), (3, 4, [a("A", 12), f("A"), a("B", 12)]),
             (2, 4, [a("A", 4), f("B"), a("B", 4), f("A"), f("B"), a("C", 8), a("D", 1)]),
             (4, 2, [a("A", 4), a("B", 4), f("A"), a("C", 3), f("B"), f("C"), a("A", 8)])],
            counts,
        ),
        script_property(
            "freed blocks go to the end of the list, the last one first", 1,
            "Which of the free blocks has been free for longest?",
            [(3, 1, [a("A", 2), f("A"), a("B", 3)]),
             (4, 1, [a("A", 1), a("B", 2), f("A"), f("B"), a("C", 4)])],
            exactly,
        ),
        script_property(
            "any script", 1, "Which of the properties above breaks in a longer script?",
            random_scripts(SEED, 40, 14), exactly,
        ),
        Property(
            "whole blocks, and a pool that is just full", 2,
            "How much of its last block does a request of 17 tokens use?",
            calls(CONCURRENT, [([1], 1, 16), ([17], 1, 16), ([17], 2, 16), ([16, 16], 2, 16),
                               ([16, 17], 2, 16), ([1, 1, 1], 2, 16), ([8], 8, 1)]),
            equals(max_concurrent), (CONCURRENT,),
        ),
        Property(
            "first come, first served: nobody overtakes", 2,
            "The second does not fit and the third would. Who has waited longer?",
            calls(CONCURRENT, [([], 4, 16), ([16, 64, 16], 2, 16), ([64, 1, 1], 3, 16),
                               ([5, 3, 9, 1], 5, 4), *random_queues(SEED, 30, 12)]),
            equals(max_concurrent), (CONCURRENT,),
        ),
    ),
)  # fmt: skip
