"""Rooflines as a static drawing: small multiples on shared axes, two or four beside each other."""

from __future__ import annotations

from collections.abc import Iterator

from widgets.axes import Scale, label, log_range
from widgets.labels import Labels
from widgets.numbers import number3
from widgets.roofline_model import Device, RooflineModel, flops_text, share_text
from widgets.shapes import Drawing, Line, Mark, Path, Shape, Text
from widgets.still import top, wrapped

WIDTH, LEFT, TALL, GAP = 940.0, 56.0, 250.0, 22.0
MOST_COLUMNS = 4


def draw(model: RooflineModel, headline: str, subtitle: str) -> Drawing:
    """All devices. There must be one with a roof or a dot."""
    shapes, y = top(headline, subtitle, [], WIDTH)
    devices = list(model.devices.values())
    columns = min(MOST_COLUMNS, len(devices))
    wide = (WIDTH - LEFT - GAP * (columns - 1)) / columns
    xs, ys = _ranges(devices)
    for number, device in enumerate(devices):
        left = LEFT + number % columns * (wide + GAP)
        if number and number % columns == 0:
            y += TALL + 96
        x = Scale(*xs, left, left + wide, True)
        scale = Scale(*ys, y + 62 + TALL, y + 62, True)
        shapes += _panel(device, x, scale, y, number % columns == 0)
    y += TALL + 62
    caption = "FLOP per byte moved (log): for these matrices about the batch size"
    shapes.append(Text(LEFT, y + 38, caption, "ink2", 11))
    return Drawing(WIDTH, y + 50, shapes)


def _ranges(devices: list[Device]) -> tuple[tuple[float, float], tuple[float, float]]:
    dots = [dot for device in devices for dot in device.dots.values()]
    xs = [dot.intensity for dot in dots] + [device.ridge for device in devices if device.ridge]
    ys = [dot.flops / part for dot in dots for part in (1, 2)]  # room for a share below
    ys += [d.peak_flops for d in devices if d.peak_flops]
    return log_range(xs, 1.6), log_range(ys, 2.2)


def _panel(device: Device, x: Scale, y: Scale, at: float, first: bool) -> Iterator[Shape]:
    yield Text(x.start, at + 14, device.name, "ink", 13.5, True)
    for i, words in enumerate(wrapped(device.detail, x.end - x.start + 20, 10)[:2]):
        yield Text(x.start, at + 44 + 12 * i, words, "ink3", 10)
    yield Mark(x.start + 5, at + 27, device.provenance, "ink2", 4)
    yield Text(x.start + 14, at + 31, device.provenance, "ink", 11, True)
    for value, _ in y.ticks():
        yield Line(x.start, y.at(value), x.end, y.at(value), "grid")
        if first:
            tera = label(value / 1e12)
            yield Text(x.start - 8, y.at(value) + 4, tera, "ink3", 11, False, "end")
    if first:
        yield Text(x.start - 8, y.end - 8, "TFLOP/s", "ink2", 10.5, False, "end")
    for value, name in x.ticks():
        yield Line(x.at(value), y.start, x.at(value), y.start + 4, "line")
        yield Text(x.at(value), y.start + 17, name, "ink3", 11, False, "middle")
    labels = Labels((x.start, y.end - 14, x.end + 6, y.start))
    marks = [
        Mark(x.at(dot.intensity), y.at(dot.flops), device.provenance, "decode")
        for dot in device.dots.values()
    ]
    for mark in marks:
        labels.block((mark.x - 6, mark.y - 6, mark.x + 6, mark.y + 6))
    if device.ridge is not None:
        yield from _roof(device, x, y, labels)
    yield Line(x.start, y.start, x.end, y.start, "line")
    yield from marks
    for dot in device.dots.values():
        batch = f"batch {dot.batch}" if dot.batch == min(device.dots) else f"{dot.batch}"
        names = [batch]
        if device.peak_flops and dot.batch in (1, 32):
            names.insert(0, f"{batch}, {share_text(device.share(dot))} of peak")
        yield from _named(labels, names, x.at(dot.intensity), y.at(dot.flops))


def _named(labels: Labels, names: list[str], x: float, y: float) -> list[Text]:
    """The first of the names that finds room beside a dot."""
    tries = (
        labels.beside(name, x, y, size=10.5, sides=("se", "s", "sw", "e"), color="ink")
        for name in names
    )
    return next(filter(None, tries), [])


def _roof(device: Device, x: Scale, y: Scale, labels: Labels) -> Iterator[Shape]:
    peak, bandwidth, ridge = device.peak_flops, device.bandwidth, device.ridge
    start = max(x.low, y.low / bandwidth)
    corner = x.at(ridge), y.at(peak)
    slope = [(x.at(start), y.at(start * bandwidth)), corner]
    yield Path([*slope, (corner[0], y.start), (slope[0][0], y.start)], "", 1, (), "pale")
    yield Path([(corner[0], corner[1]), (corner[0], y.start)], "ink3", 1, (2, 3))
    yield Path([*slope, (x.end, corner[1])], "ink", 2)
    yield from labels.beside(flops_text(peak), x.end, corner[1], size=10.5, sides=("nw",), gap=8,
                             force=True)  # fmt: skip
    middle = (slope[0][0] + corner[0]) / 2, (slope[0][1] + corner[1]) / 2
    yield from labels.beside(f"{number3(bandwidth / 1e9)} GB/s", *middle, size=10.5,
                             sides=("nw", "n"), gap=8)  # fmt: skip
    yield from labels.beside(f"ridge {number3(ridge)}", corner[0], y.start - 10, size=10.5,
                             bold=True, color="ink", sides=("w", "e"), gap=5)  # fmt: skip
