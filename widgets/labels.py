"""Labels of a static chart that keep out of each other's way, from a letter's mean width."""

from __future__ import annotations

from widgets.shapes import Text

LETTER = 0.56  # a letter's mean width in ems
SIDES = ("se", "ne", "e", "sw", "nw", "w", "s", "n")
Box = tuple[float, float, float, float]  # left, top, right, bottom


class Labels:
    """Text beside points, inside `bounds`. block() keeps a box free."""

    def __init__(self, bounds: Box) -> None:
        self.bounds = bounds
        self._taken: list[Box] = []

    def block(self, box: Box) -> None:
        self._taken.append(box)

    def beside(
        self, words: str, x: float, y: float, *, size: float = 11, gap: float = 9,
        color: str = "ink2", bold: bool = False, sides: tuple[str, ...] = SIDES,
        force: bool = False,
    ) -> list[Text]:  # fmt: skip
        """The label at the first side with room; [] when there is none and it is not forced."""
        width = len(words) * size * LETTER * (1.06 if bold else 1)
        boxes = [_box(side, x, y, width, size, gap) for side in sides]
        inside = [box for box in boxes if self._inside(box)]
        box = next((box for box in inside if self._free(box)), None)
        if box is None:
            if not force:
                return []
            box = (inside or boxes)[0]
        self.block(box)
        return [Text(box[0], box[3] - size * 0.28, words, color, size, bold)]

    def _inside(self, box: Box) -> bool:
        left, top, right, bottom = self.bounds
        return box[0] >= left and box[1] >= top and box[2] <= right and box[3] <= bottom

    def _free(self, box: Box) -> bool:
        return all(
            box[2] <= taken[0] or box[0] >= taken[2] or box[3] <= taken[1] or box[1] >= taken[3]
            for taken in self._taken
        )


def _box(side: str, x: float, y: float, width: float, size: float, gap: float) -> Box:
    left = x + gap if "e" in side else x - gap - width if "w" in side else x - width / 2
    down = gap if len(side) > 1 else gap + size / 2
    middle = y + down if "s" in side else y - down if "n" in side else y
    return left, middle - size * 0.62, left + width, middle + size * 0.62
