"""Which attention backend runs here, and why: by what the device and torch have, then tried out.

A kernel that was compiled for this machine a second ago has to prove itself first: on a few ragged
shapes of the model's own heads it is compared with the reference. Where it fails, the reference
computes, and a warning says so.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from minillm.model.attention.base import AttentionBackend, AttentionMetadata, RowLayout
from minillm.model.attention.resident import ResidentBackend
from minillm.model.attention.sdpa import SDPABackend

# Rows of a trial, (start, tokens): queries 1, 7 and 129, with context and without.
TRIAL = ((0, 1), (15, 1), (40, 1), (500, 1), (0, 7), (21, 7), (0, 129), (60, 129))
# Largest difference, absolute and relative, from attention in float32 on the same numbers.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 2e-2}


@dataclass(frozen=True, slots=True)
class Geometry:
    """What a kernel is made for: a model's heads, the cache's blocks, the number format."""

    heads: int
    kv_heads: int
    head_dim: int
    block_size: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend, why it, and (empty: all is well) what is wrong with a faster one."""

    backend: AttentionBackend
    reason: str
    problem: str = ""


def choose_backend(geometry: Geometry, make_fast: Callable | None = None) -> Choice:
    """The backend for a device. make_fast(geometry): what is tried on CUDA, None: Triton's."""
    if geometry.device.type == "cpu" and make_fast is None:
        return Choice(
            ResidentBackend(),
            "keeps a contiguous copy of the keys and values of what decodes; the rest gathers "
            "pages, then torch's scaled_dot_product_attention",
        )
    reference = "gathers the pages, then torch's scaled_dot_product_attention"
    if make_fast is None:
        obstacle = why_not_triton(geometry)
        if obstacle:
            return Choice(SDPABackend(), f"{reference}; {obstacle}")
        make_fast = _triton
    try:
        backend = make_fast(geometry)
        problem = self_check(backend, geometry)
    except Exception as error:  # no compiler, too little shared memory, a driver too old …
        text = (str(error).strip() or "no reason given").splitlines()[0]
        problem = f"{type(error).__name__}: {text}"
    if problem:
        return Choice(SDPABackend(), reference, f"The faster backend failed its check: {problem}")
    return Choice(backend, f"reads the pages where they lie{_version(backend)}; equals sdpa here")


def backend_for(geometry: Geometry, make_fast: Callable | None = None) -> AttentionBackend:
    """The chosen backend; a RuntimeWarning says so if a faster one failed."""
    choice = choose_backend(geometry, make_fast)
    if choice.problem:
        warnings.warn(
            f"Attention is computed by {choice.backend.name}, which is slower. {choice.problem}",
            RuntimeWarning, stacklevel=2,
        )  # fmt: skip
    return choice.backend


def make_backend(name: str, heads: int) -> AttentionBackend:
    """A backend by its name, unchecked: for benchmarks and tests."""
    if name == "triton":
        from minillm.model.attention.triton_paged import TritonBackend

        return TritonBackend(heads)
    if name == "varlen":
        from minillm.model.attention.varlen import VarlenBackend

        return VarlenBackend()
    others = {"sdpa": SDPABackend, "resident": ResidentBackend}
    if name not in others:
        raise ValueError(
            f"Unknown attention backend {name!r}: choose triton, varlen, sdpa or resident."
        )
    return others[name]()


def why_not_triton(geometry: Geometry) -> str:
    """What keeps the Triton kernels from this machine or dtype; empty if nothing does."""
    if geometry.device.type != "cuda":
        return f"there is no kernel of our own for {geometry.device.type}"
    if geometry.dtype not in TOLERANCE:
        return f"the Triton kernels don't compute {str(geometry.dtype).removeprefix('torch.')}"
    if importlib.util.find_spec("triton") is None:
        return "the package triton, which brings a faster backend, is not installed"
    return ""


def self_check(backend: AttentionBackend, geometry: Geometry) -> str:
    """Compare with the reference in float32, over pages that are NaN where nothing was written.

    Returns what is wrong, in words; empty if nothing is.
    """
    q, kv, cache, metadata = _trial(geometry)
    got = _attend(backend, q, kv, cache, metadata)
    expected = _attend(SDPABackend(), q.float(), kv.float(), cache.float(), metadata)
    difference = (got.float() - expected).abs()
    tolerance = TOLERANCE[geometry.dtype] * (1 + expected.abs())
    if bool((difference <= tolerance).all()):  # NaN compares as False
        return ""
    if not bool(got.isfinite().all()):
        return f"{backend.name} gives numbers that aren't finite."
    return (
        f"{backend.name} differs from sdpa by up to {difference.max().item():.2g}, where at most "
        f"{TOLERANCE[geometry.dtype]:g} is rounding."
    )


def _attend(backend, q, kv, cache, metadata: AttentionMetadata) -> torch.Tensor:
    cache = cache.clone()
    plan = backend.plan(metadata, [], cache.unsqueeze(0))
    backend.write(0, kv, cache, metadata, plan)
    return backend.attend(0, q, cache, plan)


def _trial(
    geometry: Geometry,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, AttentionMetadata]:
    """q, new keys and values, a cache with the context in it, and the metadata of TRIAL's rows."""
    size, device = geometry.block_size, geometry.device
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device=device, dtype=geometry.dtype)

    kv_shape = (2, geometry.kv_heads, geometry.head_dim)
    num_blocks = sum(-(-(start + tokens) // size) for start, tokens in TRIAL)
    free = list(range(num_blocks))[::-1]  # tables run backwards through the pool
    rows, old, new = [], [], []
    for start, tokens in TRIAL:
        table = tuple(free.pop() for _ in range(-(-(start + tokens) // size)))[::-1]
        slots = [table[p // size] * size + p % size for p in range(start + tokens)]
        rows.append(RowLayout(start, tokens, 0, table))
        old += slots[:start]
        new += slots[start:]
    cache = torch.full(
        ((num_blocks + 1) * size, *kv_shape), float("nan"), dtype=geometry.dtype, device=device
    )
    cache[torch.tensor(old, device=device)] = normal(len(old), *kv_shape)
    slot_mapping = torch.tensor(new, device=device)
    metadata = AttentionMetadata(rows, slot_mapping, size, num_blocks)
    q = normal(len(new), geometry.heads, geometry.head_dim)
    return q, normal(len(new), *kv_shape), cache, metadata


def _triton(geometry: Geometry) -> AttentionBackend:
    return make_backend("triton", geometry.heads)


def _version(backend: AttentionBackend) -> str:
    if backend.name != "triton":
        return ""
    return f" (Triton {importlib.metadata.version('triton')})"
