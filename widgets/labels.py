"""Labels of a static chart that keep out of each other's way, from a letter's mean width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from widgets.shapes import Text

LETTER = 0.56  # a letter's mean width in ems
SIDES = ("se", "ne", "e", "sw", "nw", "w", "s", "n")
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Labels:
    """Text beside points, inside `bounds`. block() keeps a box free, avoid() a line if it can."""

    def __init__(self, bounds: Box) -> None:
        self.bounds = bounds
        self._taken: list[Box] = []
        self._lines: list[Box] = []

    def block(self, box: Box) -> None:
        self._taken.append(box)

    def avoid(self, points: Sequence[tuple[float, float]]) -> None:
        """A line through points that labels rather stay off."""
        for (x0, y0), (x1, y1) in pairwise(points):
            steps = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / 6))
            for k in range(steps + 1):
                x, y = x0 + (x1 - x0) * k / steps, y0 + (y1 - y0) * k / steps
                self._lines.append((x - 1, y - 1, x + 1, y + 1))

    def place(
        self, words: str, x: float, y: float, *, size: float = 11, gap: float = 9,
        bold: bool = False, sides: tuple[str, ...] = SIDES, force: bool = False,
    ) -> Box | None:  # fmt: skip
        """The first side with room, off the lines if there is one; None when there is none and it
        is not forced. The box is taken from now on."""
        width = len(words) * size * LETTER * (1.06 if bold else 1)
        boxes = [_box(side, x, y, width, size, gap) for side in sides]
        inside = [box for box in boxes if self._inside(box)]
        free = [box for box in inside if _clear(box, self._taken)]
        box = next((box for box in free if _clear(box, self._lines)), free[0] if free else None)
        if box is None and force:
            box = (inside or boxes)[0]
        if box is not None:
            self.block(box)
        return box

    def beside(
        self, words: str, x: float, y: float, *, size: float = 11, gap: float = 9,
        color: str = "ink2", bold: bool = False, sides: tuple[str, ...] = SIDES,
        force: bool = False,
    ) -> list[Text]:  # fmt: skip
        """The label at its place as a shape; [] when there is no room and it is not forced."""
        box = self.place(words, x, y, size=size, gap=gap, bold=bold, sides=sides, force=force)
        return [] if box is None else [Text(box[0], box[3] - size * 0.28, words, color, size, bold)]

    def _inside(self, box: Box) -> bool:
        left, top, right, bottom = self.bounds
        return box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom


def _clear(box: Box, taken: Sequence[Box]) -> bool:
    return all(
        box[2] <= other[0] or box[0] >= other[2] or box[3] <= other[1] or box[1] >= other[3]
        for other in taken
    )


def _box(side: str, x: float, y: float, width: float, size: float, gap: float) -> Box:
    left = x + gap if "e" in side else x - gap - width if "w" in side else x - width / 2
    down = gap if len(side) > 1 else gap + size / 2
    middle = y + down if "s" in side else y - down if "n" in side else y
    return left, middle - size * 0.62, left + width, middle + size * 0.62
