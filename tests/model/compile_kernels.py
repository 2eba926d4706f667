"""Compiles the attention kernels for GPUs that this machine need not have."""

from __future__ import annotations

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from minillm.model.attention.triton_kernels import attend
from minillm.model.attention.triton_paged import TileShape


def compile_all() -> dict[str, int]:
    """bfloat16, decode in parts and prefill, on SM80 and SM90: shared memory in bytes."""
    return {
        f"decode={decode} SM{capability}": _compile(decode, capability)
        for decode in (False, True)
        for capability in (80, 90)
    }


def _compile(decode: bool, capability: int) -> int:
    """The shape of Llama 3.1 8B: 32 heads of 128, 8 KV heads."""
    shape = TileShape.of(decode, 4, 128, torch.bfloat16)
    constants = {
        "DECODE": decode, "PARTS": 16 if decode else 1, "KV_HEADS": 8, "GROUP": 4,
        "HEAD_DIM": 128, "BLOCK_D": shape.block_d, "BLOCK_SIZE": 16, "BLOCK_M": shape.block_m,
        "BLOCK_N": shape.block_n,
    }  # fmt: skip
    out = "*fp32" if decode else "*bf16"
    kinds = {"out": out, "maxima": out, "sums": out, "q": "*bf16", "kv_cache": "*bf16"}
    kinds["scale"] = "fp32"
    indices = ("block_tables", "seq_lens", "starts", "cu_seqlens_q", "tiles")
    kinds |= dict.fromkeys(indices, "*i32")
    signature = {
        name: "constexpr" if name in constants else kinds.get(name, "i32")
        for name in attend.arg_names
    }
    at = {name: (attend.arg_names.index(name),) for name in attend.arg_names}
    aligned = ("out", "maxima", "sums", "q", "kv_cache", "q_token", "q_head", "kv_slot")
    source = ASTSource(
        attend,
        signature,
        {at[name]: value for name, value in constants.items()},
        {at[name]: [["tt.divisibility", 16]] for name in aligned},
    )
    options = {"num_warps": 4 if decode else 8, "num_stages": 3}
    kernel = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    return kernel.metadata.shared
