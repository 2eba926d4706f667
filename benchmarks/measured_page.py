"""Writes docs/measured.md and its figure: predicted against measured, and which claims hold.

    python -m benchmarks.measured_page [--out FOLDER] [--check]

Everything on the page is computed here, from minillm/data/measured.csv, the simulator, and what
the benchmarks left in benchmarks/results/.
--check writes nothing and fails when the page in the folder is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.claims import claims
from benchmarks.peers_table import markdown, table
from benchmarks.scatter_svg import Series, scatter
from minillm.data import read_text
from minillm.sim.measured_rows import MeasuredRow, read_rows
from minillm.sim.predict import Predictor
from minillm.sim.presets import PRESETS
from minillm.sim.step_table import step_table
from minillm.sim.validate import Compared, compare, in_fit_half, summary, validate_report

PEERS = Path(__file__).with_name("results") / "peers.json"
PAGE, FIGURE = "measured.md", "measured.svg"
GPUS = ("A100-80GB-SXM", "H100-80GB-SXM", "H200-141GB-SXM")
BATCHES = (1, 8, 32, 64, 128, 256)


def percent(value: float | None, sign: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:+.1f}" if sign else f"{value:.1f}"


def decode_rows(compared: Sequence[Compared]) -> list[Compared]:
    return [c for c in compared if c.predicted is not None and c.is_decode and not c.suspect]


def preset_name(predictor: Predictor, row: MeasuredRow) -> str:
    return predictor.cost(row).preset.name


def figure(decode: Sequence[Compared], predictor: Predictor) -> str:
    """Decode time per token, one series per engine preset."""
    series: dict[str, list[tuple[float, float, bool]]] = {}
    for item in decode:
        measured, predicted = item.row.value, item.predicted
        if item.row.metric == "decode_speed":
            measured, predicted = 1e3 / measured, 1e3 / predicted
        points = series.setdefault(preset_name(predictor, item.row), [])
        points.append((measured, predicted, in_fit_half(item.row)))
    found = summary(decode)
    return scatter(
        "Decode time per token: predicted against measured",
        f"{found['n']} published figures; the mean absolute error is {found['mape']:.1f} percent. "
        "Points on the diagonal are predicted exactly.",
        "ms",
        [Series(name, points) for name, points in sorted(series.items())],
    )


def accuracy(report: dict, decode: Sequence[Compared], predictor: Predictor) -> str:
    """The decode errors: overall, on both halves, per preset."""
    rows = [
        (name, part["n"], percent(part["mape"]), percent(part["bias"], True))
        for name, part in (
            ("all", report["decode"]),
            ("fit half", report["decode_fit_half"]),
            ("held-out half", report["decode_held_out_half"]),
            ("16-bit, 1–4 GPUs", report["decode_bf16_tp1_4"]),
        )
    ]
    by_preset: dict[tuple[str, str], list[Compared]] = {}
    for item in decode:
        key = (preset_name(predictor, item.row), predictor.cost(item.row).gpu.name)
        by_preset.setdefault(key, []).append(item)
    for (preset, gpu), items in sorted(by_preset.items()):
        part = summary(items)
        name = f"{preset} on {gpu}"
        rows.append((name, part["n"], percent(part["mape"]), percent(part["bias"], True)))
    return table(("decode time per token", "n", "MAPE %", "bias %"), rows)


def groups(report: dict) -> str:
    return table(
        ("source", "hardware", "model", "engine", "metric", "n", "MAPE %", "bias %"),
        (
            (g["source"], g["hardware"], g["model"], g["engine"], g["metric"], g["n"],
             percent(g["mape"]), percent(g["bias"], True))
            for g in report["groups"]
        ),
    )  # fmt: skip


def suspects(report: dict) -> str:
    merged: dict[tuple[str, str], int] = {}
    for group in report["suspect"]:
        key = (group["source"], group["reason"])
        merged[key] = merged.get(key, 0) + len(group["lines"])
    return table(("source", "why", "rows"), ((*key, n) for key, n in merged.items()))


def skipped(report: dict) -> str:
    reasons = Counter(item["reason"] for item in report["skipped"])
    return table(("why there is no prediction", "rows"), reasons.most_common())


def steps() -> str:
    """Simulated decode steps of Llama-3.1-8B on the three data-centre GPUs."""
    rows = []
    for gpu in GPUS:
        for context in (512, 2048):
            made = step_table(gpu, "llama-3.1-8b", batches=BATCHES, context=context)
            rows.append((gpu, context, *(f"{step['ms']:.1f}" for step in made["steps"])))
    return table(("GPU", "context", *(str(batch) for batch in BATCHES)), rows)


def presets() -> str:
    return table(
        ("preset", "stands for", "step ms", "sequence µs", "hidden step ms", "hidden sequence µs",
         "graph"),
        (
            (p.name, p.source, f"{p.step_s * 1e3:.2f}", f"{p.sequence_s * 1e6:.1f}",
             f"{p.hidden_step_s * 1e3:.2f}", f"{p.hidden_sequence_s * 1e6:.1f}", f"{p.graph:.2f}")
            for p in PRESETS.values()
        ),
    )  # fmt: skip


def peers() -> str:
    """The engine beside others, from the committed result of benchmarks.peers."""
    if not PEERS.exists():
        return "Not measured yet."
    return markdown(json.loads(PEERS.read_text(encoding="utf-8")))


def page() -> tuple[str, str]:
    """(the page, the figure)."""
    lines = read_text("measured.csv").splitlines()
    rows = read_rows(lines)
    report = validate_report(lines)
    predictor = Predictor()
    compared = compare(rows, predictor)
    decode = decode_rows(compared)
    coverage = report["coverage"]
    verdicts = table(
        ("#", "claim", "does it hold?", "computed"),
        ((c.number, c.claim, c.verdict, c.computed) for c in claims(rows)),
    )
    text = TEMPLATE.format(
        figure=FIGURE,
        n=report["decode"]["n"],
        mape=percent(report["decode"]["mape"]),
        held=percent(report["decode_held_out_half"]["mape"]),
        accuracy=accuracy(report, decode, predictor),
        rows=coverage["rows"],
        modelled=coverage["modelled"],
        fraction=f"{100 * coverage['fraction']:.0f}",
        overall=percent(report["overall"]["mape"]),
        overall_n=report["overall"]["n"],
        skipped=skipped(report),
        suspects=suspects(report),
        steps=steps(),
        presets=presets(),
        claims=verdicts,
        groups=groups(report),
        peers=peers(),
    )
    return text, figure(decode, predictor)


TEMPLATE = """\
# Predicted against measured

Made by `python -m benchmarks.measured_page`; do not edit. *Measured* figures are published ones,
each with its source in [measured.csv](../minillm/data/measured.csv) (licences:
[measured.md](../minillm/data/measured.md)). *Predicted* ones are simulated by `minillm.sim`. MAPE
is the mean of |predicted/measured − 1|, bias the mean of predicted/measured − 1.

## Decode time per token

{n} published figures of high confidence (tpot_mean, decode_step, itl_median, decode_speed as the
time of a token): MAPE {mape} %, on the half that no fit has seen {held} %.

![Decode time per token, predicted against measured, on logarithmic axes]({figure})

{accuracy}

The halves: a row may be fitted on when the SHA-256 of its key (everything but the value) starts
with an even byte. Only the engine presets below were fitted, at most four constants each
(`python -m benchmarks.fit_simulator`); the GPUs' constants come from tables of single operations.

## What is covered

{modelled} of {rows} rows ({fraction} %) have a prediction. Over the {overall_n} of them that are
not suspect, whatever the metric and the confidence, the MAPE is {overall} %: times to first token
and figures under an open load depend on how the benchmark was run, which many sources do not tell.

{skipped}

Suspect rows are predicted too, and count in no mean:

{suspects}

## Decode steps, simulated

Llama-3.1-8B bf16, preset vllm-v1, milliseconds at batch:

{steps}

## Engine presets

{presets}

## Which common claims hold

Simulated on one A100 80 GB with Llama-3.1-8B bf16, preset vllm-v1, context 512, unless said.

{claims}

## minillm beside other engines, on a CPU

`python -m benchmarks.peers --workload B1,W1,W2 --json benchmarks/results/peers.json` runs each in
turn, with the same weights and limits (see [benchmarks](../benchmarks/README.md)).

{peers}

## Every group

{groups}
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measured_page")
    default = Path(__file__).resolve().parent.parent / "docs"
    parser.add_argument("--out", type=Path, default=default, help="default: docs/")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args(arguments)
    status = 0
    for name, text in zip((PAGE, FIGURE), page(), strict=True):
        path = options.out / name
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}", file=sys.stderr)
        elif not path.exists() or path.read_text("utf-8") != text:
            print(f"{name} is out of date: run python -m benchmarks.measured_page")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
