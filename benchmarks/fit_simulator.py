"""Fits the engine presets to half of the published figures, and reports the error on both halves.

    python -m benchmarks.fit_simulator [--preset trtllm] [--measured FILE.csv]

The half is stated by minillm.sim.validate.in_fit_half: rows whose key (everything but the value)
has a SHA-256 that starts with an even byte. Nothing is written: what the search finds is printed
beside what minillm/sim/presets.py says, for a person to round and enter. Few constants a preset,
and the hardware's constants are not touched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from minillm.data import read_text
from minillm.sim.calibrate import log_error, minimise
from minillm.sim.measured_rows import CannotModel, MeasuredRow, gpu_and_tp, preset_of, read_rows
from minillm.sim.predict import DECODE_METRICS, Predictor
from minillm.sim.presets import PRESETS, EnginePreset
from minillm.sim.validate import compare, in_fit_half, summary, suspect_reason

# Which constants a preset's fit may move, with the first step of the search.
FREE = {
    "trtllm": {"step_s": 4e-4, "hidden_step_s": 8e-4, "hidden_sequence_s": 1.5e-5},
    "vllm-tp": {"step_s": 8e-4, "sequence_s": 1e-5, "graph": 0.2},
    "sglang": {"step_s": 8e-4, "sequence_s": 1e-5, "graph": 0.2},
    "lmdeploy": {"step_s": 4e-4, "sequence_s": 1e-5},
    "gpt-fast": {"step_s": 4e-4, "graph": 0.2},
    "vllm-v0": {"step_s": 8e-4, "sequence_s": 2e-5},
}
METRICS = (*DECODE_METRICS, "tpot_p50", "output_throughput_static")


def rows_of(rows: Sequence[MeasuredRow], preset: str) -> list[MeasuredRow]:
    """The trustworthy rows (high confidence, not suspect) that this preset predicts."""
    chosen = []
    for row in rows:
        if row.confidence != "high" or row.metric not in METRICS or suspect_reason(row):
            continue
        try:
            if preset_of(row, gpu_and_tp(row.hardware)[1]).name == preset:
                Predictor().predict(row)
                chosen.append(row)
        except CannotModel:
            continue
    return chosen


def fit(preset: EnginePreset, rows: Sequence[MeasuredRow]) -> EnginePreset:
    """The preset with its free constants moved to the least mean |log error| on these rows."""
    free = FREE[preset.name]

    def loss(constants: dict[str, float]) -> float:
        predictor = Predictor({preset.name: replace(preset, **constants)})
        return sum(log_error(predictor.predict(row), row.value) for row in rows) / len(rows)

    start = {name: getattr(preset, name) for name in free}
    return replace(preset, **minimise(loss, start, free, rounds=6))


def errors(preset: EnginePreset, rows: Sequence[MeasuredRow]) -> str:
    compared = compare(rows, Predictor({preset.name: preset}))
    parts = (
        ("fit half", [c for c in compared if in_fit_half(c.row)]),
        ("held out", [c for c in compared if not in_fit_half(c.row)]),
    )
    texts = []
    for name, part in parts:
        found = summary(part)
        texts.append(
            f"{name}: n {found['n']}, MAPE {found['mape']} %, bias {found['bias']:+} %"
            if part
            else f"{name}: no row"
        )
    return " · ".join(texts)


def show(preset: EnginePreset) -> str:
    return ", ".join(f"{name} {getattr(preset, name):.3g}" for name in FREE[preset.name])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fit_simulator")
    parser.add_argument("--preset", choices=list(FREE), help="default: all")
    parser.add_argument("--measured", type=Path, help="default: the copy in the package")
    options = parser.parse_args(arguments)
    text = options.measured.read_text("utf-8") if options.measured else read_text("measured.csv")
    table = read_rows(text.splitlines())
    for name in [options.preset] if options.preset else FREE:
        rows = rows_of(table, name)
        half = [row for row in rows if in_fit_half(row)]
        if not half:
            print(f"{name}: no row to fit on")
            continue
        now, found = PRESETS[name], fit(PRESETS[name], half)
        print(f"{name}, fitted on {len(half)} of {len(rows)} rows")
        print(f"  presets.py  {show(now)}\n              {errors(now, rows)}")
        print(f"  search      {show(found)}\n              {errors(found, rows)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
