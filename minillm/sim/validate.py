"""Predicted against measured: the errors of the simulator on a table of published figures.

MAPE is the mean of |predicted/measured − 1|, bias the mean of predicted/measured − 1, in percent.
Rows whose measurement is known to be off are reported apart, and count in no mean; rows that cannot
be modelled are listed with the reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minillm.sim.measured_rows import GROUP, CannotModel, MeasuredRow, read_rows
from minillm.sim.predict import DECODE_METRICS, Predictor

_SUSPECT = (  # (pattern of the source or engine, pattern of the metric, reason)
    (r"trtllm|tensorrt-llm 1", r"ttft_mean$",
     "the mean grows with the output length: a start-up artefact"),
    (r"vllm 0\.12.*h200.*fp8|h200.*fp8.*vllm 0\.12", r".",
     "the prompts were probably in the prefix cache"),
    (r"performance.md v0\.6.*tp[2-9]", r"output_throughput$",
     "the source's table counts per GPU, this row does not say so"),
    (r"\bnim\b", r".", "the headings of hardware and lengths are lost"),
    (r"splitwise", r".", "old eager software, bound by the CPU"),
    (r"accelmark.*\bh200\b.*vllm", r"output_throughput_sustained$", "a slow host CPU"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """A row with its prediction, or the reason why there is none; suspect: why not to trust it."""

    row: MeasuredRow
    predicted: float | None
    reason: str = ""
    suspect: str = ""

    @property
    def error(self) -> float:
        """predicted/measured − 1."""
        if self.predicted is None:
            raise ValueError(f"Line {self.row.line} has no prediction: {self.reason}.")
        predicted, measured = self.predicted, self.row.value
        if self.row.metric == "decode_speed":  # as a time per token, like the others
            return measured / predicted - 1
        return predicted / measured - 1

    @property
    def is_decode(self) -> bool:
        """Counts for the accuracy of decode: a decode metric of exactly high confidence."""
        return self.row.metric in DECODE_METRICS and self.row.confidence == "high"


def suspect_reason(row: MeasuredRow) -> str:
    """Why the figure itself is doubtful; empty when it is not known to be."""
    text = f"{row.source} | {row.hardware} | {row.dtype} | {row.engine}".lower()
    for where, metric, reason in _SUSPECT:
        if re.search(where, text) and re.match(metric, row.metric):
            return reason
    return ""


def in_fit_half(row: MeasuredRow) -> bool:
    """The stated rule: a row may be fitted on when the SHA-256 of its key starts with an even byte.

    The key is everything but the value; about half of the rows are held out.
    """
    return hashlib.sha256(row.key.encode()).digest()[0] % 2 == 0


def compare(rows: Sequence[MeasuredRow], predictor: Predictor | None = None) -> list[Compared]:
    """Every row with its prediction."""
    predictor = predictor or Predictor()
    compared = []
    for row in rows:
        suspect = suspect_reason(row)
        try:
            compared.append(Compared(row, predictor.predict(row), suspect=suspect))
        except CannotModel as error:
            compared.append(Compared(row, None, str(error), suspect))
    return compared


def summary(compared: Iterable[Compared]) -> dict[str, float | int | None]:
    """{n, mape, bias} in percent; None where there is no row."""
    errors = [item.error for item in compared]
    if not errors:
        return {"n": 0, "mape": None, "bias": None}
    n = len(errors)
    mape = 100 * sum(abs(error) for error in errors) / n
    return {"n": n, "mape": round(mape, 2), "bias": round(100 * sum(errors) / n, 2)}


def validate_report(lines: Iterable[str]) -> dict:
    """The object of `minillm simulate validate`, from the lines of a CSV file.

    groups, overall, decode (and its parts: fit and held-out half, bf16 on up to 4 GPUs), coverage,
    suspect and skipped. Raises ValueError for a broken table, with the line number.
    """
    compared = compare(read_rows(lines))
    trusted = [c for c in compared if c.predicted is not None and not c.suspect]
    decode = [c for c in trusted if c.is_decode]
    numeric = [c for c in compared if c.row.value == c.row.value]
    modelled = [c for c in numeric if c.predicted is not None]
    return {
        "groups": _groups(trusted),
        "overall": summary(trusted),
        "decode": summary(decode),
        "decode_fit_half": summary(c for c in decode if in_fit_half(c.row)),
        "decode_held_out_half": summary(c for c in decode if not in_fit_half(c.row)),
        "decode_bf16_tp1_4": summary(c for c in decode if _bf16_few(c)),
        "coverage": {
            "rows": len(compared),
            "numeric": len(numeric),
            "modelled": len(modelled),
            "fraction": round(len(modelled) / len(numeric), 4) if numeric else 0.0,
        },
        "suspect": _suspects(compared),
        "skipped": [
            {"line": c.row.line, "reason": c.reason} for c in compared if c.predicted is None
        ],
    }


def _groups(compared: Sequence[Compared]) -> list[dict]:
    """Errors per source, hardware, model, engine and metric, in the order of the file."""
    groups: dict[tuple, list[Compared]] = {}
    for item in compared:
        groups.setdefault(tuple(getattr(item.row, name) for name in GROUP), []).append(item)
    return [dict(zip(GROUP, key, strict=True)) | summary(items) for key, items in groups.items()]


def _suspects(compared: Sequence[Compared]) -> list[dict]:
    """Doubtful rows per group, with the reason and what the model says of them."""
    groups: dict[tuple, list[Compared]] = {}
    for item in compared:
        if item.suspect:
            key = (*(getattr(item.row, name) for name in GROUP), item.suspect)
            groups.setdefault(key, []).append(item)
    return [
        dict(zip((*GROUP, "reason"), key, strict=True))
        | {"lines": [c.row.line for c in items]}
        | summary(c for c in items if c.predicted is not None)
        for key, items in groups.items()
    ]


def _bf16_few(compared: Compared) -> bool:
    row = compared.row
    if row.dtype.lower() not in ("bf16", "fp16"):
        return False
    split = re.search(r"tp ?=? ?(\d+)|^(\d+) ?x|\bx ?(\d+)", row.hardware.lower())
    return not split or int(next(filter(None, split.groups()))) <= 4
