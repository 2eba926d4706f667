"""What an engine and its workers say to each other; a step: only what they don't know yet.

A worker keeps a stand-in for each request that was in the last step. The next step's message
brings its new tokens and, if it has changed, its block table; a request that was not in the last
step comes whole. So a decode step of n rows is a few hundred bytes and some n · 20.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minillm.core.batch import ScheduledRow, SchedulerOutput
from minillm.core.request import Request
from minillm.core.sampling_params import SamplingParams
from minillm.model.config import ModelConfig
from minillm.model.shard import ParallelConfig


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message: who the worker is, and where the others are found."""

    rank: int
    num_workers: int
    device: str
    folder: Path
    parent: int  # process id


@dataclass(frozen=True, slots=True)
class Setup:
    """Take up a model. source: a folder, a .gguf file or `dummy:PATH`. options: ModelRunner's."""

    source: str | Path | ModelConfig
    config: ModelConfig
    parallel: ParallelConfig
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker holds: its part of the model (layers and token ids as ranges), its memory."""

    rank: int
    stage: int
    tensor_rank: int
    process_id: int
    device: str
    layers: range
    num_heads: int
    num_kv_heads: int
    vocabulary: range
    weight_bytes: int
    num_blocks: int
    block_size: int
    bytes_per_block: int
    max_model_len: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The last message of a worker that can't go on: why, in words, and with its traceback.

    is_refusal: a ValueError about the Setup. is_echo: it only noticed that another ended.
    """

    text: str
    is_refusal: bool
    is_echo: bool
    details: str


class Introduction(NamedTuple):
    """What a worker learns once about a request."""

    request_id: str
    params: SamplingParams
    stop_ids: frozenset[int]
    num_prompt_tokens: int


class WireRow(NamedTuple):
    """A ScheduledRow without its request. key: names the request while it stays in the steps.

    introduction: on the first of these steps. new_tokens: since the last one. block_ids: None
    where they haven't changed. The rest as in ScheduledRow.
    """

    key: int
    introduction: Introduction | None
    new_tokens: tuple[int, ...]
    block_ids: tuple[int, ...] | None
    start: int
    num_tokens: int
    num_padding: int
    samples: bool
    is_dead: bool


class WireStep(NamedTuple):
    """A SchedulerOutput for workers."""

    step_id: int
    rows: list[WireRow]
    preempted_ids: tuple[str, ...]
    finished_ids: tuple[str, ...]


class StandIn:
    """A request as the worker's runner and sampler see it. Compared by identity, like the real."""

    __slots__ = ("block_ids", "num_prompt_tokens", "params", "request_id", "stop_ids", "token_ids")

    def __init__(self, introduction: Introduction) -> None:
        self.request_id, self.params, self.stop_ids, self.num_prompt_tokens = introduction
        self.token_ids: list[int] = []
        self.block_ids: tuple[int, ...] = ()

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens


class Known(NamedTuple):
    """What the workers know of a request."""

    key: int
    num_tokens: int
    block_ids: tuple[int, ...]


class StepEncoder:
    """On the engine's side: remembers what the workers know."""

    def __init__(self) -> None:
        self._known: dict[Request, Known] = {}
        self._num_keys = 0

    def encode(self, output: SchedulerOutput) -> WireStep:
        known: dict[Request, Known] = {}
        wire: list[WireRow] = []
        for row in output.rows:
            request = row.request
            before = self._known.get(request)
            introduction = None
            if before is None:
                before = Known(self._num_keys, 0, ())
                self._num_keys += 1
                introduction = Introduction(
                    request.request_id, request.params, request.stop_ids, request.num_prompt_tokens
                )
            tokens = tuple(request.token_ids[before.num_tokens :])
            blocks = None if row.block_ids == before.block_ids else row.block_ids
            known[request] = Known(before.key, before.num_tokens + len(tokens), row.block_ids)
            wire.append(WireRow(
                before.key, introduction, tokens, blocks,
                row.start, row.num_tokens, row.num_padding, row.samples, row.is_dead,
            ))  # fmt: skip
        self._known = known
        return WireStep(output.step_id, wire, output.preempted_ids, output.finished_ids)


class StepDecoder:
    """On a worker's side: the stand-ins of the last step's requests."""

    def __init__(self) -> None:
        self._requests: dict[int, StandIn] = {}

    def decode(self, step: WireStep) -> SchedulerOutput:
        requests: dict[int, StandIn] = {}
        rows = []
        for row in step.rows:
            request = self._requests.get(row.key) or StandIn(row.introduction)
            request.token_ids.extend(row.new_tokens)
            if row.block_ids is not None:
                request.block_ids = row.block_ids
            requests[row.key] = request
            rows.append(ScheduledRow(
                request, row.start, row.num_tokens, row.num_padding, row.samples,
                request.block_ids, row.is_dead,
            ))  # fmt: skip
        self._requests = requests
        return SchedulerOutput(step.step_id, rows, step.preempted_ids, step.finished_ids)
