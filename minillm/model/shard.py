"""Which part of a model one of several workers holds: its stage's layers, its share of each layer.

Tensor parallelism (Shoeybi et al. 2019, Megatron-LM) splits every layer by heads and by the
width of the MLP; embedding and output layer by vocabulary. Pipeline parallelism (Huang et al.
2019, GPipe) gives each stage a run of consecutive layers. Rank = stage · tensor size + tensor rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from minillm.model.config import ModelConfig

if TYPE_CHECKING:
    import torch

EMBEDDING, NORM, HEAD = "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"
# Column-parallel: the rows of W [out, in] are shared out, so each rank has whole heads or neurons.
BY_ROWS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
# Row-parallel: the columns are, so each rank's product is a part of a sum.
BY_COLUMNS = ("o_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """Over how many workers a model is split; their number is the product."""

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1

    def __post_init__(self) -> None:
        for name in ("tensor_parallel_size", "pipeline_parallel_size"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} must be an integer ≥ 1, got {size!r}.")

    @property
    def num_workers(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def reporter(self) -> int:
        """The rank that samples and answers: tensor rank 0 of the last stage."""
        return self.num_workers - self.tensor_parallel_size

    def check(self, config: ModelConfig) -> None:
        """Raise ValueError, with the sizes that would do, if the model can't be split so."""
        c = config
        if not splits(self.tensor_parallel_size, c.num_heads, c.num_kv_heads, c.intermediate_size):
            valid = valid_sizes(c.num_heads, c.num_kv_heads, c.intermediate_size)
            raise ValueError(
                f"{c.name} can't be split over tensor_parallel_size = "
                f"{self.tensor_parallel_size}: that has to divide its {c.num_heads} heads, its "
                f"{c.num_kv_heads} KV heads and its MLP's width of {c.intermediate_size:,}; "
                f"valid sizes: {valid}."
            )
        if not splits(self.pipeline_parallel_size, c.num_layers):
            raise ValueError(
                f"{c.name} can't be split over pipeline_parallel_size = "
                f"{self.pipeline_parallel_size}: that has to divide its {c.num_layers} layers; "
                f"valid sizes: {valid_sizes(c.num_layers)}."
            )


def splits(parts: int, *counts: int) -> bool:
    """Whether each count can be shared out evenly."""
    return not any(count % parts for count in counts)


def valid_sizes(*counts: int) -> str:
    """All sizes that divide each count, as text: "1, 3"."""
    return ", ".join(str(n) for n in range(1, min(counts) + 1) if splits(n, *counts))


@dataclass(frozen=True, slots=True)
class Shard:
    """What the worker of that rank holds of a model. config: the whole model's."""

    config: ModelConfig
    parallel: ParallelConfig
    rank: int

    @property
    def stage(self) -> int:
        return self.rank // self.parallel.tensor_parallel_size

    @property
    def tensor_rank(self) -> int:
        return self.rank % self.parallel.tensor_parallel_size

    @property
    def is_first(self) -> bool:
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        return self.stage == self.parallel.pipeline_parallel_size - 1

    @property
    def layers(self) -> range:
        """The stage's layers, by their numbers in the whole model."""
        count = self.config.num_layers // self.parallel.pipeline_parallel_size
        return range(self.stage * count, (self.stage + 1) * count)

    @property
    def vocab_rows(self) -> int:
        """Rows of embedding and output layer on each rank; the last ranks' may be padding."""
        return -(-self.config.vocab_size // self.parallel.tensor_parallel_size)

    @property
    def first_token(self) -> int:
        """The token id of this rank's first row."""
        return self.tensor_rank * self.vocab_rows

    def local_config(self) -> ModelConfig:
        """The part as a model of its own: fewer layers and heads, a narrower MLP."""
        c, parts = self.config, self.parallel.tensor_parallel_size
        return replace(
            c, num_layers=len(self.layers), num_heads=c.num_heads // parts,
            num_kv_heads=c.num_kv_heads // parts, intermediate_size=c.intermediate_size // parts,
        )  # fmt: skip

    def keep(self, name: str, tensor: torch.Tensor) -> dict[str, torch.Tensor]:
        """This worker's part of a weight, copied so that the whole can be let go.

        Under its name in the local model, where layers count from 0; empty if it has no part.
        """
        if name == EMBEDDING:
            head = {HEAD} if self.is_last and self.config.tie_word_embeddings else set()
            names = head | ({EMBEDDING} if self.is_first else set())
            part = self._vocabulary(tensor) if names else None
            return dict.fromkeys(names, part)
        if name in (NORM, HEAD):
            if not self.is_last:
                return {}
            return {name: tensor.clone() if name == NORM else self._vocabulary(tensor)}
        _, _, index, rest = name.split(".", 3)  # model.layers.7.self_attn.q_proj.weight
        if int(index) not in self.layers:
            return {}
        local = f"model.layers.{int(index) - self.layers.start}.{rest}"
        return {local: self._share(rest.split(".")[-2], tensor)}

    def _share(self, layer: str, tensor: torch.Tensor) -> torch.Tensor:
        if layer in BY_ROWS:
            parts = tensor.chunk(self.parallel.tensor_parallel_size, dim=0)
        elif layer in BY_COLUMNS:
            parts = tensor.chunk(self.parallel.tensor_parallel_size, dim=1)
        else:
            return tensor.clone()  # norms are everybody's
        part = parts[self.tensor_rank]
        return part.new_empty(part.shape).copy_(part)

    def _vocabulary(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rows of [vocab, hidden]; rows beyond the vocabulary are zero."""
        part = tensor[self.first_token : self.first_token + self.vocab_rows]
        share = tensor.new_zeros(self.vocab_rows, tensor.shape[1])
        share[: part.shape[0]] = part
        return share
