"""Which backend is chosen, and what becomes of one that computes something else."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from minillm.model.attention import SDPABackend
from minillm.model.attention.select import (
    Geometry,
    backend_for,
    choose_backend,
    make_backend,
    self_check,
    why_not_triton,
)

CPU = torch.device("cpu")


def geometry(heads=6, kv_heads=2, dtype=torch.float32, device=CPU):
    return Geometry(heads, kv_heads, 16, 16, dtype, device)


class Honest(SDPABackend):
    name = "honest"


class Lying(SDPABackend):
    """Right for decode rows; the last query of a chunk is a little off."""

    name = "lying"

    def attend(self, layer, q, kv_cache, plan):
        out = super().attend(layer, q, kv_cache, plan)
        out[-1] *= 1.01
        return out


class Leaking(SDPABackend):
    """Reads a page to its end, where nothing was written."""

    name = "leaking"

    def attend(self, layer, q, kv_cache, plan):
        return super().attend(layer, q, kv_cache, plan) + kv_cache.sum()


class Broken(SDPABackend):
    name = "broken"

    def plan(self, metadata, rows, pool):
        raise RuntimeError("out of resource: shared memory\nRequired: 200000")


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 2), (8, 2), (3, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_backend_that_computes_attention_passes(heads, kv_heads, dtype):
    assert self_check(Honest(), geometry(heads, kv_heads, dtype)) == ""
    choice = choose_backend(geometry(heads, kv_heads, dtype), lambda _: Honest())
    assert choice.backend.name == "honest"
    assert not choice.problem


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        (Lying, ["lying differs from sdpa", "0.0001"]),
        (Leaking, ["leaking", "finite"]),
        (Broken, ["RuntimeError", "out of resource"]),
    ],
)
def test_a_backend_that_does_not_is_replaced(backend, words):
    choice = choose_backend(geometry(), lambda _: backend())
    assert choice.backend.name == "sdpa"
    assert all(word in choice.problem for word in words)
    assert "\n" not in choice.problem


def test_a_replacement_is_warned_of():
    with pytest.warns(RuntimeWarning, match=r"computed by sdpa, which is slower.*lying differs"):
        assert backend_for(geometry(), lambda _: Lying()).name == "sdpa"


def test_what_keeps_triton_away():
    cuda = torch.device("cuda")
    assert "float64" in why_not_triton(geometry(dtype=torch.float64, device=cuda))
    assert "mps" in why_not_triton(geometry(device=torch.device("mps")))
    assert choose_backend(geometry(device=torch.device("mps"))).backend.name == "sdpa"
    assert choose_backend(geometry()).backend.name == "resident"


def test_backends_by_name():
    assert make_backend("sdpa", 4).name == "sdpa"
    assert make_backend("resident", 4).name == "resident"
    assert make_backend("varlen", 4).name == "varlen"
    with pytest.raises(ValueError, match="flash") as error:
        make_backend("flash", 4)
    assert "triton" in str(error.value)
