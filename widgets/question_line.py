"""The number line of a Predict: prediction (hollow) and result (full) on one scale, as SVG.

Its labels keep out of each other's way also in a narrow notebook, where lesson.css writes them
larger in the picture, so that they stay readable: room is kept for that size.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from widgets.axes import Scale

WIDTH, LEFT, RIGHT = 560.0, 40.0, 520.0
LARGE = 18.0  # px: the labels' size in a narrow notebook
GAP = 8.0  # px between a label's end and the middle of two that stand close
RAISE = 20.0  # px: a second line of labels
WIDE = 0.66  # a letter's mean width in ems, in bold of a wide font


def number_line(
    low: float,
    high: float,
    answer: float | None,
    actual: float,
    shown: Callable[[float], str],
    sentence: str,
) -> str:
    """answer: None where there was none. shown: a value in words, with its unit."""
    values = [actual] if answer is None else [actual, answer]
    low, high = min(low, *values), max(high, *values)

    def x(value: float) -> float:
        return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)

    marks = [(x(actual), f"you saw {shown(actual)}", "ml-saw")]
    if answer is not None:
        marks.insert(0, (x(answer), f"you predicted {shown(answer)}", "ml-strong"))
    labels, lines = _labels(marks)
    y = 24 + lines * RAISE
    parts = [
        f'<line x1="{LEFT:g}" x2="{RIGHT:g}" y1="{y:g}" y2="{y:g}" stroke="var(--ml-line)"/>',
        *(_tick(x(each), y, shown(each), between) for each, between in _ticks(low, high)),
        *_dots([place for place, _, _ in marks], y),
        *labels,
    ]  # fmt: skip
    return (
        f'<div class="ml-fit"><svg viewBox="0 0 {WIDTH:g} {y + 32:g}" width="100%" role="img" '
        f'aria-label="{escape(sentence, quote=True)}" style="max-width:{WIDTH:g}px;display:block;'
        f'margin-top:10px">{"".join(parts)}</svg></div>'
    )


def _labels(marks: list[tuple[float, str, str]]) -> tuple[list[str], int]:
    """The labels above the line, and on how many lines they stand."""
    wide = [len(words) * LARGE * WIDE for _, words, _ in marks]
    if len(marks) == 1:
        return [_text(_inside(marks[0][0], wide[0]), 24, *marks[0][1:])], 1
    (a, b), (a_wide, b_wide) = sorted(marks), (w for _, w in sorted(zip(marks, wide, strict=True)))
    if a_wide + b_wide + 2 * GAP > WIDTH:
        (first, second), (w1, w2) = marks, wide
        return [
            _text(_inside(first[0], w1), 20, *first[1:]),
            _text(_inside(second[0], w2), 24 + RAISE, *second[1:]),
        ], 2
    places = _inside(a[0], a_wide), _inside(b[0], b_wide)
    if places[1] - places[0] >= (a_wide + b_wide) / 2 + GAP:
        return [_text(place, 24, *mark[1:]) for place, mark in zip(places, (a, b), strict=True)], 1
    middle = min(max((a[0] + b[0]) / 2, a_wide + GAP), WIDTH - b_wide - GAP)
    return [
        _text(middle - GAP, 24, *a[1:], anchor="end"),
        _text(middle + GAP, 24, *b[1:], anchor="start"),
    ], 1


def _inside(x: float, wide: float) -> float:
    """The middle of a label that keeps it in the picture."""
    return min(max(x, wide / 2), WIDTH - wide / 2)


def _ticks(low: float, high: float) -> list[tuple[float, bool]]:
    """Both ends and round values between them; True for those that go where it is narrow."""
    apart = 0.12 * (high - low)
    inside = [
        value
        for value, _ in Scale(low, high, LEFT, RIGHT).ticks(115)
        if low + apart <= value <= high - apart
    ]
    middle = min(inside, key=lambda value: abs(value - (low + high) / 2), default=None)
    return [(low, False), *((value, value != middle) for value in inside), (high, False)]


def _tick(x: float, y: float, words: str, between: bool) -> str:
    """A tick and its label. between: it goes where it is narrow."""
    place = _inside(x, len(words) * LARGE * WIDE)
    kind = ' class="ml-roomy"' if between else ""
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 4:g}" y2="{y + 4:g}" stroke="var(--ml-line)"/>'
        f'<text x="{place:.1f}" y="{y + 24:g}" text-anchor="middle"{kind}>{escape(words)}</text>'
    )


def _dots(places: list[float], y: float) -> list[str]:
    saw = f'<circle cx="{places[-1]:.1f}" cy="{y:g}" r="6" fill="var(--ml-decode)"/>'
    if len(places) == 1:
        return [saw]
    own = (
        f'<circle cx="{places[0]:.1f}" cy="{y:g}" r="7.5" fill="var(--ml-bg)" '
        'stroke="var(--ml-ink)" stroke-width="2.5"/>'
    )
    between = (
        f'<line x1="{places[0]:.1f}" x2="{places[1]:.1f}" y1="{y:g}" y2="{y:g}" '
        'stroke="var(--ml-decode)" stroke-width="2.5"/>'
    )
    return [between, own, saw.replace('r="6"', 'r="5"')]


def _text(x: float, y: float, words: str, kind: str, anchor: str = "middle") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{kind}">{escape(words)}</text>'
