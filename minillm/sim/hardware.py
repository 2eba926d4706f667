"""GPUs: what the datasheet says, and how much of it kernels reach.

The efficiencies of A100-80GB-SXM, H100-80GB-SXM, H200-141GB-SXM, RTX4090 and RTXPRO6000 were fitted
on one half of public tables of single operations (GEMM, attention, all-reduce), measured on these
GPUs; what each one means is said in cost_model. A *derived* GPU has its own datasheet figures and
the efficiencies of its nearest measured relative: expect a larger error (its `source` says so).
Units: FLOP/s (dense), bytes/s, bytes, seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FITTED = "datasheet; efficiencies fitted on half of public op-level tables of this GPU"


@dataclass(frozen=True, slots=True)
class AllReduce:
    """A ring over `num_gpus` GPUs: latency, and bus bandwidth below and above 4.2 MB."""

    num_gpus: int
    latency_s: float
    bandwidth_small: float
    bandwidth_big: float


@dataclass(frozen=True, slots=True)
class GPUSpec:
    """One GPU. peak_flops_fp8 0: there is no FP8 figure. all_reduce (): over PCIe instead."""

    name: str
    peak_flops: float
    bandwidth: float
    memory: float
    gemm_compute: float  # ec: share of the peak that a large GEMM reaches
    gemm_memory: float  # em: share of the bandwidth that a thin GEMM reaches
    gemm_launch_s: float  # t0: a GEMM kernel's fixed time
    gemm_norm: float  # p: how sharply compute- and memory-bound meet (∞: a hard roofline)
    kv_memory: float  # ekv: share of the bandwidth when attention reads KV
    attention_launch_s: float  # t0a
    sequence_s: float  # tseq: decode attention's time per sequence with 8 KV heads
    attention_compute: float  # eatt: share of the peak of a very long prefill
    attention_half_len: float  # shalf: context at which half of that share is reached
    small_kernel_s: float  # tsm
    nvlink: float = 0.0  # one way; 0: the links are PCIe
    all_reduce: tuple[AllReduce, ...] = ()
    pcie_latency_s: float = 10e-6
    pcie_bandwidth: float = 25e9
    peak_flops_fp8: float = 0.0
    source: str = FITTED

    def ring(self, num_gpus: int) -> AllReduce:
        """The all-reduce among that many of these GPUs (the next larger one that is known)."""
        for ring in self.all_reduce:
            if ring.num_gpus >= num_gpus:
                return ring
        return AllReduce(num_gpus, self.pcie_latency_s, self.pcie_bandwidth, self.pcie_bandwidth)

    def gemm_s(
        self,
        m: int,
        n: float,
        k: float,
        weight_bytes: float,
        *,
        fp8: bool = False,
        launch_s: float | None = None,
    ) -> float:
        """Seconds of one product [m, k] · [k, n]: a roofline whose corner is soft.

        launch_s: None takes gemm_launch_s. Inputs and outputs have 2 bytes a number.
        """
        peak = self.peak_flops_fp8 if fp8 else self.peak_flops
        compute = 2.0 * m * n * k / (self.gemm_compute * peak)
        moved = weight_bytes * n * k + 2.0 * (m * k + m * n)
        memory = moved / (self.gemm_memory * self.bandwidth)
        high, low, p = max(compute, memory), min(compute, memory), self.gemm_norm
        launch = self.gemm_launch_s if launch_s is None else launch_s
        return launch + high * (1.0 + (low / high) ** p) ** (1.0 / p)

    @property
    def links(self) -> str:
        return "NVLink" if self.all_reduce else "PCIe"


_A100 = GPUSpec(
    "A100-80GB-SXM", 312e12, 2039e9, 80 * 2**30, nvlink=300e9,
    gemm_compute=0.832, gemm_memory=0.755, gemm_launch_s=5.9e-6, gemm_norm=1.7,
    kv_memory=0.734, attention_launch_s=17.7e-6, sequence_s=0.235e-6,
    attention_compute=0.592, attention_half_len=286, small_kernel_s=2e-6,
    all_reduce=(
        AllReduce(2, 4.9e-6, 204e9, 190e9),
        AllReduce(4, 5.2e-6, 151e9, 213e9),
        AllReduce(8, 5.8e-6, 166e9, 219e9),
    ),
)  # fmt: skip
_H100 = GPUSpec(
    "H100-80GB-SXM", 989e12, 3350e9, 80 * 2**30, nvlink=450e9, peak_flops_fp8=1979e12,
    gemm_compute=0.835, gemm_memory=0.9, gemm_launch_s=3.7e-6, gemm_norm=3.8,
    kv_memory=0.915, attention_launch_s=11.1e-6, sequence_s=0.185e-6,
    attention_compute=0.617, attention_half_len=614, small_kernel_s=2e-6,
    all_reduce=(
        AllReduce(2, 4.3e-6, 257e9, 311e9),
        AllReduce(4, 4.6e-6, 224e9, 345e9),
        AllReduce(8, 4.7e-6, 227e9, 353e9),
    ),
)  # fmt: skip
_H200 = GPUSpec(
    "H200-141GB-SXM", 989e12, 4800e9, 141e9, nvlink=450e9, peak_flops_fp8=1979e12,
    gemm_compute=0.807, gemm_memory=0.848, gemm_launch_s=4.03e-6, gemm_norm=3.0,
    kv_memory=0.841, attention_launch_s=11.1e-6, sequence_s=0.191e-6,
    attention_compute=0.623, attention_half_len=760, small_kernel_s=2e-6,
    all_reduce=(
        AllReduce(2, 4.5e-6, 264e9, 309e9),
        AllReduce(4, 4.6e-6, 237e9, 345e9),
        AllReduce(8, 4.9e-6, 230e9, 400e9),
    ),
)  # fmt: skip
_RTX4090 = GPUSpec(
    "RTX4090", 165.2e12, 1008e9, 24 * 2**30,
    gemm_compute=0.981, gemm_memory=0.951, gemm_launch_s=6.39e-6, gemm_norm=2.1,
    kv_memory=0.908, attention_launch_s=10.7e-6, sequence_s=0.264e-6,
    attention_compute=0.744, attention_half_len=268, small_kernel_s=2e-6,
)  # fmt: skip
_RTXPRO6000 = GPUSpec(
    "RTXPRO6000", 467.8e12, 1792e9, 102641958912,
    gemm_compute=0.86, gemm_memory=0.883, gemm_launch_s=6.4e-6, gemm_norm=1.5,
    kv_memory=0.815, attention_launch_s=13e-6, sequence_s=0.094e-6,
    attention_compute=0.451, attention_half_len=1, small_kernel_s=2e-6,
)  # fmt: skip


def _derived(
    base: GPUSpec, name: str, flops: float, bandwidth: float, memory: float, **changes: object
) -> GPUSpec:
    """A GPU that was not measured: TFLOP/s, GB/s and GiB of its datasheet on `base`'s shares."""
    source = f"datasheet; efficiencies of {base.name} (derived, not measured)"
    return replace(
        base, name=name, peak_flops=flops * 1e12, bandwidth=bandwidth * 1e9,
        memory=memory * 2**30, source=source, **changes,
    )  # fmt: skip


# A800: an A100 whose NVLink carries 400 instead of 600 GB/s.
_A800_RINGS = tuple(
    replace(r, bandwidth_small=r.bandwidth_small / 1.5, bandwidth_big=r.bandwidth_big / 1.5)
    for r in _A100.all_reduce
)
_PCIE = {"nvlink": 0.0, "all_reduce": ()}

_ALL = (
    _A100,
    _H100,
    _H200,
    _RTX4090,
    _RTXPRO6000,
    _derived(_A100, "A100-40GB-SXM", 312, 1555, 40),
    _derived(_A100, "A100-80GB-PCIE", 312, 1935, 80, **_PCIE),
    _derived(_A100, "A100-40GB-PCIE", 312, 1555, 40, **_PCIE),
    _derived(_A100, "A800-80GB-SXM", 312, 2039, 80, nvlink=200e9, all_reduce=_A800_RINGS),
    _derived(_A100, "A40", 149.7, 696, 48, **_PCIE),
    _derived(_A100, "A10", 125, 600, 24, **_PCIE),
    _derived(_H100, "H100-80GB-PCIE", 756, 2000, 80, peak_flops_fp8=1513e12, **_PCIE),
    _derived(_H100, "H100-94GB-NVL", 835, 3900, 94, peak_flops_fp8=1671e12, **_PCIE),
    _derived(_H100, "H800-80GB-SXM", 989, 3350, 80, nvlink=200e9),
    _derived(_H200, "H20-96GB-SXM", 148, 4000, 96, peak_flops_fp8=296e12),
    _derived(_H200, "H20-141GB-SXM", 148, 4800, 131.3, peak_flops_fp8=296e12),
    _derived(_H200, "B200-180GB-SXM", 2250, 8000, 167.6, peak_flops_fp8=4500e12, nvlink=900e9),
    _derived(_RTX4090, "RTX3090", 71, 936, 24),
    _derived(_RTX4090, "RTX4090D", 147, 1008, 24),
    _derived(_RTXPRO6000, "RTX5090", 209.5, 1792, 32),
    _derived(_RTX4090, "RTX6000-ADA", 364.2, 960, 48, peak_flops_fp8=728.5e12),
    _derived(_RTX4090, "RTX-A6000", 154.8, 768, 48),
    _derived(_RTX4090, "L40S", 362, 864, 48, peak_flops_fp8=733e12),
    _derived(_RTX4090, "L4", 121, 300, 24, peak_flops_fp8=242e12),
)
GPUS: dict[str, GPUSpec] = {gpu.name: gpu for gpu in _ALL}


def get_gpu(name: str) -> GPUSpec:
    """The GPU of that name (letter case does not matter). Raises ValueError with the list."""
    for gpu in _ALL:
        if gpu.name.lower() == str(name).lower():
            return gpu
    raise ValueError(f"Unknown GPU {name!r}: choose one of {', '.join(GPUS)}.")
