"""The decoder: Llama, SmolLM2, Mistral, Qwen2 and Qwen3 over packed tokens.

A step's tokens lie one behind another, those of all its rows, without a batch dimension: every
linear layer sees one matrix [tokens, hidden]. Only attention has to know which token belongs to
which sequence, and it is told by the metadata.

RMSNorm: Zhang and Sennrich 2019. RoPE: Su et al. 2021, in the half-split form of HF checkpoints.
GQA: Ainslie et al. 2023. SwiGLU: Shazeer 2020.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from minillm.model.attention import AttentionBackend, AttentionMetadata
from minillm.model.config import ModelConfig, llama3_factors
from minillm.model.linear import make_gated, make_linear

FEW_ROWS = 128  # up to here torch's own rms_norm is faster on a CPU


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) · weight over the last dimension; the mean is at least float32."""
    if x.device.type != "cpu" or x.numel() <= FEW_ROWS * x.shape[-1]:
        return F.rms_norm(x, weight.shape, weight, eps)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return (wide * scale).to(x.dtype).mul_(weight)


class Rope:
    """Rotary position embedding: tables of cos and sin [positions, head_dim / 2]."""

    def __init__(
        self, config: ModelConfig, positions: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        frequency = config.rope_theta**-half
        scaling = config.rope_scaling
        if scaling is not None and scaling.type == "linear":
            frequency /= scaling.factor
        elif scaling is not None:
            factors = llama3_factors(scaling, config.rope_theta, config.head_dim)
            frequency /= torch.tensor(factors, dtype=torch.float64)
        angle = torch.arange(positions, dtype=torch.float64).outer(frequency)
        self.cos = angle.cos().to(device=device, dtype=dtype)
        self.sin = angle.sin().to(device=device, dtype=dtype)

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For positions [tokens]: (cos, cos) and (−sin, sin), each [tokens, 1, head_dim].

        Looked up once a step and used by all layers.
        """
        cos, sin = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)

    @staticmethod
    def rotate_(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """In place, x [tokens, heads, head_dim]: (a, b) → (a·cos − b·sin, b·cos + a·sin).

        a and b are the halves; cos and sin come from `at`.
        """
        a, b = x.chunk(2, dim=-1)
        swapped = torch.cat((b, a), dim=-1)
        return x.mul_(cos).addcmul_(swapped, sin)


class Layer:
    """One decoder layer: attention and a gated MLP, each added to the residual stream.

    q, k and v, which read the same input, are one product.
    """

    def __init__(self, config: ModelConfig, index: int, weight, out_linear=make_linear) -> None:
        """out_linear makes the layers that end attention and MLP: tensor parallelism sums there."""
        prefix = f"model.layers.{index}."
        attention = prefix + "self_attn."
        names = [f"{attention}{letter}_proj" for letter in "qkv"]
        bias = torch.cat([weight(n + ".bias") for n in names]) if config.attention_bias else None
        self.config, self.index = config, index
        self.input_norm = weight(prefix + "input_layernorm.weight")
        self.qkv = make_linear(torch.cat([weight(n + ".weight") for n in names]), bias)
        self.q_norm = weight(attention + "q_norm.weight") if config.qk_norm else None
        self.k_norm = weight(attention + "k_norm.weight") if config.qk_norm else None
        self.o = out_linear(weight(attention + "o_proj.weight"))
        self.post_norm = weight(prefix + "post_attention_layernorm.weight")
        gate, up = weight(prefix + "mlp.gate_proj.weight"), weight(prefix + "mlp.up_proj.weight")
        self.gate_up = make_gated(gate, up)
        self.down = out_linear(weight(prefix + "mlp.down_proj.weight"))

    def forward(self, x, rope, kv_cache, backend, metadata, plan) -> torch.Tensor:
        """The residual stream x [tokens, hidden] → the same after this layer."""
        eps = self.config.rms_norm_eps
        h = rms_norm(x, self.input_norm, eps)
        x = self.o.add_to(x, self.attention(h, rope, kv_cache, backend, metadata, plan))
        return self.down.add_to(x, self.gate_up(rms_norm(x, self.post_norm, eps)))

    def attention(self, x, rope, kv_cache, backend, metadata, plan) -> torch.Tensor:
        """x [tokens, hidden] → [tokens, heads · head_dim]; keys and values go into kv_cache."""
        c = self.config
        qk_heads = c.num_heads + c.num_kv_heads
        qkv = self.qkv(x).view(-1, qk_heads + c.num_kv_heads, c.head_dim)
        qk = qkv[:, :qk_heads]
        if c.qk_norm:
            qk[:, : c.num_heads] = rms_norm(qk[:, : c.num_heads], self.q_norm, c.rms_norm_eps)
            qk[:, c.num_heads :] = rms_norm(qk[:, c.num_heads :], self.k_norm, c.rms_norm_eps)
        Rope.rotate_(qk, *rope)
        kv = qkv[:, c.num_heads :].view(-1, 2, c.num_kv_heads, c.head_dim)
        backend.write(self.index, kv, kv_cache, metadata, plan)
        out = backend.attend(self.index, qkv[:, : c.num_heads], kv_cache, plan)
        return out.flatten(1)


class Llama:
    """A decoder built from HF-named weights, in one dtype on one device."""

    capturable = True  # forward only starts kernels on the device: a CUDA graph can hold it

    def __init__(
        self,
        config: ModelConfig,
        weights: Mapping[str, torch.Tensor],
        *,
        dtype: torch.dtype,
        device: torch.device,
        max_positions: int | None = None,
    ) -> None:
        def weight(name: str) -> torch.Tensor:
            return weights[name].to(device=device, dtype=dtype)

        self.config = config
        self.embedding = weight("model.embed_tokens.weight")
        self.layers = [Layer(config, index, weight) for index in range(config.num_layers)]
        self.norm = weight("model.norm.weight")
        tied = config.tie_word_embeddings
        self.lm_head = make_linear(self.embedding if tied else weight("lm_head.weight"))
        self.rope = Rope(config, max_positions or config.max_position_embeddings, dtype, device)

    def forward(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        kv_pool: torch.Tensor,
        backend: AttentionBackend,
        metadata: AttentionMetadata,
        plan: object,
        logit_rows: torch.Tensor,
    ) -> torch.Tensor:
        """token_ids, positions: int64 [tokens]; kv_pool, plan: see attention/base.py.

        logit_rows: int64 [n], the tokens whose next token is asked for. Returns logits
        [n, vocab_size]: the output layer is as big as ten others, so only where it's needed.
        """
        x = F.embedding(token_ids, self.embedding)
        x = self.run_layers(x, positions, kv_pool, backend, metadata, plan)
        return self.lm_head(rms_norm(x[logit_rows], self.norm, self.config.rms_norm_eps))

    def run_layers(self, x, positions, kv_pool, backend, metadata, plan) -> torch.Tensor:
        """The residual stream x [tokens, hidden] through all layers."""
        rope = self.rope.at(positions)
        for layer, kv_cache in zip(self.layers, kv_pool.unbind(), strict=True):
            x = layer.forward(x, rope, kv_cache, backend, metadata, plan)
        return x
