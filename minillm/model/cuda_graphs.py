"""Decode steps on CUDA as captured graphs: a few hundred kernels started with one call.

A small model's decode step on a GPU is bound by Python, which starts its kernels one by one. A
CUDA graph records them once and replays them on the same memory. So a graph is captured for each
of a few batch sizes (*buckets*), its inputs lie in tensors that are made once, and a step fills
them with one copy. What a bucket has more rows than the step is filled up with rows that read and
write the null block alone. Graphs share their memory: a result holds until the next replay.

A step is computed this way if each of its rows has one token; others, with prompts in them, run
their kernels one by one, which long kernels hide.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch

from minillm.core.batch import ScheduledRow
from minillm.core.request import Request
from minillm.model.attention import AttentionBackend, AttentionMetadata
from minillm.model.devices import to_device

BUCKETS = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))

Compute = Callable[[], torch.Tensor]
Capture = Callable[[Compute], Compute]  # records a computation; calling the result replays it
INPUTS = 4  # token id, position, slot and sequence length of each row


def bucket_for(rows: int) -> int | None:
    """The smallest bucket with room for so many rows; None: there is none."""
    at = bisect_left(BUCKETS, rows)
    return BUCKETS[at] if at < len(BUCKETS) else None


class CudaCapture:
    """Captures computations on one CUDA device into graphs that share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = None

    def __call__(self, compute: Compute) -> Compute:
        with torch.cuda.device(self.device):
            side, own = torch.cuda.Stream(), torch.cuda.current_stream()
            side.wait_stream(own)
            with torch.cuda.stream(side):
                compute()  # compiles kernels and sets libraries up, which a capture can't hold
            own.wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            # thread_local: what other threads do on the GPU meanwhile is none of its business.
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                result = compute()
            self.pool = self.pool or graph.pool()

        def replay() -> torch.Tensor:
            graph.replay()
            return result

        return replay


class PlacedTables:
    """Block tables on the device, int32 [places, width]: one row a sequence, kept between steps.

    A sequence keeps its place as long as it is in every step; the places in use are the first
    ones. Only what changed is sent: most steps of most sequences add no block. A row that isn't
    in use begins with the null block.
    """

    def __init__(self, places: int, width: int, null_block: int, device: torch.device) -> None:
        self.null_block = null_block
        self.tensor = torch.full((places, width), null_block, dtype=torch.int32, device=device)
        self.members: list[Request] = []  # of place 0, 1, …
        self._sent: list[tuple[int, ...]] = []  # what the device's row says

    def place(self, rows: Sequence[ScheduledRow]) -> list[ScheduledRow]:
        """Bring the tables up to date; the rows in the order of their places."""
        by_request = {row.request: row for row in rows}
        before = len(self.members)
        for place in reversed(range(before)):
            if self.members[place] not in by_request:
                self._vacate(place)
        held = set(self.members)
        joining = [request for request in by_request if request not in held]
        self.members += joining
        self._sent += [()] * len(joining)
        width = self.tensor.shape[1]
        where = [place * width for place in range(len(self.members), before)]
        values = [self.null_block] * len(where)
        for place, request in enumerate(self.members):
            table, sent = by_request[request].block_ids, self._sent[place]
            if table is not sent:
                known = len(sent) if table[: len(sent)] == sent else 0
                where.extend(range(place * width + known, place * width + len(table)))
                values.extend(table[known:])
                self._sent[place] = table
        if where:
            index, blocks = to_device([where, values], torch.int64, self.tensor.device)
            self.tensor.view(-1).index_copy_(0, index, blocks.to(torch.int32))
        return [by_request[request] for request in self.members]

    def _vacate(self, place: int) -> None:
        """The last member moves to that place, so that the places in use stay the first ones."""
        last = self.members.pop()
        self._sent.pop()
        if place < len(self.members):
            self.members[place] = last
            self._sent[place] = ()


class DecodeGraphs:
    """A model's decode steps, a graph for each bucket, captured when first needed or by `prepare`.

    forward: Llama.forward. kv_pool, backend: see attention/base.py; the backend is capturable.
    """

    def __init__(
        self,
        forward: Callable[..., torch.Tensor],
        backend: AttentionBackend,
        kv_pool: torch.Tensor,
        *,
        block_size: int,
        max_model_len: int,
        capture: Capture,
    ) -> None:
        self.forward, self.backend, self.kv_pool = forward, backend, kv_pool
        self.block_size, self.last_position = block_size, max_model_len - 1
        self.num_blocks = kv_pool.shape[1] // block_size - 1
        self.capture: Capture | None = capture  # None once it has failed
        device = kv_pool.device
        width = -(-max_model_len // block_size)
        self.tables = PlacedTables(BUCKETS[-1], width, self.num_blocks, device)
        self.inputs = torch.zeros(INPUTS * BUCKETS[-1], dtype=torch.int64, device=device)
        self.every_row = torch.arange(BUCKETS[-1], device=device)
        self.logits: torch.Tensor | None = None  # where every graph leaves its result
        self.graphs: dict[int, Compute] = {}

    def prepare(self, rows: int) -> None:
        """Capture the graphs of steps with up to so many rows, the largest first."""
        largest = bucket_for(rows) or BUCKETS[-1]
        for bucket in reversed([b for b in BUCKETS if b <= largest]):
            self._graph(bucket)

    def run(
        self, rows: Sequence[ScheduledRow]
    ) -> tuple[list[ScheduledRow], torch.Tensor, int] | None:
        """The rows in the order computed, their logits [rows, vocab], how many were filled up.

        None for a step that no graph computes: nothing has changed then.
        """
        bucket = bucket_for(len(rows))
        if bucket is None or any(row.num_tokens + row.num_padding != 1 for row in rows):
            return None
        graph = self._graph(bucket)
        if graph is None:
            return None
        placed = self.tables.place(rows)
        self._fill(placed, bucket)
        return placed, graph()[: len(placed)], bucket - len(placed)

    def _graph(self, bucket: int) -> Compute | None:
        graph = self.graphs.get(bucket)
        if graph is None and self.capture is not None:
            self._fill([], bucket)  # to capture is to compute: on no sequence's blocks
            try:
                graph = self.graphs[bucket] = self.capture(lambda: self._compute(bucket))
            except RuntimeError as error:  # no memory left, or a kernel that can't be captured
                self.capture = None
                text = str(error).strip().partition("\n")[0]
                warnings.warn(
                    f"Decode steps of {bucket} rows could not be captured in a CUDA graph "
                    f"({text}); they and any not captured so far run slower, kernel by kernel.",
                    RuntimeWarning, stacklevel=2,
                )  # fmt: skip
        return graph

    def _compute(self, bucket: int) -> torch.Tensor:
        token_ids, positions, slots, lens = self.inputs[: INPUTS * bucket].view(INPUTS, -1)
        metadata = AttentionMetadata([], slots, self.block_size, self.num_blocks)
        tables = self.tables.tensor[:bucket]
        plan = self.backend.decode_plan(metadata, lens.to(torch.int32), tables, self.kv_pool)
        logits = self.forward(
            token_ids, positions, self.kv_pool, self.backend, metadata, plan,
            self.every_row[:bucket],
        )  # fmt: skip
        if self.logits is None:
            self.logits = logits.new_empty((BUCKETS[-1], logits.shape[1]))
        # What a graph returned itself would keep memory that the other graphs could use.
        return self.logits[:bucket].copy_(logits)

    def _fill(self, rows: Sequence[ScheduledRow], bucket: int) -> None:
        """One copy brings a step's inputs; rows of no sequence see one key, in the null block."""
        size = self.block_size
        null_slot = self.num_blocks * size
        token_ids, positions, slots, lens = [], [], [], []
        for request, start, num_tokens, _, _, blocks, _ in rows:
            if num_tokens:
                token_ids.append(request.token_ids[start])
                slots.append(blocks[start // size] * size + start % size)
            else:  # a dead row
                token_ids.append(0)
                slots.append(null_slot)
            positions.append(min(start, self.last_position))
            lens.append(start + num_tokens)
        none = bucket - len(rows)
        token_ids += [0] * none
        positions += [0] * none
        slots += [null_slot] * none
        lens += [1] * none
        packed = torch.tensor(
            token_ids + positions + slots + lens, pin_memory=self.inputs.device.type == "cuda"
        )
        self.inputs[: INPUTS * bucket].copy_(packed, non_blocking=True)
