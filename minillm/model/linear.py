"""Linear layers: y = x Wᵀ + b, with the weights laid out as the CPU's matrix units want them.

`make_linear` is the one way to get a layer. It packs the weight for oneDNN once, at load, where
torch offers that; the two functions it uses for it are private to torch, so they're checked for
and tried out first, and `F.linear` is what remains everywhere else. (Column and row parallel
layers for several GPUs belong here too.)
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F

from minillm.model.devices import cpu_matrix_unit

Linear = Callable[[torch.Tensor], torch.Tensor]  # [tokens, in] → [tokens, out]
PACK_ROWS = 32  # the batch that the layout is made for: a decode step's


class PlainLinear:
    """y = x Wᵀ + b through F.linear. weight [out, in], bias [out] or None."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)


class PackedLinear:
    """The same with W reordered once for oneDNN: 1.2–1.8 times as fast up to some 256 rows."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACK_ROWS)
        self.bias = bias
        self.product = torch.ops.mkldnn._linear_pointwise.default

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.product(x, self.packed, self.bias, "none", [], "")


@functools.cache
def can_pack() -> bool:
    """Whether packing exists in this torch, pays on this CPU, and gives the right product."""
    if cpu_matrix_unit() is None or not torch.backends.mkldnn.is_available():
        return False
    try:
        weight = torch.linspace(-1, 1, 32 * 64).reshape(32, 64).bfloat16()
        x = torch.linspace(1, -1, 3 * 64).reshape(3, 64).bfloat16()
        return torch.allclose(PackedLinear(weight)(x), F.linear(x, weight), rtol=0.02, atol=0.05)
    except (AttributeError, RuntimeError, TypeError):
        return False


def make_linear(weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
    """The fastest layer for this weight [out, in]: packed for bfloat16 on a CPU that has units."""
    if weight.device.type == "cpu" and weight.dtype == torch.bfloat16 and can_pack():
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)
