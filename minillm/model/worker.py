"""One worker of a model that is split over processes: `python -m minillm.model.worker`.

WorkerGroup (workers.py) starts it and talks with it over an inherited socket. It ends when that
closes, whatever it is at: nobody is left behind, however the parent went.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue

import torch

from minillm.core.batch import StepResult
from minillm.model.loader import load_weights
from minillm.model.ranks import PeerLostError, Ranks, join
from minillm.model.runner import ModelRunner
from minillm.model.sampler import Sampler
from minillm.model.shard import Shard
from minillm.model.stage import StageLlama
from minillm.model.wire import Failure, Hello, Setup, StepDecoder, WireStep, WorkerReport

PARENT_CHECK_S = 2.0  # a fork of the parent may hold the socket open though the parent has gone


class SilentSampler(Sampler):
    """On the ranks that have no logits: another one chooses the tokens."""

    def sample(self, logits, requests):
        return [-1] * len(requests), {}


class ShardRunner(ModelRunner):
    """A ModelRunner for one worker's part. weights: what the shard kept of them."""

    def __init__(self, shard: Shard, weights: dict[str, torch.Tensor], ranks: Ranks, **options):
        self.shard, self.ranks = shard, ranks
        super().__init__(shard.local_config(), weights, **options)
        if shard.rank != shard.parallel.reporter:
            self.sampler = SilentSampler()

    def _make_model(self, weights: dict[str, torch.Tensor]) -> StageLlama:
        return StageLlama(
            self.shard, weights, self.ranks, dtype=self.dtype, device=self.device,
            max_positions=self.max_model_len,
        )  # fmt: skip

    def _blocks_in(self, budget: int) -> int:
        """As many as the worker with the least room holds: all have the same block table."""
        return self.ranks.minimum(super()._blocks_in(budget))


class Worker:
    """Answers messages one by one."""

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.device = torch.device(hello.device)
        self.runner: ShardRunner | None = None
        self.decoder = StepDecoder()
        join(hello.rank, hello.num_workers, self.device, hello.folder)

    def answer(self, message: Setup | WireStep) -> WorkerReport | StepResult | None:
        """A report for a Setup; a step's result, from the rank that samples, for a step."""
        if isinstance(message, Setup):
            return self.take_up(message)
        result = self.runner.execute(self.decoder.decode(message))
        return result if self.hello.rank == self.runner.shard.parallel.reporter else None

    def take_up(self, setup: Setup) -> WorkerReport:
        if self.runner is not None:
            self.runner.close()
        shard = Shard(setup.config, setup.parallel, self.hello.rank)
        ranks = Ranks(shard, self.device)
        _, weights = load_weights(setup.source, keep=shard.keep)
        self.runner = ShardRunner(shard, weights, ranks, device=self.hello.device, **setup.options)
        self.decoder = StepDecoder()
        return report(self.runner, weights)


def report(runner: ShardRunner, weights: dict[str, torch.Tensor]) -> WorkerReport:
    shard, local = runner.shard, runner.model_config
    last = min(shard.first_token + shard.vocab_rows, local.vocab_size)
    vocabulary = range(min(shard.first_token, last), last)
    if not (shard.is_first or shard.is_last):
        vocabulary = range(0)
    kept = {weight.data_ptr(): weight.numel() for weight in weights.values()}  # tied: once
    return WorkerReport(
        rank=shard.rank, stage=shard.stage, tensor_rank=shard.tensor_rank,
        process_id=os.getpid(), device=runner.info.device, layers=shard.layers,
        num_heads=local.num_heads, num_kv_heads=local.num_kv_heads, vocabulary=vocabulary,
        weight_bytes=sum(kept.values()) * runner.dtype.itemsize, num_blocks=runner.num_blocks,
        block_size=runner.block_size, bytes_per_block=runner.bytes_per_block,
        max_model_len=runner.max_model_len, dtype=runner.info.dtype,
    )  # fmt: skip


def listen(channel: Connection, inbox: SimpleQueue, parent: int) -> None:
    """Put messages into the inbox; end this process when there is nobody left to send any."""
    try:
        while True:
            while not channel.poll(PARENT_CHECK_S):
                if os.getppid() != parent:
                    return
            inbox.put(channel.recv())
    except (EOFError, OSError):
        pass  # the parent has closed its end, or is gone
    finally:
        os._exit(0)


def main() -> None:
    channel = Connection(int(sys.argv[1]))
    inbox: SimpleQueue = SimpleQueue()
    message: Setup | WireStep | None = None
    try:
        hello: Hello = channel.recv()
        arguments = (channel, inbox, hello.parent)
        threading.Thread(target=listen, args=arguments, daemon=True).start()
        worker = Worker(hello)
        while True:
            message = inbox.get()
            answer = worker.answer(message)
            if answer is not None:
                channel.send(answer)
    except EOFError:
        pass
    except Exception as error:
        refusal = isinstance(error, ValueError) and isinstance(message, Setup)
        text = str(error) if refusal else f"{type(error).__name__}: {error}"
        echo = isinstance(error, PeerLostError)
        channel.send(Failure(text, refusal, echo, traceback.format_exc()))
    os._exit(1)  # at once: torch.distributed would wait for the others


if __name__ == "__main__":
    main()
