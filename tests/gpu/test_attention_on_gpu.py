"""The attention backends on a GPU, against attention written out and against one another.

The kernels' ragged shapes, block sizes and head sizes are in tests/model/test_triton_paged.py,
which runs on the GPU too where there is one.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from minillm.model.attention.select import Geometry, choose_backend, make_backend, self_check
from tests.model.attention_cases import check_backend, make_case

pytestmark = pytest.mark.gpu

RAGGED = [(3, 1, 0), (255, 1, 0), (700, 1, 0), (0, 7, 0), (5, 7, 0), (0, 129, 0), (300, 129, 0)]
PADDED = [(4, 0, 1), (6, 1, 0), (0, 3, 6), (0, 5, 4), (0, 9, 0)]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
HEADS = [(32, 8, 128), (9, 3, 64), (32, 32, 96)]


@pytest.mark.parametrize("shapes", [RAGGED, PADDED], ids=["ragged", "padded"])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("name", ["triton", "varlen", "sdpa"])
def test_backends_compute_attention(name, dtype, heads, kv_heads, head_dim, shapes):
    if name == "varlen" and dtype == torch.float32:
        pytest.skip("torch's varlen kernel computes 16-bit numbers only")
    backend = make_backend(name, heads)
    block_size = 256 if name == "varlen" else 16
    case = make_case(
        shapes, heads, kv_heads, block_size, head_dim=head_dim, dtype=dtype, device="cuda"
    )
    check_backend(backend, case, TOLERANCE[dtype])


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), HEADS)
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("block_size", [16, 256])
def test_triton_is_chosen_here(heads, kv_heads, head_dim, dtype, block_size):
    geometry = Geometry(heads, kv_heads, head_dim, block_size, dtype, torch.device("cuda"))
    choice = choose_backend(geometry)
    assert not choice.problem
    assert choice.backend.name == "triton"


def test_float64_is_left_to_sdpa():
    geometry = Geometry(8, 2, 64, 16, torch.float64, torch.device("cuda"))
    assert choose_backend(geometry).backend.name == "sdpa"


def test_the_self_check_finds_a_wrong_number():
    backend = make_backend("triton", 8)
    attend = backend.attend
    backend.attend = lambda *args: attend(*args).mul_(1.05)
    geometry = Geometry(8, 2, 64, 16, torch.bfloat16, torch.device("cuda"))
    assert "differs" in self_check(backend, geometry)
