"""Figures as text, in sentences, tables and static pictures.

static/shared/format.js writes the same in live views; both are held to tests/golden/numbers.json.
Halves are rounded away from zero, as JavaScript does, so that 12.25 is one figure everywhere.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

THIN = "\u2009"
NONE = "n/a"


def fixed(value: float, decimals: int = 0) -> str:
    """So many decimals, a comma for thousands: 1,234.50."""
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{rounded:,f}" if rounded else f"{abs(rounded):f}"


def number3(value: float | None) -> str:
    """Three significant digits: 12,300, 12.4, 1.00, 0.05; n/a for None and what is no number."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    exact = Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), ROUND_HALF_UP)
    text = f"{rounded:,.{max(0, 2 - rounded.adjusted())}f}"
    return text if abs(rounded) >= 1 else text.rstrip("0")


def plain(value: float) -> str:
    """A setting as it was given, four digits at most: 1,024, 2.5, 0.05."""
    if value == int(value):
        return f"{int(value):,}"
    exact = Decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(exact.adjusted() - 3), ROUND_HALF_UP)
    text = f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float | None) -> str:
    """A whole percentage that never rounds up to 100; n/a for None."""
    if share is None:
        return NONE
    text = fixed(share * 100)
    return f"{99 if text == '100' and share < 1 else text}{THIN}%"


def seconds(value: float | None) -> str:
    """1.37 s, 824 ms, 14.8 ms; n/a for None."""
    if value is None:
        return NONE
    ms = value * 1000
    if ms < 99.95:
        return f"{fixed(ms, 1)}{THIN}ms"
    return f"{fixed(ms)}{THIN}ms" if ms < 999.5 else f"{number3(value)}{THIN}s"


def plural(count: int, one: str) -> str:
    """ "1 step", "2 steps"."""
    return f"{count:,} {one if count == 1 else one + 's'}"


def step_digits(step: float) -> int:
    """Decimals that a multiple of `step` needs, four at most: 0.25 needs 2, 5 none."""
    return next(
        (n for n in range(4) if abs(step * 10**n - round(step * 10**n)) < 1e-9 * 10**n), 4
    )
