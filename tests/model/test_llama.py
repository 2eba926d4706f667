"""The decoder against transformers' own, family by family, and its parts by their definitions."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import torch.nn.functional as F

from minillm.core import SamplingParams
from minillm.model.linear import (
    PackedGated,
    PackedLinear,
    PlainGated,
    PlainLinear,
    can_pack,
    make_gated,
    make_linear,
)
from minillm.model.llama import FEW_ROWS, Rope, rms_norm
from minillm.model.loader import load_config
from tests.model.harness import make_engine, make_runner, random_prompts, run_all
from tests.model.tiny_models import CONFIGS, VOCAB


@pytest.mark.parametrize("family", sorted(CONFIGS))
def test_logits_equal_transformers(tiny, family):
    """150 positions: past the point where llama3's scaling bends the frequencies."""
    folder, reference = tiny(family)
    (prompt,) = random_prompts([150], VOCAB, seed=6)
    runner = make_runner(folder)
    outputs = run_all(make_engine(runner, budget=256), [prompt], SamplingParams(max_tokens=4))
    expected = reference.logits(prompt + outputs["0"])[len(prompt) - 1 : -1]
    ours = torch.stack(runner.sampler.logits["0"])
    # transformers computes norms and rotary tables in float32 even here, hence not 1e-12.
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-3)
    assert (ours - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("rows", [1, FEW_ROWS, FEW_ROWS + 1, 300])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5), ("bfloat16", 0.05)]
)
def test_rms_norm_by_its_definition(rows, dtype, tolerance):
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, dtype)
    x = (torch.randn(rows, 96, generator=generator) * 3).to(dtype)
    weight = torch.rand(96, generator=generator).to(dtype)
    wide = x.double()
    expected = wide / (wide.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    before = x.clone()
    got = rms_norm(x, weight, 1e-5)
    assert got.dtype == dtype
    assert torch.equal(x, before)
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=tolerance)


def test_rotation_depends_on_the_distance_alone(tiny):
    """q at position m and k at n: their product is a function of m − n."""
    config = load_config(tiny("llama3-rope")[0])
    rope = Rope(config, 200, torch.float64, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, config.head_dim, generator=generator, dtype=torch.float64)

    def product(m: int, n: int) -> float:
        turned = [Rope.rotate_(x.clone(), *rope.at(torch.tensor([p]))) for x, p in ((q, m), (k, n))]
        return (turned[0] * turned[1]).sum().item()

    assert product(7, 3) == pytest.approx(product(107, 103), abs=1e-9)
    assert product(7, 3) != pytest.approx(product(7, 4), abs=1e-3)
    torch.testing.assert_close(Rope.rotate_(q.clone(), *rope.at(torch.tensor([0]))), q)


TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 0.02, "atol": 0.05},
}


def skip_unless_packed(dtype):
    if not can_pack(dtype):
        pytest.skip(f"this torch or this CPU has no packed {dtype} linear layers")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5, 32, 200])
@pytest.mark.parametrize("with_bias", [False, True])
def test_packed_linear_agrees_with_plain(dtype, rows, with_bias):
    skip_unless_packed(dtype)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(96, 64, generator=generator).to(dtype)
    bias = torch.randn(96, generator=generator).to(dtype) if with_bias else None
    x = torch.randn(rows, 64, generator=generator).to(dtype)
    layer = make_linear(weight, bias)
    assert isinstance(layer, PackedLinear)
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(layer(x).double(), exact, **TOLERANCE[dtype])
    torch.testing.assert_close(layer(x), PlainLinear(weight, bias)(x), **TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 32, 200])
def test_what_follows_a_packed_product_agrees_with_plain(dtype, rows):
    skip_unless_packed(dtype)
    generator = torch.Generator().manual_seed(2)
    gate, up = torch.randn(2, 96, 64, generator=generator).to(dtype)
    x = torch.randn(rows, 64, generator=generator).to(dtype) / 8
    residual = torch.randn(rows, 96, generator=generator).to(dtype)
    gated = make_gated(gate, up)
    assert isinstance(gated, PackedGated)
    exact = F.silu(x.double() @ gate.double().T) * (x.double() @ up.double().T)
    torch.testing.assert_close(gated(x).double(), exact, **TOLERANCE[dtype])
    torch.testing.assert_close(PlainGated(gate, up)(x).double(), exact, **TOLERANCE[dtype])
    exact = residual.double() + x.double() @ up.double().T
    for layer in (make_linear(up), PlainLinear(up)):
        added = layer.add_to(residual.clone(), x)
        torch.testing.assert_close(added.double(), exact, **TOLERANCE[dtype])


def test_float64_stays_plain():
    wide = torch.zeros(4, 4, dtype=torch.float64)
    assert isinstance(make_linear(wide), PlainLinear)
    assert isinstance(make_gated(wide, wide), PlainGated)
