"""Two curves over the same points, the right one and a student's, as small SVGs on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 300, 150, 14, 14, 18, 34


def curves(
    xs: Sequence[float], right: Sequence[float], given: object, what: str
) -> tuple[tuple[str, str], ...]:
    """(title, SVG) of both, on logarithmic axes. Points that are no numbers above 0 are left out.

    what: the axes in words, such as "seconds over the batch".
    """
    values = list(given) if isinstance(given, list) else []
    yours = [(x, y) for x, y in zip(xs, values, strict=False) if _drawable(y)]
    ours = list(zip(xs, right, strict=True))
    ys = [y for _, y in ours + yours]
    return tuple(
        (title, _picture(points, ours if title == "Yours" else (), xs, (min(ys), max(ys)), what))
        for title, points in (("A right one", ours), ("Yours", yours))
    )


def _drawable(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


def _picture(
    points: Sequence[tuple[float, float]], behind: Sequence[tuple[float, float]],
    xs: Sequence[float], ends: tuple[float, float], what: str,
) -> str:  # fmt: skip
    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = (
            _share(value, low, high)
            for value, (low, high) in zip(point, ((min(xs), max(xs)), ends), strict=True)
        )
        return LEFT + x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)

    floor = HEIGHT - BOTTOM + 6
    parts = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}" stroke="var(--line)"/>'
    ]
    for x in xs:
        at, _ = place((x, ends[0]))
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{floor}" y2="{floor + 4}" '
                     'stroke="var(--line)"/>')  # fmt: skip
    for x, anchor in ((min(xs), "start"), (max(xs), "end")):
        at, _ = place((x, ends[0]))
        parts.append(f'<text x="{at:.1f}" y="{floor + 16}" text-anchor="{anchor}">{x:g}</text>')
    if behind:
        parts.append(_line([place(point) for point in behind], "var(--queue)", "4 3"))
    if points:
        parts.append(_line([place(point) for point in points], "var(--decode)"))
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--decode)"/>'
            for x, y in map(place, points)
        ]
    else:
        parts.append(f'<text x="{LEFT}" y="{TOP}" fill="var(--bad)">no number above 0</text>')
    label = f"{what}, logarithmic: " + "; ".join(f"{x:g}: {y:.4g}" for x, y in points)
    parts.append(f'<text x="{WIDTH / 2}" y="{floor + 16}" text-anchor="middle">{what}</text>')
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{"".join(parts)}</svg>'
    )


def _line(points: Sequence[tuple[float, float]], color: str, dash: str = "") -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between the ends of a logarithmic axis, 0 to 1."""
    return math.log(value / low) / math.log(high / low) if high > low else 0.5
