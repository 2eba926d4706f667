"""Records what the lessons show where nothing can be measured: in a browser tab.

    python -m benchmarks.record_lessons            # writes minillm/data/recorded/lessons.json

Measures this machine with the default model (its limits, some products, its steps, to which the
simulator is fitted), then runs the cells of the lessons that need processes, sockets or the real
model, at their full size, and keeps what they showed. Takes some minutes; let the machine be quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

import minillm
from benchmarks.offline import OthersLoad
from minillm import LLM
from minillm.bench import calibrate, roofline
from minillm.bench.machine import cpu_name, usable_cpus, version
from minillm.bench.recorded_machine import FILE
from minillm.sim.hardware import GPUSpec
from minillm.sim.presets import EnginePreset

ROOT = Path(__file__).resolve().parent.parent
SIDES = (1536, 512)  # of the square products
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# Lesson → its cells to record, and those that have to run before them.
CELLS = {
    "00": ("00-answer", "00-model"),
    "11": ("11-split 11-nginx 11-nginx-result", "11-setup 11-nginx-run"),
    "12": ("12-server", "12-setup"),
}
CELL_LIMIT_S = 600


def measure_machine(llm: LLM) -> dict[str, Any]:
    """ "machine" of lessons.json."""
    fit = calibrate.fit_machine(llm).steps
    roof = roofline.measure_roof(llm)
    products = {}
    for side in SIDES:
        product = roofline.open_product(llm, side, side)
        products[str(side)] = {str(m): _short(product.seconds(m)) for m in BATCHES}
    return {
        "device": llm.info.device, "model": llm.info.model, "dtype": llm.info.dtype,
        "gpu": _plain(fit.cost.gpu), "sizes": asdict(fit.cost.model),
        "engine": _plain(fit.cost.preset),
        "fit_error_percent": {
            "fitted": round(100 * fit.fit_error, 1), "held_out": round(100 * fit.held_out_error, 1),
        },
        "limits": {"peak_flops": _short(roof.peak_flops), "bandwidth": _short(roof.bandwidth)},
        "products": products,
    }  # fmt: skip


def record_cells(number: str, wanted: Iterable[str], before: Iterable[str]) -> dict[str, dict]:
    """What the wanted cells of a lesson show: {cell: {"text", "html"}}."""
    [path] = ROOT.glob(f"notebooks/{number}_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    wanted = list(wanted)
    notebook.cells = [cell for cell in notebook.cells if cell.id in {*wanted, *before}]
    NotebookClient(
        notebook, timeout=CELL_LIMIT_S, kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()  # fmt: skip
    return {cell.id: _shown(cell) for cell in notebook.cells if cell.id in wanted}


def _shown(cell: nbformat.NotebookNode) -> dict[str, str]:
    text, html = [], []
    for output in cell.outputs:
        found = output.get("data", {})
        text.append(found.get("text/plain") or output.get("text", ""))
        html.append(found.get("text/html", ""))
    return {"text": "\n".join(text).strip(), "html": _without_style("".join(html))}


def _without_style(html: str) -> str:
    """A card brings the style sheet of today; the one who shows it again adds that of its day."""
    return re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)


def _plain(spec: GPUSpec | EnginePreset) -> dict[str, Any]:
    return {
        name: _short(value) if isinstance(value, float) else value
        for name, value in asdict(spec).items()
    }


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine-only", action="store_true", help="keep the cells as they are")
    args = parser.parse_args()
    os.environ.pop("MINILLM_FAST", None)
    os.environ |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    file = ROOT / "minillm" / "data" / FILE
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"cells": {}}
    with OthersLoad() as load, LLM(threads=1) as llm:
        machine = measure_machine(llm)
    cells = kept["cells"] if args.machine_only else {}
    for number, (wanted, before) in CELLS.items() if not args.machine_only else ():
        cells |= record_cells(number, wanted.split(), before.split())
    header = {
        "recorded_on": date.today().isoformat(), "provenance": "measured",
        "machine": f"{cpu_name()}, {usable_cpus()} logical processors",
        "cpu_taken_by_others": load.share,
        "versions": {"minillm": minillm.__version__, "torch": version("torch")},
        "made_by": "python -m benchmarks.record_lessons",
    }  # fmt: skip
    found = {"header": header, "machine": machine, "cells": cells}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
