"""How long a step takes on a GPU: a roofline for each kernel, its launch time, the links, the CPU.

With m tokens in the step, sizes divided by tp (tensor parallelism), times in seconds:

    GEMM(m,n,k)  t0 + (tc^p + tm^p)^(1/p),  tc = 2mnk/(ec·peak),  tm = (w·n·k + 2(mk + mn))/(em·bw)
                 a layer: qkv, o, gate_up, down; lm_head for the rows that sample
    attention    decode   t0a + tseq·n·hkv/8 + KV bytes read/(ekv·bw)
                 prefill  t0a + max(Σ 4·hq·hd·(c·past + c(c+1)/2)/(e(s)·peak), KV bytes/(ekv·bw)),
                          s = past + c,  e(s) = eatt·s/(s + shalf)
    small        5·tsm + (14·d·m + 6·ff·m)·2 B/(0.8·bw) a layer: norms, rotary, activation, KV write
    all-reduce   two a layer, 2·d·m bytes each: latency + 2(tp−1)/tp·bytes/busbw
                 (busbw as nccl-tests define it); one gather of the logits
    cpu          step_s + sequence_s·n + max(0, hidden_step_s + hidden_sequence_s·n − GPU's time)

In a pure decode step t0, t0a and tsm are multiplied by the preset's `graph`. A row with one
computed token counts as decode, whatever it belongs to: it runs the same kernel. The form is the
roofline of Williams et al. 2009 with a soft corner; the terms are those that LLM-Viewer and Vidur
also tell apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from minillm.core.batch import ScheduledRow
from minillm.sim.hardware import GPUSpec, get_gpu
from minillm.sim.models import DType, ModelSpec, get_dtype, get_model
from minillm.sim.pipeline import Load, split, turn
from minillm.sim.presets import EnginePreset, get_preset

TERMS = ("gemm", "attention", "small_kernels", "all_reduce", "lm_head", "cpu", "pipeline")
RESERVE_BYTES = 2e9  # activations and workspace on each GPU
BIG_MESSAGE_BYTES = 4.2e6  # from here on an all-reduce takes another algorithm …
BIG_MESSAGE_S = 15e-6  # … which starts up longer


def load_of(rows: Iterable[ScheduledRow]) -> Load:
    """Sum the rows up. Padding and dead rows count as what they are: computed tokens."""
    columns = tuple(zip(*rows, strict=True))
    if not columns:
        return Load()
    _, starts, reals, pads, samples, _, _ = columns
    num_rows = len(starts)
    if sum(reals) + sum(pads) == num_rows:  # one token each
        return Load(num_rows, sum(starts) + num_rows, (), sum(samples))
    singles = context = 0
    chunks = []
    for start, real, pad in zip(starts, reals, pads, strict=True):
        if real + pad == 1:
            singles += 1
            context += start + 1
        else:
            chunks.append((start, real + pad))
    return Load(singles, context, chunks, sum(samples))


class GPUCostModel:
    """A model on tp × pp GPUs under an engine. Names or specs; wrong ones raise ValueError."""

    def __init__(
        self,
        gpu: GPUSpec | str,
        model: ModelSpec | str,
        *,
        preset: EnginePreset | str = "vllm-v1",
        dtype: DType | str = "bf16",
        tp: int = 1,
        pp: int = 1,
    ) -> None:
        self.gpu = get_gpu(gpu) if isinstance(gpu, str) else gpu
        self.model = get_model(model) if isinstance(model, str) else model
        self.preset = get_preset(preset) if isinstance(preset, str) else preset
        self.dtype = get_dtype(dtype) if isinstance(dtype, str) else dtype
        self.tp, self.pp = tp, pp
        self._check()
        self._ring = self.gpu.ring(tp)
        self._overlapped = self.preset.hidden_step_s + self.preset.hidden_sequence_s > 0
        kv_heads = max(self.model.num_kv_heads / tp, 1.0)
        self._kv_heads = kv_heads
        kv_bytes = 2.0 * kv_heads * self.model.head_dim * self.dtype.kv_bytes
        self._kv_layer_s = kv_bytes / (self.gpu.kv_memory * self.gpu.bandwidth)
        self._kv_s = self.model.num_layers * self._kv_layer_s  # one token of context, all layers
        self._layers: dict[tuple[int, bool], tuple[float, float, float]] = {}
        self._heads: dict[tuple[int, bool], tuple[float, float]] = {}
        self._decodes: dict[tuple[int, int], tuple[float, ...]] = {}

    def _check(self) -> None:
        gpu, model, tp, pp = self.gpu, self.model, self.tp, self.pp
        for name, value in (("tp", tp), ("pp", pp)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer ≥ 1, got {value!r}.")
        if model.num_heads % tp:
            raise ValueError(
                f"tp {tp} does not divide the {model.num_heads} attention heads of {model.name}."
            )
        if tp > 8:
            raise ValueError(f"tp must be at most 8, the GPUs that share one node, got {tp}.")
        if pp > model.num_layers:
            raise ValueError(f"pp {pp} is more than the {model.num_layers} layers of {model.name}.")
        if self.dtype.fp8 and not gpu.peak_flops_fp8:
            raise ValueError(
                f"There is no FP8 figure for {gpu.name}, so {self.dtype.name} cannot be simulated "
                "on it: choose bf16, or a GPU such as H100-80GB-SXM."
            )

    # ── memory ──────────────────────────────────────────────────────────────────────────────

    def kv_tokens(self, gpu_memory_utilization: float = 0.9) -> int:
        """Tokens of KV that fit beside the weights, on all tp × pp GPUs together.

        Raises ValueError when the model itself does not fit, with both sizes.
        """
        if not 0 < gpu_memory_utilization <= 1:
            raise ValueError(
                f"gpu_memory_utilization must be above 0 and at most 1, "
                f"got {gpu_memory_utilization!r}."
            )
        gpus = self.tp * self.pp
        budget = gpus * (gpu_memory_utilization * self.gpu.memory - RESERVE_BYTES)
        weights = self.model.weight_bytes(self.dtype)
        per_token = self.model.kv_bytes(self.dtype) * self._kv_heads * self.tp
        per_token /= self.model.num_kv_heads  # heads that are too few for tp are kept twice
        tokens = int((budget - weights) / per_token)
        if tokens < 1:
            raise ValueError(
                f"{self.model.name} in {self.dtype.name} needs {weights / 1e9:.1f} GB for its "
                f"weights, but {gpus} × {self.gpu.name} leave {max(budget, 0) / 1e9:.1f} GB at "
                f"gpu_memory_utilization {gpu_memory_utilization}: take more GPUs (tp, pp), "
                "fewer bytes per weight, or a smaller model."
            )
        return tokens

    # ── time ────────────────────────────────────────────────────────────────────────────────

    def terms(self, rows: Iterable[ScheduledRow]) -> dict[str, float]:
        """The time of a scheduler's step opened into its terms; the step takes their sum."""
        return self.load_terms(load_of(rows))

    def load_terms(self, load: Load) -> dict[str, float]:
        """The same for a Load."""
        return self._one_batch(load) if self.pp == 1 else self._pipeline(load)

    def seconds(self, load: Load) -> float:
        """The step's whole time."""
        return sum(self.load_terms(load).values())

    def _one_batch(self, load: Load) -> dict[str, float]:
        num_decode, context, chunks, sampled = load
        if chunks:
            gemm, attention, small, ring, head, cpu = self._mixed(load)
        else:
            fixed = self._decodes.get((num_decode, sampled))
            if fixed is None:
                fixed = self._decodes[num_decode, sampled] = self._decode_fixed(load)
            gemm, attention, small, ring, head, cpu = fixed
        attention += self._kv_s * context
        if self._overlapped:
            cpu += self._exposed(num_decode + len(chunks), gemm + attention + small + ring + head)
        return {
            "gemm": gemm,
            "attention": attention,
            "small_kernels": small,
            "all_reduce": ring,
            "lm_head": head,
            "cpu": cpu,
            "pipeline": 0.0,
        }

    def _exposed(self, num_sequences: int, gpu_s: float) -> float:
        """CPU time beside the GPU's that lasts longer than it."""
        preset = self.preset
        return max(preset.hidden_step_s + preset.hidden_sequence_s * num_sequences - gpu_s, 0.0)

    def _decode_fixed(self, load: Load) -> tuple[float, ...]:
        """All of a decode step that does not depend on the context."""
        gemm, small, ring = self._layer(load.num_decode, True)
        head, gather = self._head(load.num_sampled, True)
        attention = self._decode_attention(load.num_decode, self.preset.graph)
        cpu = self.preset.step_s + self.preset.sequence_s * load.num_decode
        return gemm, attention, small, ring + gather, head, cpu

    def _mixed(self, load: Load) -> tuple[float, ...]:
        """A step with prefill chunks, decode rows beside them; the decode KV reads excepted."""
        tokens = load.num_decode + sum([count for _, count in load.chunks])
        gemm, small, ring = self._layer(tokens, False)
        head, gather = self._head(load.num_sampled, False)
        attention = self._decode_attention(load.num_decode, 1.0) + self._prefill(load.chunks)
        sequences = load.num_decode + len(load.chunks)
        cpu = self.preset.step_s + self.preset.sequence_s * sequences
        return gemm, attention, small, ring + gather, head, cpu

    def _decode_attention(self, num_decode: int, graph: float) -> float:
        if not num_decode:
            return 0.0
        each = self.gpu.sequence_s * num_decode * self._kv_heads / 8
        return self.model.num_layers * (self.gpu.attention_launch_s * graph + each)

    def _prefill(self, chunks: Sequence[tuple[int, int]]) -> float:
        gpu, model = self.gpu, self.model
        compute = 0.0
        keys = 0
        for past, count in chunks:
            context = past + count
            keys += context
            share = gpu.attention_compute * context / (context + gpu.attention_half_len)
            compute += (count * past + count * (count + 1) / 2) / share
        # FP8 models multiply queries and keys in 16 bits all the same.
        compute *= 4.0 * (model.num_heads / self.tp) * model.head_dim / gpu.peak_flops
        return model.num_layers * (gpu.attention_launch_s + max(compute, keys * self._kv_layer_s))

    def _layer(self, m: int, decode: bool) -> tuple[float, float, float]:
        """(gemm, small kernels, all-reduce) of all layers for m tokens; remembered."""
        known = self._layers.get((m, decode))
        if known is None:
            known = self._layers[m, decode] = self._layer_times(m, decode) if m else (0.0, 0.0, 0.0)
        return known

    def _layer_times(self, m: int, decode: bool) -> tuple[float, float, float]:
        gpu, model, tp = self.gpu, self.model, self.tp
        w, fp8 = self.dtype.weight_bytes, self.dtype.fp8
        graph = self.preset.graph if decode else 1.0
        t0, d = gpu.gemm_launch_s * graph, model.hidden
        q, kv, ff = model.num_heads / tp, self._kv_heads, model.ff / tp
        products = (
            ((q + 2 * kv) * model.head_dim, d),  # qkv
            (d, q * model.head_dim),  # o
            (2 * ff, d),  # gate and up
            (d, ff),  # down
        )
        gemm = sum(gpu.gemm_s(m, n, k, w, fp8=fp8, launch_s=t0) for n, k in products)
        moved = (14.0 * d * m + 6.0 * ff * m) * 2.0
        small = 5 * gpu.small_kernel_s * graph + moved / (0.8 * gpu.bandwidth)
        ring = 2 * self.all_reduce(2.0 * d * m)
        return tuple(model.num_layers * term for term in (gemm, small, ring))

    def all_reduce(self, num_bytes: float) -> float:
        """Seconds of one all-reduce of that size among the tp GPUs; 0 for one GPU."""
        if self.tp == 1:
            return 0.0
        ring, big = self._ring, num_bytes >= BIG_MESSAGE_BYTES
        moved = 2 * (self.tp - 1) / self.tp * num_bytes
        latency = ring.latency_s + (BIG_MESSAGE_S if big else 0.0)
        return latency + moved / (ring.bandwidth_big if big else ring.bandwidth_small)

    def _head(self, num_rows: int, decode: bool) -> tuple[float, float]:
        """(lm_head, gather of the logits) for the rows that sample; remembered."""
        known = self._heads.get((num_rows, decode))
        if known is None:
            known = self._head_times(num_rows, decode) if num_rows else (0.0, 0.0)
            self._heads[num_rows, decode] = known
        return known

    def _head_times(self, num_rows: int, decode: bool) -> tuple[float, float]:
        graph = self.preset.graph if decode else 1.0
        vocab = self.model.vocab_size / self.tp
        head = self.gpu.gemm_s(
            num_rows, vocab, self.model.hidden, self.dtype.head_bytes,
            launch_s=self.gpu.gemm_launch_s * graph,
        )  # fmt: skip
        if self.tp == 1:
            return head, 0.0
        moved = 2.0 * num_rows * vocab * (self.tp - 1)
        return head, self._ring.latency_s + moved / self._ring.bandwidth_small

    def _pipeline(self, load: Load) -> dict[str, float]:
        """A turn of pp micro-batches; each pays its transfers from stage to stage."""
        batches = []
        for batch in split(load, self.pp) or [load]:
            terms = self._one_batch(batch)
            terms["pipeline"] = (self.pp - 1) * self._transfer(batch.num_tokens)
            batches.append(terms)
        return turn(batches, self.pp)

    def _transfer(self, num_tokens: int) -> float:
        """Seconds to hand the activations of `num_tokens` tokens to the next stage."""
        gpu = self.gpu
        bandwidth = gpu.nvlink or gpu.pcie_bandwidth
        return gpu.pcie_latency_s + 2.0 * self.model.hidden * num_tokens / (self.tp * bandwidth)
