"""How a cluster is written down: `4xA100-80GB-SXM:tp2,2xH100-80GB-SXM` and `2@30s-60s`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise

MAX_REPLICAS = 1024
REPLICAS_SYNTAX = "N x GPU[:tpK][:ppK], several by comma, such as 4xA100-80GB-SXM:tp2"
FAILURE_SYNTAX = "REPLICA@START-END with seconds, such as 2@30s-60s, or 2@30s for good"

_GROUP = re.compile(r"(?:(\d+)\s*[x×]\s*)?([A-Za-z][\w.-]*)((?:\s*:\s*(?:tp|pp)\d+)*)")
_FAILURE = re.compile(r"(\d+)\s*@\s*([\d.]+)\s*s?(?:\s*[-–]\s*([\d.]+)\s*s?)?")


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica: tp × pp GPUs of a kind that serve the model together."""

    gpu: str
    tp: int = 1
    pp: int = 1

    def __str__(self) -> str:
        parts = [self.gpu]
        parts += [f"tp{self.tp}"] if self.tp > 1 else []
        parts += [f"pp{self.pp}"] if self.pp > 1 else []
        return ":".join(parts)

    @property
    def num_gpus(self) -> int:
        return self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Failure:
    """Replica number `replica` (from 0) is down from `start` to `end` seconds; None: for good."""

    replica: int
    start: float
    end: float | None = None


def parse_replicas(text: str) -> list[ReplicaSpec]:
    """The replicas in order. ValueError with the syntax, or with the number that is wrong."""
    replicas: list[ReplicaSpec] = []
    for part in text.split(","):
        match = _GROUP.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"Cannot read the replicas {part.strip()!r}: write {REPLICAS_SYNTAX}.")
        count = int(match[1] or 1)
        sizes = {"tp": 1, "pp": 1}
        for kind, number in re.findall(r"(tp|pp)(\d+)", match[3]):
            sizes[kind] = int(number)
        if not 1 <= count <= MAX_REPLICAS or min(sizes.values()) < 1:
            raise ValueError(
                f"In {part.strip()!r} the number of replicas must be 1 to {MAX_REPLICAS}, "
                f"tp and pp at least 1."
            )
        replicas += [ReplicaSpec(match[2], **sizes)] * count
    if len(replicas) > MAX_REPLICAS:
        raise ValueError(f"A cluster has at most {MAX_REPLICAS} replicas, got {len(replicas)}.")
    return replicas


def parse_failures(text: str, num_replicas: int) -> list[Failure]:
    """The failures, several by comma, in order of time. ValueError in one sentence."""
    failures = []
    for part in text.split(","):
        match = _FAILURE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"Cannot read the failure {part.strip()!r}: write {FAILURE_SYNTAX}.")
        try:
            start, end = float(match[2]), None if match[3] is None else float(match[3])
        except ValueError:
            raise ValueError(
                f"Cannot read the times in {part.strip()!r}: write {FAILURE_SYNTAX}."
            ) from None
        failures.append(Failure(int(match[1]), start, end))
    return check_failures(failures, num_replicas)


def check_failures(failures: list[Failure], num_replicas: int) -> list[Failure]:
    """Sorted by start. ValueError: no such replica, an end before its start, an overlap."""
    for failure in failures:
        if not 0 <= failure.replica < num_replicas:
            raise ValueError(
                f"There is no replica {failure.replica}: the {num_replicas} replicas are numbered "
                f"0 to {num_replicas - 1}."
            )
        end = math.inf if failure.end is None else failure.end
        if not 0 <= failure.start < end:
            raise ValueError(
                f"Replica {failure.replica} cannot be down from {failure.start:g} s "
                f"to {end:g} s: the end must come after the start."
            )
    ordered = sorted(failures, key=lambda failure: (failure.replica, failure.start))
    for before, after in pairwise(ordered):
        if before.replica == after.replica and (before.end is None or before.end > after.start):
            raise ValueError(
                f"Replica {after.replica} cannot fail at {after.start:g} s: it is down then."
            )
    return sorted(failures, key=lambda failure: (failure.start, failure.replica))
