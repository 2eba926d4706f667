"""From logits to tokens, for each request by its own SamplingParams.

A seeded token depends on its logits and on (seed, position) alone, position being how many tokens
the request has put out: the noise of a draw comes from a generator made for that pair. So batch
mates, preemption and a second run change nothing. (Another kind of device draws other noise.)

All is computed where the logits are; the host waits once a step, for the tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from minillm.core.request import Request
from minillm.model.devices import to_device

Logprobs = dict[int, float]  # token id → natural log probability


class Sampler:
    """Chooses one token a row. Rows without a seed draw from one generator of the sampler's own."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = torch.Generator().seed() if seed is None else seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def sample(
        self, logits: torch.Tensor, requests: Sequence[Request]
    ) -> tuple[list[int], dict[str, Logprobs]]:
        """logits [rows, vocab], one row a request → token ids, and log probabilities by id.

        In order: repetition penalty, min_tokens, temperature, min_p, top_k, top_p (as in vLLM).
        Log probabilities are the model's own, before any of these.
        """
        if all(_plain(request) for request in requests):
            return greedy(logits), {}
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
        asked = [i for i, request in enumerate(requests) if request.params.logprobs is not None]
        raw = wide[_index(asked, wide)].log_softmax(-1) if asked else None
        for row, request in zip(wide, requests, strict=True):
            penalise_repetition(row, request)
            hold_back_stop(row, request)
        best = wide.max(-1).indices
        drawn = [i for i, request in enumerate(requests) if not request.params.greedy]
        if drawn:
            rows = _index(drawn, wide)
            best[rows] = self._draw(wide[rows], [requests[i] for i in drawn])
        tokens = best.tolist()
        logprobs = {
            requests[i].request_id: top_logprobs(raw[n], tokens[i], requests[i].params.logprobs)
            for n, i in enumerate(asked)
        }
        return tokens, logprobs

    def _draw(self, logits: torch.Tensor, requests: list[Request]) -> torch.Tensor:
        """One draw a row: the largest of p / Exponential(1) is a sample of p (Gumbel's trick)."""
        probs = filtered_probs(logits, requests)
        return probs.div_(self._noise(requests, probs)).max(-1).indices

    def _noise(self, requests: list[Request], like: torch.Tensor) -> torch.Tensor:
        """Exponential(1) variates [rows, vocab]: a seeded row's from its own generator."""
        noise = torch.empty(like.shape, dtype=torch.float32, device=like.device)
        if any(request.params.seed is None for request in requests):
            noise.exponential_(generator=self._generator(like.device))
        for row, request in zip(noise, requests, strict=True):
            if request.params.seed is not None:
                position = request.num_output_tokens
                generator = seeded_generator(request.params.seed, position, like.device)
                row.exponential_(generator=generator)
        return noise.clamp_(min=torch.finfo(torch.float32).tiny)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[device]


def greedy(logits: torch.Tensor) -> list[int]:
    """The most likely token of each row. max(-1): argmax takes five times as long on bf16."""
    return logits.max(-1).indices.tolist()


def seeded_generator(seed: int, position: int, device: torch.device) -> torch.Generator:
    """A generator for one draw. The hash keeps neighbouring seeds and positions apart."""
    digest = hashlib.blake2b(b"%d %d" % (seed, position), digest_size=8).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "little") >> 1)


def penalise_repetition(row: torch.Tensor, request: Request) -> None:
    """Make tokens of prompt and output less likely, in place (Keskar et al. 2019, as in HF)."""
    penalty = request.params.repetition_penalty
    if penalty == 1.0:
        return
    seen = _index(list(set(request.token_ids)), row)
    score = row[seen]
    row[seen] = torch.where(score < 0, score * penalty, score / penalty)


def hold_back_stop(row: torch.Tensor, request: Request) -> None:
    """No stop token before min_tokens, in place."""
    if request.stop_ids and request.num_output_tokens < request.params.min_tokens:
        stop = [token for token in request.stop_ids if token < row.shape[0]]
        row[_index(stop, row)] = float("-inf")


def filtered_probs(logits: torch.Tensor, requests: Sequence[Request]) -> torch.Tensor:
    """Probabilities [rows, vocab] after temperature, min_p, top_k and top_p; at least one is > 0.

    The rest need not sum to one: what is drawn doesn't depend on the scale.
    """
    params = [request.params for request in requests]
    vocab = logits.shape[1]

    def column(values: list) -> torch.Tensor:
        return to_device(values, logits.dtype, logits.device).unsqueeze(1)

    logits = logits - logits.max(-1, keepdim=True).values  # no overflow at tiny temperatures
    probs = (logits / column([p.temperature for p in params])).softmax(-1)
    if any(p.min_p > 0 for p in params):
        floor = probs.max(-1, keepdim=True).values * column([p.min_p for p in params])
        probs.masked_fill_(probs < floor, 0.0)
    top_k = [p.top_k if 0 < p.top_k < vocab else vocab for p in params]
    if min(top_k) < vocab or any(p.top_p < 1 for p in params):
        _keep_top(probs, top_k, column([p.top_p for p in params]))
    return probs


def _keep_top(probs: torch.Tensor, top_k: list[int], top_p: torch.Tensor) -> None:
    """Zero what is outside the k largest, then outside the smallest set of mass ≥ p, in place."""
    ordered, ids = probs.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(probs.shape[1], device=probs.device)
    ordered.masked_fill_(rank >= _index(top_k, probs).unsqueeze(1), 0.0)
    before = ordered.cumsum(-1) - ordered  # mass of the tokens ahead of each
    # The first token has nothing ahead of it, so it always stays.
    ordered.masked_fill_((before >= top_p * ordered.sum(-1, keepdim=True)) & (top_p < 1), 0.0)
    probs.scatter_(-1, ids, ordered)


def top_logprobs(row: torch.Tensor, token: int, count: int) -> Logprobs:
    """The `count` most likely tokens of a row of log probabilities, and the chosen one."""
    values, ids = row.topk(min(count, row.shape[0]))
    logprobs = dict(zip(ids.tolist(), values.tolist(), strict=True))
    logprobs.setdefault(token, row[token].item())
    return logprobs


def _index(values: list[int], like: torch.Tensor) -> torch.Tensor:
    return to_device(values, torch.int64, like.device)


def _plain(request: Request) -> bool:
    """Whether a request wants the most likely token and nothing else."""
    p = request.params
    held_back = request.num_output_tokens < p.min_tokens
    return p.greedy and p.repetition_penalty == 1.0 and p.logprobs is None and not held_back
