"""Linear layers: y = x Wᵀ + b, with the weights laid out as the CPU's matrix units want them.

`make_linear` is the one way to get a layer. It packs the weight for oneDNN once, at load, where
torch offers that; the two functions it uses for it are private to torch, so they're checked for
and tried out first, and `F.linear` is what remains everywhere else. (Layers that are split over
processes: stage.py.)
"""

from __future__ import annotations

import functools
import platform
from typing import Protocol

import torch
import torch.nn.functional as F

from minillm.model.devices import cpu_matrix_unit

PACK_ROWS = 32  # the batch that the layout is made for: a decode step's


class Linear(Protocol):
    """x [tokens, in] → [tokens, out]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """residual + layer(x), [tokens, out]. The residual may be overwritten."""


class PlainLinear:
    """y = x Wᵀ + b through F.linear. weight [out, in], bias [out] or None."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return residual.add_(self(x))


class PackedLinear:
    """The same with W reordered once for oneDNN: 1.2–2 times as fast up to some 256 rows.

    What follows a product (an activation, a factor, the residual) oneDNN does on its way out, in
    float32 and without another pass over memory. activation: none, or swish, which is silu.
    """

    def __init__(
        self, weight: torch.Tensor, bias: torch.Tensor | None = None, activation: str = "none"
    ) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)
        self.bias = bias
        self.activation = activation
        self.product = torch.ops.mkldnn._linear_pointwise.default
        self.product_then = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, self.packed, self.bias, self.activation, [], "")

    def add_to(self, residual: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.product_then(x, residual, self.packed, self.bias, "add")

    def times(self, factor: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """factor · (x Wᵀ + b), [tokens, out]."""
        return self.product_then(x, factor, self.packed, self.bias, "mul")


class PlainGated:
    """silu(x Gᵀ) · (x Uᵀ), the first half of a gated MLP, as one product. gate, up [out, in]."""

    def __init__(self, gate: torch.Tensor, up: torch.Tensor) -> None:
        self.gate_up = PlainLinear(torch.cat((gate, up)))

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return F.silu(gate).mul_(up)


class PackedGated:
    """The same as two packed products, for silu and the factor then cost nothing.

    Up to a tenth faster than one product from 32 tokens on, and as much slower at a single one.
    """

    def __init__(self, gate: torch.Tensor, up: torch.Tensor) -> None:
        self.gate, self.up = PackedLinear(gate, activation="swish"), PackedLinear(up)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.up.times(self.gate(x), x)


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether packing exists in this torch, pays on this CPU, and gives the right products.

    It pays for float32 too, for oneDNN's products of few rows are faster than MKL's (measured on
    x86), and for bfloat16 where the processor has units for it.
    """
    pays = {
        torch.float32: platform.machine().lower() in ("x86_64", "amd64"),
        torch.bfloat16: cpu_matrix_unit() is not None,
    }
    if not pays.get(dtype, False) or not torch.backends.mkldnn.is_available():
        return False
    try:
        weight = torch.linspace(-1, 1, 32 * 64).reshape(32, 64).to(dtype)
        x = torch.linspace(1, -1, 3 * 64).reshape(3, 64).to(dtype)
        before = x[:, :32].contiguous()
        pairs = (
            (PackedLinear(weight)(x), F.linear(x, weight)),
            (PackedLinear(weight).add_to(before, x), before + F.linear(x, weight)),
            (PackedGated(weight, -weight)(x), PlainGated(weight, -weight)(x)),
        )
        return all(torch.allclose(*pair, rtol=0.02, atol=0.05) for pair in pairs)
    except (AttributeError, RuntimeError, TypeError):
        return False


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """The fastest layer for this weight [out, in]: packed where can_pack says so."""
    return PackedLinear(weight, bias) if _packs(weight) else PlainLinear(weight, bias)


def make_gated(gate: torch.Tensor, up: torch.Tensor) -> PlainGated | PackedGated:
    """The fastest silu(x Gᵀ) · (x Uᵀ) for these weights [out, in]."""
    return PackedGated(gate, up) if _packs(gate) else PlainGated(gate, up)


def _packs(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and can_pack(weight.dtype)
