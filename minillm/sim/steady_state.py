"""What a server does under a steady load, in closed form: no engine runs.

closed_loop: a fixed number of users, each sending the next request when the last one is answered.
open_loop: requests arrive at a rate, whatever the server does. burst: all at once, none after.

All take lengths in tokens and give seconds. One token each per step for those that run; a new
request's prefill shares a step with them and makes it longer. So a user's time per output token is
a decode step, and its share of the others' prefills: (n − 1)/output_len of them come by per step
(each of the n − 1 others starts anew once in output_len steps). Little's law (L = λ·W) gives the
number that runs at a rate, and the wait for a slot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from minillm.sim.gpu_cost_model import GPUCostModel
from minillm.sim.pipeline import Load


@dataclass(frozen=True, slots=True)
class Steady:
    """running: sequences in a step. wait_s: for a slot, before the prefill."""

    running: float
    tpot_s: float
    ttft_s: float
    wait_s: float
    output_tok_s: float


def decode_s(cost: GPUCostModel, running: float, context: float) -> float:
    """A step of `running` decoding sequences with that mean context."""
    rows = max(round(running), 1)
    return cost.seconds(Load(rows, round(rows * context), (), rows))


def prefill_s(cost: GPUCostModel, input_len: int, num_prompts: int = 1) -> float:
    """Steps of prefill alone: num_prompts prompts, chunked by the preset's token budget."""
    budget = cost.preset.max_num_batched_tokens
    at_once = max(budget // input_len, 1)
    steps, rest = divmod(num_prompts, at_once)
    seconds = 0.0
    for times, prompts in ((steps, at_once), (1, rest)):
        if times and prompts:
            seconds += times * _chunked(cost, input_len, prompts, 0.0, 0.0)
    return seconds


def _chunked(
    cost: GPUCostModel, input_len: int, prompts: int, running: float, context: float
) -> float:
    """Steps that prefill `prompts` prompts beside `running` decoding sequences."""
    size = max(cost.preset.max_num_batched_tokens, 1)
    rows, seconds, past = round(running), 0.0, 0
    while past < input_len:
        count = min(size, input_len - past)
        sampled = rows + (prompts if past + count == input_len else 0)
        chunks = [(past, count)] * prompts
        seconds += cost.seconds(Load(rows, round(rows * context), chunks, sampled))
        past += count
    return seconds


def extra_s(cost: GPUCostModel, input_len: int, running: float, context: float) -> float:
    """By how much one prompt's prefill lengthens the steps of `running` others."""
    steps = math.ceil(input_len / max(cost.preset.max_num_batched_tokens, 1))
    mixed = _chunked(cost, input_len, 1, running, context)
    return mixed - steps * decode_s(cost, running, context)


def slots(
    cost: GPUCostModel,
    input_len: int,
    output_len: float,
    *,
    gpu_memory_utilization: float = 0.9,
    max_num_seqs: int | None = None,
) -> int:
    """Sequences that can run at once: the engine's limit, or what the KV cache holds of them."""
    limit = cost.preset.max_num_seqs if max_num_seqs is None else max_num_seqs
    held = output_len if cost.preset.reserves_output else output_len / 2
    fit = int(cost.kv_tokens(gpu_memory_utilization) / (input_len + held))
    return max(min(limit, fit), 1)


def closed_loop(
    cost: GPUCostModel, users: int, input_len: int, output_len: float, **limits: float
) -> Steady:
    """`users` requests are in the server at any time. limits: those of `slots`."""
    running = min(users, slots(cost, input_len, output_len, **limits))
    tpot, first = _paces(cost, running, input_len, output_len)
    rate = running / (first + max(output_len - 1, 0) * tpot)  # requests per second
    wait = (users - running) / rate
    ttft = cost.preset.request_s + wait + first
    return Steady(running, tpot, ttft, wait, rate * output_len)


def open_loop(
    cost: GPUCostModel, rate: float, input_len: int, output_len: float, **limits: float
) -> Steady | None:
    """`rate` requests arrive per second. None: more than the server can ever answer."""
    most = slots(cost, input_len, output_len, **limits)
    if rate * _stay(cost, most, input_len, output_len) > most:
        return None
    low, high = 0.0, float(most)
    for _ in range(40):  # bisection for n = rate · (time that a request stays, with n beside it)
        middle = (low + high) / 2
        if rate * _stay(cost, middle, input_len, output_len) > middle:
            low = middle
        else:
            high = middle
    running = max(high, 1e-9)
    tpot, first = _paces(cost, running, input_len, output_len)
    # It arrives in the middle of a step, on average.
    ttft = cost.preset.request_s + first + decode_s(cost, running, input_len) / 2
    return Steady(running, tpot, ttft, 0.0, rate * output_len)


def burst(
    cost: GPUCostModel,
    prompts: int,
    input_len: int,
    output_len: float,
    max_output_len: float,
    **limits: float,
) -> float:
    """Output tokens per second when `prompts` requests come at once and the batch runs dry.

    Of the requests, (1 − t/max_output_len)^k still run after t tokens; k makes their mean length
    output_len (0: all are equally long).
    """
    most = slots(cost, input_len, output_len, **limits)
    power = max(max_output_len / output_len - 1, 0.0)
    seconds, pieces = prefill_s(cost, input_len, prompts), 32
    for i in range(pieces):
        share = (i + 0.5) / pieces
        alive = max(prompts * (1 - share) ** power, 1.0)
        length = input_len + share * max_output_len
        step = decode_s(cost, min(alive, most), length)
        seconds += max_output_len / pieces * step * max(alive / most, 1.0)
    return prompts * output_len / seconds


def first_wave_s(cost: GPUCostModel, users: int, input_len: int) -> float:
    """Mean time to first token of `users` requests that come at once to an idle server."""
    budget = cost.preset.max_num_batched_tokens
    per_step = max(budget // input_len, 1)
    steps = math.ceil(users / per_step)
    return cost.preset.request_s + prefill_s(cost, input_len, users) * (steps + 1) / (2 * steps)


def _paces(
    cost: GPUCostModel, running: float, input_len: int, output_len: float
) -> tuple[float, float]:
    """(time per output token, time of the own prefill) with `running` sequences in all."""
    context = input_len + output_len / 2
    step = decode_s(cost, running, context)
    others = max(running - 1, 0.0)
    extra = extra_s(cost, input_len, others, context)
    return step + others / max(output_len, 1) * extra, step + extra


def _stay(cost: GPUCostModel, running: float, input_len: int, output_len: float) -> float:
    tpot, first = _paces(cost, running, input_len, output_len)
    return first + max(output_len - 1, 0) * tpot
