"""The decoder as one of several workers computes it: its stage's layers, its share of each.

A column-parallel layer needs no class: it is the ordinary layer on fewer rows of W, and its
output, whole heads or whole neurons, stays where it is. The row-parallel layer after it takes
that output as its input and sums the partial products over the ranks: two sums a decoder layer
are all the talking there is. Between stages the residual stream itself is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from minillm.model.linear import Linear, make_linear
from minillm.model.llama import Layer, Llama, Rope, rms_norm
from minillm.model.ranks import Ranks
from minillm.model.shard import EMBEDDING, HEAD, NORM, Shard


class RowParallelLinear:
    """y = Σ over ranks of x_r W_rᵀ. x_r [tokens, in / ranks] → y [tokens, out], on every rank.

    Without a bias, which each rank would add again: the models here have none in these places.
    """

    def __init__(self, linear: Linear, ranks: Ranks) -> None:
        self.linear, self.ranks = linear, ranks

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.ranks.sum(self.linear(x))

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class VocabParallelEmbedding:
    """Each rank looks up the tokens that it has rows for; the sum puts them together, exactly."""

    def __init__(self, weight: torch.Tensor, first_token: int, ranks: Ranks) -> None:
        self.weight, self.first_token, self.ranks = weight, first_token, ranks

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """int64 [tokens] → [tokens, hidden], on every rank."""
        row = token_ids - self.first_token
        elsewhere = (row < 0) | (row >= self.weight.shape[0])
        x = F.embedding(row.masked_fill_(elsewhere, 0), self.weight)
        return self.ranks.sum(x.masked_fill_(elsewhere.unsqueeze(1), 0.0))


class VocabParallelHead:
    """Each rank's logits, beside one another on rank 0; those of padding rows are cut off."""

    def __init__(self, linear: Linear, vocab_size: int, ranks: Ranks) -> None:
        self.linear, self.vocab_size, self.ranks = linear, vocab_size, ranks

    def __call__(self, x: torch.Tensor) -> torch.Tensor | None:
        """[tokens, hidden] → [tokens, vocab] on rank 0, None on the others."""
        logits = self.ranks.gather(self.linear(x))
        return None if logits is None else logits[:, : self.vocab_size]


class StageLlama(Llama):
    """One worker's part of a Llama. weights: what `shard.keep` kept, under its names.

    forward() returns logits on the rank that samples (ParallelConfig.reporter) and None elsewhere.
    """

    capturable = False  # it talks with other processes

    def __init__(
        self,
        shard: Shard,
        weights: Mapping[str, torch.Tensor],
        ranks: Ranks,
        *,
        dtype: torch.dtype,
        device: torch.device,
        max_positions: int,
    ) -> None:
        def weight(name: str) -> torch.Tensor:
            return weights[name].to(device=device, dtype=dtype)

        def out_linear(weight: torch.Tensor) -> Linear:
            return RowParallelLinear(make_linear(weight), ranks)

        config = self.config = shard.local_config()
        self.shard, self.ranks, self.dtype = shard, ranks, dtype
        self.layers = [
            Layer(config, index, weight, out_linear) for index in range(config.num_layers)
        ]
        self.rope = Rope(config, max_positions, dtype, device)
        embedding = None
        if shard.is_first:
            embedding = weight(EMBEDDING)
            self.embed = VocabParallelEmbedding(embedding, shard.first_token, ranks)
        if shard.is_last:
            self.norm = weight(NORM)
            tied = config.tie_word_embeddings and embedding is not None
            linear = make_linear(embedding if tied else weight(HEAD))
            self.lm_head = VocabParallelHead(linear, config.vocab_size, ranks)

    def forward(
        self, token_ids, positions, kv_pool, backend, metadata, plan, logit_rows
    ) -> torch.Tensor | None:
        """As Llama.forward. Stages take turns: one waits here until the one before is done."""
        if self.shard.is_first:
            x = self.embed(token_ids)
        else:
            size = (len(token_ids), self.config.hidden_size)
            x = self.ranks.receive(torch.empty(size, dtype=self.dtype, device=token_ids.device))
        x = self.run_layers(x, positions, kv_pool, backend, metadata, plan)
        if not self.shard.is_last:
            self.ranks.send(x)
            return None
        if not len(logit_rows):  # nobody samples: there is nothing to gather
            return None
        return self.lm_head(rms_norm(x[logit_rows], self.norm, self.config.rms_norm_eps))
