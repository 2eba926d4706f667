"""Memory for the KV cache: zeros that take memory when they're written to."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import psutil
import torch

from minillm.model.devices import zeros

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_zeros_are_zeros_and_can_be_written(dtype):
    made = zeros((3, 5, 7), dtype, CPU)
    assert torch.equal(made, torch.zeros(3, 5, 7, dtype=dtype))
    made[1, 2, 3] = 4
    assert made.sum() == 4
    assert zeros((0, 5), dtype, CPU).shape == (0, 5)


def test_unwritten_zeros_take_no_memory():
    process = psutil.Process()
    before = process.memory_info().rss
    made = zeros((1 << 28,), torch.bfloat16, CPU)  # 512 MiB
    assert process.memory_info().rss - before < 64 << 20
    made[: 64 << 20].fill_(1)  # 128 MiB
    assert process.memory_info().rss - before >= 100 << 20
