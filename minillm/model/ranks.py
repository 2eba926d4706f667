"""The worker's ties to the others: sums and gathers in its stage, hidden states between stages.

torch.distributed carries them: gloo between processes on CPUs, NCCL between GPUs. One process
group of the whole world, and one for each stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from minillm.model.shard import Shard


class PeerLostError(RuntimeError):
    """Talking with another worker failed: most likely that one has ended, and knows why."""


def join(rank: int, num_workers: int, device: torch.device, folder: Path) -> None:
    """Meet the other workers through a file in a folder of their own; no port is opened for it."""
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    store = dist.FileStore(str(folder / "rendezvous"), num_workers)
    dist.init_process_group(backend, store=store, rank=rank, world_size=num_workers)


class Ranks:
    """See the module's text. Every worker makes one at the same time, with its own shard."""

    def __init__(self, shard: Shard, device: torch.device) -> None:
        size = shard.parallel.tensor_parallel_size
        firsts = range(0, shard.parallel.num_workers, size)
        # Each worker takes part in making each group, its own or not.
        groups = [dist.new_group(range(first, first + size)) for first in firsts]
        self.group, self.size = groups[shard.stage], size
        self.first = shard.stage * size  # tensor rank 0 of this stage, in the world
        self.is_first_rank = shard.tensor_rank == 0
        self.next, self.previous = shard.rank + size, shard.rank - size
        self.device = device

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        """x summed over the stage's ranks, in place and on each of them."""
        if self.size == 1:
            return x
        with _peers():
            dist.all_reduce(x, group=self.group)
        return x

    def gather(self, x: torch.Tensor) -> torch.Tensor | None:
        """x [rows, n] of all ranks beside one another [rows, ranks · n], on rank 0 alone."""
        if self.size == 1:
            return x
        parts = x.new_empty(self.size, *x.shape) if self.is_first_rank else None
        into = None if parts is None else list(parts.unbind())
        with _peers():
            dist.gather(x, into, dst=self.first, group=self.group)
        return None if parts is None else parts.transpose(0, 1).flatten(1)

    def send(self, x: torch.Tensor) -> None:
        """Give the hidden states to the next stage's worker of the same tensor rank."""
        with _peers():
            dist.send(x, self.next)

    def receive(self, x: torch.Tensor) -> torch.Tensor:
        """Fill x with the hidden states that the stage before sends."""
        with _peers():
            dist.recv(x, self.previous)
        return x

    def minimum(self, number: int) -> int:
        """The least of all workers' numbers."""
        least = torch.tensor(number, device=self.device)
        with _peers():
            dist.all_reduce(least, op=dist.ReduceOp.MIN)
        return int(least)


@contextmanager
def _peers() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError(f"Another worker can't be reached: {error}") from error
