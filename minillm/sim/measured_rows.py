"""Reads a table of published figures, and says which simulated set-up a row means.

CSV with a header; the columns are COLUMNS, in any order, others are ignored. A row names hardware,
model and engine as its source does: `h100_sxm tp4`, `4xA100-80GB-SXM`, `GeForce RTX 4090 x8 tp8`.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from minillm.sim.hardware import GPUS, GPUSpec
from minillm.sim.models import DTYPES, MODELS, DType, ModelSpec
from minillm.sim.presets import EnginePreset, preset_for

COLUMNS = (
    "source", "hardware", "model", "dtype", "engine", "metric", "batch_or_concurrency",
    "input_len", "output_len", "value", "unit", "confidence",
)  # fmt: skip
GROUP = ("source", "hardware", "model", "engine", "metric")


class CannotModel(ValueError):
    """The reason, in a few words, why a row has no prediction."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One published figure; `line` is its line in the file, the header being line 1."""

    line: int
    source: str
    hardware: str
    model: str
    dtype: str
    engine: str
    metric: str
    batch: str
    input_len: str
    output_len: str
    value: float  # nan: not a number
    unit: str
    confidence: str

    @property
    def key(self) -> str:
        """What the row measures, without the value: names it in a split into halves."""
        return "|".join(
            (self.source, self.hardware, self.model, self.dtype, self.engine, self.metric,
             self.batch, self.input_len, self.output_len)
        )  # fmt: skip


def read_rows(lines: Iterable[str]) -> list[MeasuredRow]:
    """Parse the table. Raises ValueError with the line number of a broken row."""
    reader = csv.reader(lines)
    header = next(reader, None)
    if not header:
        raise ValueError("The table of measured figures is empty: it has no header line.")
    header[0] = header[0].lstrip("\ufeff")
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise ValueError(f"The table of measured figures has no column {', '.join(missing)}.")
    at = [header.index(name) for name in COLUMNS]
    rows = []
    for cells in reader:
        if not cells:
            continue
        if len(cells) != len(header):
            raise ValueError(
                f"Line {reader.line_num} of the table of measured figures has {len(cells)} "
                f"columns instead of {len(header)}."
            )
        *before, value, unit, confidence = (cells[i].strip() for i in at)
        rows.append(MeasuredRow(reader.line_num, *before, _number(value), unit, confidence))
    if not rows:
        raise ValueError("The table of measured figures has a header but no row.")
    return rows


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


# ── names ───────────────────────────────────────────────────────────────────────────────────

_GPU_WORDS = (  # (a pattern in the hardware's name, the GPU), the first that matches
    (r"h200", "H200-141GB-SXM"),
    (r"h20-?3e|h20.*141", "H20-141GB-SXM"),
    (r"h20(?!\d)", "H20-96GB-SXM"),
    (r"h800", "H800-80GB-SXM"),
    (r"h100.*(nvl|94)", "H100-94GB-NVL"),
    (r"h100.*pcie", "H100-80GB-PCIE"),
    (r"h100", "H100-80GB-SXM"),
    (r"a800", "A800-80GB-SXM"),
    (r"a100.*40.*pcie|a100.*pcie.*40", "A100-40GB-PCIE"),
    (r"a100.*pcie", "A100-80GB-PCIE"),
    (r"a100.*40 ?gb", "A100-40GB-SXM"),
    (r"a100", "A100-80GB-SXM"),
    (r"b200", "B200-180GB-SXM"),
    (r"pro ?6000", "RTXPRO6000"),
    (r"6000 ?ada", "RTX6000-ADA"),
    (r"a6000", "RTX-A6000"),
    (r"5090", "RTX5090"),
    (r"4090 ?d", "RTX4090D"),
    (r"4090", "RTX4090"),
    (r"3090", "RTX3090"),
    (r"l40s", "L40S"),
    (r"l4(?!\d)", "L4"),
    (r"a40(?!\d)", "A40"),
    (r"a10g?(?!\d)", "A10"),
)


def gpu_and_tp(hardware: str) -> tuple[GPUSpec, int]:
    """The GPU and over how many the model is split. Raises CannotModel."""
    text = hardware.lower().replace("_", " ")
    if "heading" in text:
        raise CannotModel("the hardware is not named")
    words = text.replace("-", " ")
    found = (
        name for pattern, name in _GPU_WORDS
        if re.search(pattern, text) or re.search(pattern, words)
    )  # fmt: skip
    name = next(found, None)
    if name is None:
        raise CannotModel(f"unknown GPU {hardware!r}")
    split = (
        re.search(r"\btp ?=? ?(\d+)", text)
        or re.match(r"(\d+) ?x", text)
        or re.search(r"\bx ?(\d+)\b", text)
    )
    return GPUS[name], int(split[1]) if split else 1


def model_spec(name: str) -> ModelSpec:
    """The model's sizes. Raises CannotModel."""
    text = re.sub(r"[\s_-]+", "-", name.lower())
    size = re.search(r"(\d+(?:\.\d+)?)-?[bm]\b", text)
    number = size[1] if size else ""
    unit = "m" if size and size[0].endswith("m") else "b"
    if "llama" in text:
        if number == "65":
            return MODELS["llama-1-65b"]
        old = re.search(r"llama-?[12]\b(?!\.)", text) or not re.search(r"llama-?3", text)
        family = ("llama-2",) if old else ("llama-3.1", "llama-3.2")
    elif "mistral" in text:
        family = ("mistral",)
    elif "qwen" in text:
        family = ("qwen2.5",)
    else:
        family = (text.split("-")[0],)
    for prefix in family:
        spec = MODELS.get(f"{prefix}-{number}{unit}")
        if spec is not None:
            return spec
    raise CannotModel(f"the sizes of the model {name!r} are not known here")


def number_format(row: MeasuredRow, preset: EnginePreset) -> DType:
    """The dtype, with FP8 KV where the engine keeps it so. Raises CannotModel."""
    text = row.dtype.lower()
    if "unseen" in text or "?" in text:
        raise CannotModel("the number format is not known")
    if text == "fp8" and preset.fp8_kv:
        text = "fp8_kv8"
    if text not in DTYPES:
        raise CannotModel(f"unknown number format {row.dtype!r}")
    return DTYPES[text]


def preset_of(row: MeasuredRow, num_gpus: int) -> EnginePreset:
    try:
        return preset_for(row.engine, num_gpus)
    except ValueError as error:
        raise CannotModel(f"no preset for the engine {row.engine!r}") from error


# ── lengths ─────────────────────────────────────────────────────────────────────────────────

_LENGTHS = (  # our assumption for a workload's name: (pattern, input, mean output, longest output)
    (r"sharegpt", 225, 195, 1024),
    (r"cnn", 870, 110, 128),
    (r"short chat", 64, 128, 256),
)


def lengths(row: MeasuredRow) -> tuple[int, float, float]:
    """(input, mean output, longest output) in tokens. Raises CannotModel where not told."""
    for pattern, given, out, most in _LENGTHS:
        if re.search(pattern, row.input_len.lower()):
            limit = re.search(r"<=? ?(\d+)", row.output_len)
            longest = int(limit[1]) if limit else most
            return given, float(min(out, longest)), float(longest)
    given = _first_int(row.input_len)
    longest = _first_int(row.output_len)
    if given is None or longest is None:
        raise CannotModel("the prompt and output lengths are not told")
    mean = re.search(r"mean ~?(\d+)", row.output_len)
    if "<" in row.output_len:  # a limit: most outputs end earlier
        return given, float(mean[1]) if mean else 0.68 * longest, float(longest)
    return max(given, 1), float(longest), float(longest)


def concurrency(row: MeasuredRow) -> int:
    """How many at once; a word for 'as many as there are' gives 0. Raises CannotModel."""
    text = row.batch.strip().lower()
    if text in ("inf", "max", "all"):
        return 0
    if re.fullmatch(r"\d+(\.0+)?", text):
        return int(float(text))
    raise CannotModel(f"the load {row.batch!r} is not a number of requests at once")


def arrival_rate(row: MeasuredRow) -> float:
    """Requests per second. Raises CannotModel."""
    match = re.search(r"(\d+(?:\.\d+)?) ?(?:qps|req/s|rps)", f"{row.batch} {row.metric}".lower())
    if not match or float(match[1]) <= 0:
        raise CannotModel(f"the load {row.batch!r} is not a rate of requests")
    return float(match[1])


def _first_int(text: str) -> int | None:
    match = re.search(r"\d+", text)
    return int(match[0]) if match else None
