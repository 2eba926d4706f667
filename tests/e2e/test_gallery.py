"""Every widget and card at three widths, light and dark: painted, named, inside the page, calm."""

from __future__ import annotations

import pytest

from tests.e2e.gallery import CARDS, WIDGETS, WIDTHS, show
from tests.e2e.widget_page import WidgetPage

pytestmark = pytest.mark.browser

# What stands out of the page to the right; tables and broad pictures scroll in a box of their own.
BESIDE = """() => [...document.querySelectorAll("#here *")].filter((el) => (
    el.getBoundingClientRect().right > innerWidth + 1 && !el.closest(".ml-scroll, .mlt-live")
    && getComputedStyle(el).visibility !== "hidden")).map((el) => el.className || el.tagName)"""
INK = """() => [...document.querySelectorAll("canvas")].reduce((sum, canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 3; i < pixels.length; i += 4) sum += pixels[i] > 0;
    return sum;
}, 0)"""
# Words of a picture that are not named otherwise.
NAMED = """() => [...document.querySelectorAll("#here [role=img]")].map(
    (el) => (el.getAttribute("aria-label") ?? "").length)"""


@pytest.fixture(params=[*WIDGETS, *CARDS])
def page(request, browser):
    context = browser.new_context(
        viewport={"width": WIDTHS[0], "height": 900}, reduced_motion="reduce"
    )
    page = WidgetPage(context.new_page())
    show(page, request.param)
    yield page
    page.check_clean()
    context.close()


def test_it_is_painted_named_and_inside_the_page(page):
    tab = page.page
    canvas = tab.locator("canvas").count()
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        for theme in ("dark", "light"):
            page.set_theme(theme)
            tab.wait_for_timeout(60)
            page.painted()
            assert tab.evaluate(BESIDE) == [], (width, theme)
            if canvas:
                assert tab.evaluate(INK) > 3_000, (width, theme)
    if canvas:
        tab.wait_for_function(
            "() => document.querySelector('.mlt-over').getAttribute('aria-label').length > 60",
            timeout=20_000,
        )
        # A reader who wants no motion gets none: nothing moves by itself.
        assert tab.evaluate("() => window.view.calm && !window.view.moving")
    assert all(length > 10 for length in tab.evaluate(NAMED))
