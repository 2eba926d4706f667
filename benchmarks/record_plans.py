"""What `python -m benchmarks.record` records: which run shows what, under which settings.

Every run of one group serves the same requests, so that two of them can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from minillm.bench.workload import mixed_workload, poisson_arrivals, read_prompts
from minillm.core import Arrival, SamplingParams
from minillm.core.trace import letter

if TYPE_CHECKING:
    from minillm.llm import LLM

SEED = 11
MAX_WAIT_S = 1.0  # static batching, while serving, does not wait longer for a full batch
A100, H100 = "A100-80GB-SXM", "H100-80GB-SXM"
CHAT = {"max_num_seqs": 8, "num_blocks": 160}
LONG_PROMPT = {"max_num_seqs": 6, "num_blocks": 192, "enable_prefix_caching": False}


@dataclass(frozen=True)
class Plan:
    """One run. settings: as LLM.new_engine takes them. gpu: simulated on it; "": measured here.

    shows: events or block operations without which the recording has missed its point.
    """

    name: str
    title: str
    description: str
    policy: str
    requests: Callable[[LLM], list[Arrival]]
    settings: dict = field(default_factory=dict)
    gpu: str = ""
    shows: Sequence[str] = ()


def four_uneven(llm: LLM) -> list[Arrival]:
    """Four requests at once, for 100, 50, 150 and 30 tokens."""
    texts = read_prompts()[16:48:8]
    lengths = (100, 50, 150, 30)
    return [_ask(llm, i, text, n) for i, (text, n) in enumerate(zip(texts, lengths, strict=True))]


def chats(llm: LLM, rate: float = 5.0) -> list[Arrival]:
    """24 chat requests that come at random, with lognormal output lengths."""

    def encode(text: str) -> list[int]:
        return llm.encode(text, chat=True)

    found = mixed_workload(encode, 24, SEED, rate)
    return [replace(each, request_id=letter(i)) for i, each in enumerate(found)]


def more_than_fits(llm: LLM) -> list[Arrival]:
    """Six requests whose answers outgrow the KV pool together."""
    texts = read_prompts()[40:52:2]
    return [_ask(llm, i, text, 96, 0.15 * i) for i, text in enumerate(texts)]


def long_prompt_between(llm: LLM) -> list[Arrival]:
    """Four chats that run, and a prompt of some 1,500 tokens that comes between."""
    texts = read_prompts()
    found = [_ask(llm, i, text, 80) for i, text in enumerate(texts[20:36:4])]
    long = "Summarise these questions in one sentence. " + " ".join(texts)
    ids = llm.encode(long)[:1500]
    return [*found, _ask(llm, len(found), long, 24, 0.6, ids)]


def one_beginning(llm: LLM) -> list[Arrival]:
    """Twelve questions behind the same instructions of some 240 tokens."""
    texts = read_prompts()
    rules = "Answer in the manner of these examples.\n" + "\n".join(texts[50:])
    start = llm.encode(rules)[:240]
    found = []
    for i, when in enumerate(poisson_arrivals(12, 2.0, SEED)):
        text = texts[3 * i]
        ids = [*start, *llm.encode("\n" + text)]
        found.append(_ask(llm, i, text, 32, when, ids))
    return found


def _ask(
    llm: LLM, index: int, text: str, output: int, when: float = 0.0, ids: Sequence[int] = ()
) -> Arrival:
    """A request that runs to its length (EOS is ignored); ids: instead of the text's own."""
    ids = tuple(ids or llm.encode(text, chat=True))
    params = SamplingParams(max_tokens=output, ignore_eos=True)
    return Arrival(letter(index), ids, params, when, prompt_preview=text)


FOUR = "Four requests for 100, 50, 150 and 30 tokens, all at once, in four slots."
CHATS = "24 chat requests come at random, five a second; eight slots."
BUSY = "24 chat requests come at random, forty a second; eight slots."

MEASURED = (
    Plan(
        "four-static", "Static batching, four uneven requests",
        f"{FOUR} The batch lasts until its longest request ends: the others' rows are padding.",
        "static", four_uneven, {"max_num_seqs": 4, "num_blocks": 64, "max_wait_s": MAX_WAIT_S},
    ),
    Plan(
        "four-continuous", "Continuous batching, four uneven requests",
        f"{FOUR} Whoever is done leaves at once.",
        "continuous", four_uneven, {"max_num_seqs": 4, "num_blocks": 64},
    ),
    Plan(
        "chat-static", "Static batching, 24 chats",
        f"{CHATS} A batch starts when it is full, or after {MAX_WAIT_S:g} s.",
        "static", chats, {**CHAT, "max_wait_s": MAX_WAIT_S},
    ),
    Plan(
        "chat-dynamic", "Dynamic batching, 24 chats",
        f"{CHATS} A batch takes whoever waits when the one before has ended.",
        "dynamic", chats, CHAT,
    ),
    Plan(
        "chat-continuous", "Continuous batching, 24 chats",
        f"{CHATS} Each step takes in whoever fits.",
        "continuous", chats, CHAT,
    ),
    Plan(
        "memory-short", "Too little KV memory: a preemption",
        "Six answers outgrow a pool of 40 blocks: the youngest request gives its blocks back and "
        "starts over later.",
        "continuous", more_than_fits, {"max_num_seqs": 6, "num_blocks": 40}, shows=("preempt",),
    ),
    Plan(
        "long-prompt-whole", "A long prompt, read whole",
        "Four answers are under way when a prompt of 1,500 tokens comes: they all wait while it "
        "is read in one step.",
        "continuous", long_prompt_between, {**LONG_PROMPT, "enable_chunked_prefill": False},
    ),
    Plan(
        "long-prompt-chunked", "A long prompt, read in chunks",
        "The same prompt in chunks of at most 128 tokens a step: the four answers go on.",
        "continuous", long_prompt_between, {**LONG_PROMPT, "max_num_batched_tokens": 128},
    ),
    Plan(
        "prefix-hits", "One beginning, twelve questions: prefix cache hits",
        "All prompts begin with the same 240 tokens: the first request computes them, the others "
        "find their blocks.",
        "continuous", one_beginning, {"max_num_seqs": 4, "num_blocks": 64}, shows=("s",),
    ),
)  # fmt: skip

SIMULATED = (
    Plan(
        "a100-static", "Static batching on an A100, 24 chats",
        f"{BUSY} Llama-3.1-8B on a simulated A100.",
        "static", lambda llm: chats(llm, 40.0), {**CHAT, "max_wait_s": MAX_WAIT_S}, A100,
    ),
    Plan(
        "a100-continuous", "Continuous batching on an A100, 24 chats",
        f"{BUSY} Llama-3.1-8B on a simulated A100.",
        "continuous", lambda llm: chats(llm, 40.0), CHAT, A100,
    ),
    Plan(
        "h100-continuous", "Continuous batching on an H100, 24 chats",
        f"{BUSY} Llama-3.1-8B on a simulated H100.",
        "continuous", lambda llm: chats(llm, 40.0), CHAT, H100,
    ),
)  # fmt: skip
PLANS = (*MEASURED, *SIMULATED)
