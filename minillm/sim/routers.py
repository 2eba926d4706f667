"""Routers: which replica gets the next request. They see loads and prompts, never an engine.

A `Load` is what a router knows of a replica: what it has itself sent there and not yet got back.
With stale load information it is an old copy. A replica that is down is not in the list.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minillm.core.block_pool import chain_hash, pack, root_hash

MATCH_SHARE = 0.3  # prefix_aware: a shorter match is not worth following
CHUNK_TOKENS = 64  # prefixes are told apart in steps of that many tokens


class Load(NamedTuple):
    """A replica as the router sees it.

    connections: requests sent and not finished. prefill_tokens: prompt tokens of those that have
    given no token yet. kv_tokens: prompt and output tokens of all of them so far.
    """

    index: int
    connections: int
    prefill_tokens: int
    kv_tokens: int


class Router(ABC):
    """Chooses among the replicas that are up. weights: one per replica, 1 by default."""

    name = ""

    def __init__(
        self,
        num_replicas: int,
        *,
        weights: Sequence[float] | None = None,
        seed: int = 0,
        capacity_tokens: Sequence[int] | None = None,
    ) -> None:
        """capacity_tokens: KV tokens of each replica, for routers that remember prompts."""
        if num_replicas < 1:
            raise ValueError(f"A router needs at least 1 replica, got {num_replicas}.")
        weights = [1.0] * num_replicas if weights is None else list(weights)
        if len(weights) != num_replicas or not all(weight > 0 for weight in weights):
            raise ValueError(f"{num_replicas} replicas need as many weights > 0, got {weights}.")
        self.weights = weights
        self.rng = random.Random(f"{seed}/router")
        self.capacity_tokens = capacity_tokens or [1 << 62] * num_replicas

    @abstractmethod
    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        """The index of the replica to send the prompt to. `loads` is not empty."""

    def forget(self, index: int) -> None:  # noqa: B027 (most routers remember nothing)
        """That replica has lost its caches."""


class SmoothRoundRobin:
    """nginx's smooth weighted round robin: each turn all gain their weight, the richest is chosen
    and pays the sum. Weights 5, 1, 1 give a a b a c a a (nginx, ngx_http_upstream_round_robin)."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = weights
        self.current = [0.0] * len(weights)

    def choose(self, indices: Sequence[int]) -> int:
        total = 0.0
        best = indices[0]
        for i in indices:
            self.current[i] += self.weights[i]
            total += self.weights[i]
            if self.current[i] > self.current[best]:
                best = i
        self.current[best] -= total
        return best


class RoundRobin(Router):
    """In turn, by weight; blind to load."""

    name = "round_robin"

    def __init__(self, num_replicas: int, **options: object) -> None:
        super().__init__(num_replicas, **options)
        self._turn = SmoothRoundRobin(self.weights)

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        return self._turn.choose([load.index for load in loads])


class RandomChoice(Router):
    """Anyone, with a probability proportional to its weight."""

    name = "random"

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        indices = [load.index for load in loads]
        return self.rng.choices(indices, [self.weights[i] for i in indices])[0]


class LeastConn(Router):
    """nginx's least_conn: fewest connections per weight, ties by smooth weighted round robin.

    It counts only its own requests in flight, and knows nothing of their lengths.
    """

    name = "least_conn"

    def __init__(self, num_replicas: int, **options: object) -> None:
        super().__init__(num_replicas, **options)
        self._turn = SmoothRoundRobin(self.weights)

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        return self._turn.choose(lowest(loads, lambda x: x.connections / self.weights[x.index]))


class PowerOfTwo(Router):
    """Two at random, the one with fewer connections (Mitzenmacher, IEEE TPDS 2001)."""

    name = "power_of_two"

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        if len(loads) == 1:
            return loads[0].index
        a, b = self.rng.sample(loads, 2)
        less = b.connections / self.weights[b.index] < a.connections / self.weights[a.index]
        return b.index if less else a.index


class LeastTokens(Router):
    """Fewest prompt tokens still to be read (of requests without a token yet), then connections.

    A router that knows prompt lengths can count that; output lengths nobody knows beforehand.
    """

    name = "least_tokens"

    def __init__(self, num_replicas: int, **options: object) -> None:
        super().__init__(num_replicas, **options)
        self._turn = SmoothRoundRobin(self.weights)

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        def cost(load: Load) -> tuple[float, float]:
            weight = self.weights[load.index]
            return load.prefill_tokens / weight, load.connections / weight

        return self._turn.choose(lowest(loads, cost))


def lowest(loads: Sequence[Load], cost: Callable[[Load], float | tuple]) -> list[int]:
    """The indices of all that cost least."""
    costs = [cost(load) for load in loads]
    least = min(costs)
    return [load.index for load, value in zip(loads, costs, strict=True) if value == least]


class PrefixIndex:
    """Which prompts a replica has been sent lately: what its prefix cache probably holds.

    The router's own memory, as in SGLang's router: hashes of 64-token prefixes, the least recently
    used forgotten when the replica's KV capacity is exceeded. The engine's cache decides.
    """

    def __init__(self, capacity_tokens: int) -> None:
        self.capacity = max(capacity_tokens // CHUNK_TOKENS, 1)
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def match(self, hashes: Sequence[bytes]) -> int:
        """Tokens of the longest known prefix."""
        for i, prefix in enumerate(hashes):
            if prefix not in self._seen:
                return i * CHUNK_TOKENS
        return len(hashes) * CHUNK_TOKENS

    def add(self, hashes: Sequence[bytes]) -> None:
        for prefix in reversed(hashes):  # the beginning is used last, so it is forgotten last
            self._seen[prefix] = None
            self._seen.move_to_end(prefix)
        while len(self._seen) > self.capacity:
            self._seen.popitem(last=False)


def prefix_hashes(prompt: Sequence[int]) -> list[bytes]:
    """Each hash stands for a chunk and all before it, as the engine's block hashes do."""
    parent, hashes = root_hash(None), []
    for start in range(0, len(prompt) - CHUNK_TOKENS + 1, CHUNK_TOKENS):
        parent = chain_hash(parent, pack(prompt[start : start + CHUNK_TOKENS]))
        hashes.append(parent)
    return hashes


class PrefixRouter(Router):
    """What prefix_aware and prefix_load share: an index of prefixes for each replica."""

    def __init__(self, num_replicas: int, **options: object) -> None:
        super().__init__(num_replicas, **options)
        self._known = [PrefixIndex(tokens) for tokens in self.capacity_tokens]
        self._turn = SmoothRoundRobin(self.weights)

    def choose(self, prompt: Sequence[int], loads: Sequence[Load]) -> int:
        hashes = prefix_hashes(prompt)
        matches = {load.index: self._known[load.index].match(hashes) for load in loads}
        index = self.pick(len(prompt), matches, loads)
        self._known[index].add(hashes)
        return index

    @abstractmethod
    def pick(self, length: int, matches: dict[int, int], loads: Sequence[Load]) -> int:
        """The replica for a prompt of `length` tokens; matches: known tokens by replica."""

    def forget(self, index: int) -> None:
        self._known[index] = PrefixIndex(self.capacity_tokens[index])


class PrefixAware(PrefixRouter):
    """The longest known prefix, if it is over 30 % of the prompt and the load is balanced.

    Imbalanced (busiest − idlest > 32 connections, and more than 1.5 times): fewest connections;
    so too without a match worth following. Rule and defaults resemble SGLang's cache-aware router.
    """

    name = "prefix_aware"
    imbalance_abs, imbalance_rel = 32, 1.5

    def pick(self, length: int, matches: dict[int, int], loads: Sequence[Load]) -> int:
        counts = [load.connections for load in loads]
        high, low = max(counts), min(counts)
        balanced = high - low <= self.imbalance_abs or high <= self.imbalance_rel * low
        best = max(matches.values())
        if balanced and best > MATCH_SHARE * length:
            loads = [load for load in loads if matches[load.index] == best]
        return self._turn.choose(lowest(loads, lambda x: x.connections / self.weights[x.index]))


class PrefixLoad(PrefixRouter):
    """Least work: prompt tokens to compute here (not cached), and those queued here before.

    Tokens being decoded count a little besides (KV_WEIGHT): they slow each step down. The form is
    that of NVIDIA Dynamo's KV router: uncached prefill + load.
    """

    name = "prefix_load"
    KV_WEIGHT = 0.05

    def pick(self, length: int, matches: dict[int, int], loads: Sequence[Load]) -> int:
        def cost(load: Load) -> float:
            work = length - matches[load.index] + load.prefill_tokens
            return (work + self.KV_WEIGHT * load.kv_tokens) / self.weights[load.index]

        return self._turn.choose(lowest(loads, cost))


ROUTERS: dict[str, type[Router]] = {
    cls.name: cls
    for cls in (
        RoundRobin, RandomChoice, LeastConn, PowerOfTwo, LeastTokens, PrefixAware, PrefixLoad,
    )
}  # fmt: skip


def make_router(name: str, num_replicas: int, **options: object) -> Router:
    """The router of that name; ValueError names the valid ones."""
    if name not in ROUTERS:
        raise ValueError(f"Unknown router {name!r}: choose one of {', '.join(ROUTERS)}.")
    return ROUTERS[name](num_replicas, **options)
