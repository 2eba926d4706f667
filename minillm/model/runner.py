"""ModelRunner: computes the scheduler's steps with a real model.

It packs a step's rows into one list of tokens, runs the decoder, samples, and keeps the paged KV
cache. It knows blocks by their id and nothing of queues or policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import torch

from minillm.core.batch import ScheduledRow, SchedulerOutput, StepResult
from minillm.core.runner import Runner, RunnerInfo
from minillm.model import devices
from minillm.model.attention import AttentionBackend, AttentionMetadata, RowLayout
from minillm.model.attention.select import Geometry, backend_for
from minillm.model.config import ModelConfig
from minillm.model.cuda_graphs import CudaCapture, DecodeGraphs
from minillm.model.llama import Llama
from minillm.model.sampler import Sampler

GiB = 1 << 30


class ModelRunner(Runner):
    """A decoder, its KV cache and a sampler on one device.

    num_blocks: KV blocks that requests can use; None takes what the memory gives: on CUDA
    gpu_memory_utilization · total − already used − weights − activation peak, elsewhere
    kv_cache_memory (bytes). threads: CPU threads, None: OMP_NUM_THREADS or the physical cores.
    poison: a test mode in which unwritten KV is NaN, so that reading it shows. backend: None takes
    what is fastest here (attention/select.py). enforce_eager: no CUDA graphs (cuda_graphs.py);
    max_num_seqs: those of steps with up to so many rows are captured at once, others when needed.
    Raises ValueError for an unknown device or dtype, and for memory that holds no block.
    """

    def __init__(
        self,
        model_config: ModelConfig,
        weights: Mapping[str, torch.Tensor],
        *,
        device: str = "auto",
        dtype: str = "auto",
        num_blocks: int | None = None,
        block_size: int = 16,
        kv_cache_memory: int = GiB,
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
        max_num_batched_tokens: int = 2048,
        threads: int | None = None,
        poison: bool = False,
        backend: AttentionBackend | None = None,
        enforce_eager: bool = False,
        max_num_seqs: int = 0,
        seed: int | None = None,
    ) -> None:
        limit = model_config.max_position_embeddings
        if max_model_len is not None and not 2 <= max_model_len <= limit:
            raise ValueError(
                f"max_model_len must be between 2 and {limit}, which is what {model_config.name} "
                f"was made for, got {max_model_len}."
            )
        if block_size < 1:
            raise ValueError(f"block_size must be an integer ≥ 1, got {block_size}.")
        self.model_config = model_config
        self.device = devices.choose_device(device)
        self.dtype = devices.choose_dtype(dtype, self.device)
        self.threads = devices.set_threads(threads)
        self.block_size = block_size
        self.max_model_len = max_model_len or limit
        self.poison = poison
        self.backend = backend or backend_for(self._geometry())
        self.sampler = Sampler(seed)
        self.info = RunnerInfo(
            provenance="measured",
            device=devices.device_text(self.device, self.threads),
            model=model_config.name,
            dtype=str(self.dtype).removeprefix("torch."),
        )
        used_before = self._gpu_memory_used()
        self.model = self._make_model(weights)
        if num_blocks is None:
            budget = kv_cache_memory
            if self.device.type == "cuda":
                peak = self._activation_peak(min(max_num_batched_tokens, self.max_model_len))
                total = torch.cuda.get_device_properties(self.device).total_memory
                budget = int(gpu_memory_utilization * total) - used_before - peak
            num_blocks = self._blocks_in(budget)
        self.num_blocks = num_blocks
        self.kv_pool = self._allocate(num_blocks)
        self.graphs = None if enforce_eager else self._make_graphs(max_num_seqs)

    @property
    def bytes_per_block(self) -> int:
        """Key and value of block_size tokens in all layers."""
        c = self.model_config
        per_token = 2 * c.num_layers * c.num_kv_heads * c.head_dim * self.dtype.itemsize
        return per_token * self.block_size

    @torch.inference_mode()
    def execute(self, output: SchedulerOutput) -> StepResult:
        """One forward pass over all rows, padding included, and a token for each that samples."""
        replayed = self.graphs.run(output.rows) if self.graphs else None
        if replayed is None:
            rows, logits = self._compute(output.rows)
            filled = 0
        else:
            rows, logits, filled = replayed
            sampling = [i for i, row in enumerate(rows) if row.samples]
            if len(sampling) < len(rows):
                logits = logits[devices.to_device(sampling, torch.int64, self.device)]
        requests = [row.request for row in rows if row.samples]
        if not requests:
            return StepResult({}, graph_pad_rows=filled)
        tokens, logprobs = self.sampler.sample(logits, requests)
        ids = [request.request_id for request in requests]
        by_id = dict(zip(ids, tokens, strict=True))
        return StepResult(by_id, logprobs=logprobs, graph_pad_rows=filled)

    def close(self) -> None:
        """Free weights and KV cache."""
        self.kv_pool = None
        self.model = None
        self.graphs = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # ── inside ──────────────────────────────────────────────────────────────────────────────

    def _make_model(self, weights: Mapping[str, torch.Tensor]) -> Llama:
        return Llama(
            self.model_config, weights, dtype=self.dtype, device=self.device,
            max_positions=self.max_model_len,
        )  # fmt: skip

    def _blocks_in(self, budget: int) -> int:
        """How many KV blocks so many bytes hold; ValueError if not one."""
        num_blocks = budget // self.bytes_per_block
        if num_blocks < 1:
            raise ValueError(
                f"The memory for KV cache ({budget:,} bytes) holds not one block of "
                f"{self.bytes_per_block:,} bytes; give it more, or take a smaller model."
            )
        return num_blocks

    def _geometry(self) -> Geometry:
        c = self.model_config
        return Geometry(
            c.num_heads, c.num_kv_heads, c.head_dim, self.block_size, self.dtype, self.device
        )

    @torch.inference_mode()
    def _make_graphs(self, max_num_seqs: int) -> DecodeGraphs | None:
        """On CUDA, where backend and model let themselves be captured."""
        capturable = self.backend.capturable and self.model.capturable
        if self.device.type != "cuda" or not capturable:
            return None
        graphs = DecodeGraphs(
            self.model.forward, self.backend, self.kv_pool, block_size=self.block_size,
            max_model_len=self.max_model_len, capture=CudaCapture(self.device),
        )  # fmt: skip
        if max_num_seqs:
            graphs.prepare(max_num_seqs)
        return graphs

    def _compute(self, scheduled: list[ScheduledRow]) -> tuple[list[ScheduledRow], torch.Tensor]:
        """The rows as arranged, and the logits of those that sample."""
        rows = self.backend.arrange(scheduled, self.kv_pool)
        token_ids, positions, slots, logit_rows = self._pack(rows)
        layout = [
            RowLayout(row.start, row.num_tokens, row.num_padding, row.block_ids) for row in rows
        ]
        metadata = AttentionMetadata(layout, slots, self.block_size, self.num_blocks)
        plan = self.backend.plan(metadata, rows, self.kv_pool)
        logits = self.model.forward(
            token_ids, positions, self.kv_pool, self.backend, metadata, plan, logit_rows
        )
        return rows, logits

    def _pack(self, rows: list[ScheduledRow]) -> tuple[torch.Tensor, ...]:
        """Token ids, positions and slots [tokens], and the indices [n] of tokens that sample."""
        size, last_position = self.block_size, self.max_model_len - 1
        null_slot = self.num_blocks * size
        token_ids: list = []
        positions: list = []
        slots: list = []
        logit_rows: list[int] = []
        for request, start, num_tokens, num_padding, samples, blocks, _ in rows:
            end = start + num_tokens
            if num_tokens == 1:
                token_ids.append(request.token_ids[start])
                positions.append(start)
                slots.append(blocks[start // size] * size + start % size)
            else:
                token_ids.extend(request.token_ids[start:end])
                positions.extend(range(start, end))
                slots.extend(blocks[p // size] * size + p % size for p in range(start, end))
            if samples:
                logit_rows.append(len(token_ids) - 1)
            if num_padding:
                token_ids.extend([0] * num_padding)
                positions.extend(min(p, last_position) for p in range(end, end + num_padding))
                slots.extend([null_slot] * num_padding)
        count = len(token_ids)
        packed = list(chain(token_ids, positions, slots, logit_rows))
        packed = devices.to_device(packed, torch.int64, self.device)
        return packed.split([count, count, count, len(logit_rows)])

    def _allocate(self, num_blocks: int) -> torch.Tensor:
        """The pool and its null block. On a CPU zeros cost no memory until written to."""
        c = self.model_config
        slots = (num_blocks + 1) * self.block_size
        shape = (c.num_layers, slots, 2, c.num_kv_heads, c.head_dim)
        if self.poison:
            return torch.full(shape, float("nan"), dtype=self.dtype, device=self.device)
        return devices.zeros(shape, self.dtype, self.device)

    def _gpu_memory_used(self) -> int:
        """Bytes of GPU memory that others (and torch itself) already hold."""
        if self.device.type != "cuda":
            return 0
        free, total = torch.cuda.mem_get_info(self.device)
        return total - free

    @torch.inference_mode()
    def _activation_peak(self, tokens: int) -> int:
        """Bytes that weights and the largest step take on CUDA: one prefill of `tokens`, tried."""
        blocks = -(-tokens // self.block_size)
        pool = self._allocate(blocks)
        torch.cuda.reset_peak_memory_stats(self.device)
        index = torch.arange(tokens, device=self.device)
        layout = [RowLayout(0, tokens, 0, tuple(range(blocks)))]
        metadata = AttentionMetadata(layout, index, self.block_size, blocks)
        plan = self.backend.plan(metadata, [], pool)
        zeros = torch.zeros_like(index)
        self.model.forward(zeros, index, pool, self.backend, metadata, plan, index[-1:])
        torch.cuda.synchronize(self.device)
        peak = torch.cuda.max_memory_allocated(self.device) - pool.nbytes
        del pool
        torch.cuda.empty_cache()
        return peak
