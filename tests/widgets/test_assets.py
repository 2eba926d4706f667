"""Style sheets of several widgets on one page: none undoes what another says."""

from __future__ import annotations

import re

from widgets.assets import STATIC

SHEETS = {
    path.parent.name: path.read_text(encoding="utf-8")
    for path in sorted(STATIC.glob("*/*.css"))
    if path.parent.name not in ("shared", "dashboard")  # the dashboard is a page of its own
}


def selectors(sheet: str) -> set[str]:
    """The selectors of a sheet's rules, those within @container and @media too."""
    plain = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    heads = re.findall(r"([^{};@]+)\{", plain)
    return {each.strip() for head in heads for each in head.split(",") if "(" not in each}


def test_every_sheet_is_read():
    assert {"timeline", "queue", "cluster", "curve"} <= set(SHEETS)
    assert ".mlt-swatch.mlt-end" in selectors(SHEETS["timeline"])


def test_no_rule_of_a_widget_is_as_weak_as_the_shared_ones():
    """Each widget brings the shared sheet along, so a later copy would win over a single class."""
    weak = [
        (name, selector)
        for name, sheet in SHEETS.items()
        for selector in selectors(sheet)
        if re.fullmatch(r"\.mlt-[a-z-]+(::\w+)?", selector)
    ]
    assert not weak


def test_no_two_widgets_style_the_same():
    figures = ("timeline", "block_map", "queue", "cluster", "strips", "curve")
    seen: dict[str, str] = {}
    for name in figures:
        for selector in selectors(SHEETS[name]):
            assert selector not in seen, f"{selector} in {name} and in {seen[selector]}"
            seen[selector] = name
