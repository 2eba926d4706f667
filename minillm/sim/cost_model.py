"""How long a step takes, from three constants: the simplest model that shows why batching pays.

    seconds = step_s + token_s · (tokens in the step) + context_s · Σ (context of each row)

step_s is the pass over the weights, which all rows share; token_s the arithmetic of one token;
context_s the reading of one token's KV. Padding costs like real tokens: it is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from minillm.core.batch import ScheduledRow


@dataclass(frozen=True, slots=True)
class CostModel:
    """Three constants, in seconds. The defaults resemble Llama-3.1-8B bf16 on an A100 80 GB.

    They pass near that pair's step times (simulated by the full cost model of this course's
    design: 11.9 ms for one sequence, 23.9 ms for 128 at context 512, 41 ms at context 2,048).
    """

    step_s: float = 11.8e-3
    token_s: float = 49e-6
    context_s: float = 87e-9

    def __post_init__(self) -> None:
        for name in ("step_s", "token_s", "context_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a number of seconds ≥ 0, got {value!r}.")

    def terms(self, rows: Iterable[ScheduledRow]) -> dict[str, float]:
        """The step's time opened into its terms, in seconds; the step takes their sum."""
        tokens = context = 0
        columns = tuple(zip(*rows, strict=True))  # sums over columns run in C: this is the hot loop
        if columns:
            _, starts, reals, pads, _, _, _ = columns
            tokens = sum(reals) + sum(pads)
            context = sum(starts) + tokens
        return {
            "weights": self.step_s,
            "tokens": self.token_s * tokens,
            "kv": self.context_s * context,
        }
