"""Times of single engine steps: the prefill of some prompts, and one more token for each of them.

    run = run_steps(llm, batch=4, prompt=64)
    seconds_of(run.prefill), seconds_of(run.decode)

Real steps of a loaded LLM's engine, or simulated ones of LLM.simulated: as the trace records them.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from minillm.core import Arrival, SamplingParams, drive
from minillm.core.trace import StepRecord
from minillm.llm import LLM
from minillm.sim.pipeline import Load


class Steps(NamedTuple):
    """The step that read the prompts, and the median one of those that gave a token to each."""

    prefill: StepRecord
    decode: StepRecord


def run_steps(
    llm: LLM,
    batch: int,
    prompt: int,
    outputs: int = 7,
    *,
    max_num_batched_tokens: int | None = None,
) -> Steps:
    """Serve `batch` prompts of `prompt` tokens at once, `outputs` tokens each (at least 2).

    max_num_batched_tokens: None reads all prompts in one step. Raises ValueError for sizes that do
    not fit, and the engine's error.
    """
    for name, value, least in (("batch", batch, 1), ("prompt", prompt, 1), ("outputs", outputs, 2)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer ≥ {least}, got {value!r}.")
    cache, each = llm.config.cache, prompt + outputs
    blocks = batch * -(-each // cache.block_size)
    if each > llm.config.max_len or blocks > cache.num_blocks:
        raise ValueError(
            f"{batch} × ({prompt} + {outputs}) tokens do not fit at once: a sequence has at most "
            f"{llm.config.max_len}, the KV cache {cache.num_blocks} blocks of {cache.block_size}."
        )
    budget = max_num_batched_tokens or batch * prompt
    engine = llm.new_engine(
        "continuous", max_num_seqs=batch, max_num_batched_tokens=budget,
        enable_prefix_caching=False,
    )  # fmt: skip
    vocab = llm.config.vocab_size
    params = SamplingParams(max_tokens=outputs, ignore_eos=True)
    arrivals = [
        Arrival(f"step-{i}", tuple((7 * i + 13 * j) % vocab for j in range(prompt)), params)
        for i in range(batch)
    ]
    for _ in drive(engine, arrivals, time.sleep):
        pass
    if engine.last_error is not None:
        raise engine.last_error
    steps = engine.trace.steps
    decodes = sorted((s for s in steps[1:] if not load_of_step(s).chunks), key=seconds_of)
    return Steps(steps[0], decodes[len(decodes) // 2])


def load_of_step(step: StepRecord) -> Load:
    """What a recorded step computed."""
    singles = context = sampled = 0
    chunks: list[tuple[int, int]] = []
    for row in step.rows:
        count = row.n_tokens + row.n_padding
        sampled += row.token_id is not None
        if count == 1:
            singles += 1
            context += row.start + 1
        else:
            chunks.append((row.start, count))
    return Load(singles, context, chunks, sampled)


def seconds_of(step: StepRecord) -> float:
    """How long a step took."""
    return step.t_end - step.t_start
