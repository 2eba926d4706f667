"""Golden figures: numbers, axes' ends and ticks as Python writes them. JavaScript reads them.

Halves, carries (9.996), very small and very large ones: where two languages come apart. Run
`python -m tests.widgets.golden_numbers` when a format changes, and look at the difference.
"""

from __future__ import annotations

import json
from pathlib import Path

from widgets.axes import Scale, label, log_range, log_ticks, minor_ticks, nice_limit
from widgets.histogram_model import floored
from widgets.numbers import fixed, number3, percent, plain, seconds, step_digits
from widgets.question_chart import Axis
from widgets.questions import Predict
from widgets.roofline_model import flops_text, share_text
from widgets.strip_words import value_text

FILE = Path(__file__).resolve().parent.parent / "golden" / "numbers.json"
VALUES = (
    0, 1e-7, 0.00004, 0.0125, 0.05, 0.125, 0.5, 0.9996, 0.99951, 1, 1.005, 1.125, 2.5, 9.994, 9.996,
    12.25, 12.35, 64, 99.5, 99.95, 99.96, 100.5, 112.5, 151.4, 999.4, 999.5, 1000, 1024, 1234.5,
    12_345, 99_950, 1e6, 2.039e12,
)  # fmt: skip
SHARES = (0, 0.0000312, 0.0005, 0.001, 0.00625, 0.005, 0.125, 0.419, 0.945, 0.985, 0.989, 0.995,
          0.9996, 1.0)  # fmt: skip
STEPS = (5, 1, 0.5, 0.25, 0.1, 0.05, 0.001, 1 / 3)
SPANS = ((0, 1), (0, 2.54), (0, 7), (3, 25), (0, 130), (0, 2000), (0, 0.0004), (12, 1e6))
DECADES = ((4.5, 100), (0.9, 2000), (3, 4), (0.002, 0.3), (1e-5, 1e3))
RANGES = ((10, 10.1), (3, 250), (0, 5), ())


def predicted(value: float, step: float, unit: str) -> str:
    """A number as a Predict shows it."""
    return Predict("golden", "?", low=0, high=1, step=step, unit=unit)._number(value)


def numbers_golden() -> dict:
    numbers = (0, 0.5, 98.5, 99.7, 100, 742e6, 12.25e9, 999.7e6, 5e3, 12, 1024, 512.5)
    axis = Axis("x", 1, 100, unit="ms")
    return {
        "fixed": [[v, n, fixed(v, n)] for v in (*VALUES, -0.01, -12.25) for n in (0, 1, 2)],
        "number3": [[v, number3(v)] for v in (None, *VALUES)],
        "plain": [[v, plain(v)] for v in VALUES if v],
        "percent": [[v, percent(v)] for v in (None, *SHARES)],
        "seconds": [[v, seconds(v)] for v in (None, *(value / 1000 for value in VALUES))],
        "value_text": [[v, u, value_text(v, u)] for v in (None, *numbers)
                       for u in ("%", "B", "B/s", "W", "tok/s", "")],
        "share_text": [[v, share_text(v)] for v in (None, *SHARES)],
        "floored": [[v, floored(v)] for v in SHARES],
        "flops_text": [[v, flops_text(v)] for v in (21e9, 0.5e9, 312e12, 2.2e12, 989.5e12)],
        "step_digits": [[v, step_digits(v)] for v in STEPS],
        "predicted": [[v, s, u, predicted(v, s, u)] for v in (0.125, 2.5, 1234.5) for s in STEPS
                      for u in ("", "×", "%")],
        "axis_text": [[v, axis.shown(v)] for v in VALUES if v],
        "tick_label": [[v, label(v)] for v in VALUES if v],
        "nice_limit": [[v, nice_limit(v)] for v in VALUES],
        "ticks": [[*span, px, Scale(*span, 0, px).ticks(70)] for span in SPANS
                  for px in (60, 200, 900)],
        "log_ticks": [[*span, log_ticks(*span), minor_ticks(*span)] for span in DECADES],
        "log_range": [[list(v), list(log_range(v))] for v in RANGES],
    }  # fmt: skip


def write() -> None:
    """A line a row, so that a difference can be read."""
    parts = []
    for name, rows in numbers_golden().items():
        lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f' "{name}": [\n  {lines}\n ]')
    FILE.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
