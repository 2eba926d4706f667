"""Curve, strips, histogram, roofline and the drawn prediction in a browser, outside Jupyter."""

from __future__ import annotations

import csv

import pytest

from minillm.core import Trace
from minillm.sim import SimulatedRunner
from tests.e2e.gallery import show
from tests.e2e.widget_page import WidgetPage
from tests.widgets.golden_plots import curve as golden_curve
from tests.widgets.runs import run
from widgets.cursor import Cursor
from widgets.curve import Curve
from widgets.histogram import Histogram
from widgets.question_chart import Axis, Chart
from widgets.questions import Predict, Quiz
from widgets.roofline import Roofline
from widgets.strip_chart import StripChart

pytestmark = pytest.mark.browser

INK = """n => {
    const canvas = document.querySelectorAll("canvas.mlt-over")[n];
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let [painted, hash] = [0, 0];
    for (let i = 0; i < pixels.length; i += 4) {
        if (pixels[i + 3] > 0) painted++;
        hash = (hash * 31 + pixels[i] + 7 * pixels[i + 1] + 13 * pixels[i + 2] + pixels[i + 3]) | 0;
    }
    return { painted, hash };
}"""


COUNT_LEAKS = """() => {
    window.leaked = 0;
    document.addEventListener("keydown", () => window.leaked++);
}"""


@pytest.fixture(scope="module")
def context(browser):
    context = browser.new_context(viewport={"width": 1248, "height": 900}, accept_downloads=True)
    yield context
    context.close()


@pytest.fixture
def page(context):
    tab = context.new_page()
    page = WidgetPage(tab)
    yield page
    page.check_clean()
    tab.close()


def curve() -> Curve:
    widget = Curve(30.0)
    widget.model = golden_curve()
    widget.publish()
    return widget


def strips() -> StripChart:
    widget = StripChart()
    trace = run("continuous", num_blocks=200, runner=SimulatedRunner.for_gpu())
    widget.feed(0, trace)
    widget.publish()
    widget.finish(0)
    widget.conclude()
    return widget


def histogram() -> Histogram:
    widget = Histogram(2, slo_ms={"ttft": 500})
    widget.feed(0, run("static"))
    widget.feed(1, run("continuous"))
    widget.conclude()
    return widget


def roofline() -> Roofline:
    widget = Roofline()
    widget.add_gpu("A100-80GB-SXM", "A100")
    widget.add_gpu("H200-141GB-SXM", "H200")
    return widget


MAKERS = [curve, strips, histogram, roofline]


def ink(page: WidgetPage, number: int = 0) -> dict:
    return page.page.evaluate(INK, number)


@pytest.mark.parametrize("make", MAKERS)
def test_it_paints_answers_keys_and_lives_in_two_views(page, make):
    widget = make()
    page.show(widget)
    first = ink(page)
    assert first["painted"] > 5_000
    tab = page.page
    headline = tab.locator(".mlt-headline").first
    assert headline.inner_text() == widget.headline
    # keys move and stay in the figure
    tab.evaluate(
        "() => { window.leaked = 0; document.addEventListener('keydown', () => leaked++); }"
    )
    tab.locator("canvas.mlt-over").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "Home", "End"):
        tab.keyboard.press(key)
    page.pump()
    assert ink(page)["hash"] != first["hash"]
    assert len(tab.locator(".mlt-live").inner_text()) > 10
    tab.keyboard.press("Escape")
    page.pump()
    assert ink(page)["hash"] == first["hash"]
    assert tab.evaluate("() => window.leaked") == 0
    # a second view, and one that comes after the first is gone: as after a reload
    page.view()
    assert ink(page, 1) == first
    page.close(view=0)
    assert tab.locator("canvas.mlt-over").count() == 1
    page.close(view=1)
    assert tab.evaluate("() => window.widgets[0].listeners()") == 0
    page.view()
    assert ink(page) == first


@pytest.mark.parametrize("make", MAKERS)
def test_it_follows_the_theme_the_width_and_its_frozen_form(page, make):
    widget = make()
    page.show(widget, width=1100)
    light = ink(page)
    page.set_theme("dark")
    page.page.wait_for_function(f"n => ({INK})(n).hash !== {light['hash']}", arg=0)
    page.page.evaluate("() => { widgets[0].views[0].el.style.width = '420px'; }")
    page.page.wait_for_timeout(100)
    page.pump()
    assert page.page.locator("canvas.mlt-over").evaluate("c => c.clientWidth") <= 420
    assert ink(page)["painted"] > 3_000
    overflow = page.page.locator(".mlt").evaluate("el => el.scrollWidth - el.clientWidth")
    assert overflow <= 1
    page.page.wait_for_function(
        "() => document.querySelector('.mlt-over').getAttribute('aria-label').length > 60",
        timeout=20_000,
    )
    widget.freeze()
    page.pump()
    assert page.page.locator(".mlt-frozen-figure svg").is_visible()
    assert not page.page.locator("canvas.mlt-over").is_visible()
    assert page.page.locator(".mlt-frozen-figure table tr").count() > 2


@pytest.mark.parametrize("make", MAKERS)
def test_it_saves_its_picture_and_its_table(page, make, tmp_path):
    page.show(make())
    for name, start in (("PNG", b"\x89PNG"), ("CSV", b"")):
        with page.page.expect_download() as saved:
            page.page.get_by_role("button", name=name).click()
        path = tmp_path / saved.value.suggested_filename
        saved.value.save_as(path)
        assert path.suffix == f".{name.lower()}"
        assert path.read_bytes().startswith(start)
    rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 3
    assert len({len(row) for row in rows}) == 1


def test_the_curve_grows_and_its_limit_can_be_dragged(page):
    widget = Curve(30.0)
    page.show(widget)
    widget.add_line("here", "This machine", provenance="measured", planned=[1, 2, 4], runs=2)
    seen = set()
    for load, ms, tok in ((1, 20, 50), (2, 24, 90), (4, 45, 120)):
        widget.begin("here", load)
        page.pump()
        widget.add_run("here", load, ms, tok)
        page.pump()
        seen.add(ink(page)["hash"])
    widget.finish("here")
    page.pump()
    assert len(seen) == 3
    table = page.page.locator(".mlc-side").inner_text()
    assert "2 ★" in table
    assert "✕ over" in table
    x, y, to = page.page.evaluate("""() => {
        const root = [...document.querySelectorAll('#here > div')].find(el => el.figureView);
        const { dom, x, slo } = root.figureView;
        const box = dom.over.getBoundingClientRect();
        return [box.left + x.at(slo), box.top + 200, box.left + x.at(22)];
    }""")
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(to, y, steps=4)
    page.page.mouse.up()
    page.pump()
    assert widget.slo_ms == pytest.approx(22, abs=0.5)
    page.pump()
    assert "1 ★" in page.page.locator(".mlc-side").inner_text()
    assert "batch 1" in page.page.locator(".mlt-headline").inner_text()
    page.page.locator("canvas.mlt-over").focus()
    for _ in range(20):
        page.page.keyboard.press("+")
    page.page.wait_for_timeout(300)
    page.pump()
    assert widget.slo_ms > 50
    page.page.get_by_role("button", name="Clear limit").click()
    page.page.wait_for_timeout(300)
    page.pump()
    assert widget.slo_ms is None


def test_a_published_points_source_stands_in_its_card(page):
    page.show(curve())
    place = page.page.evaluate("""() => {
        const root = [...document.querySelectorAll('#here > div')].find(el => el.figureView);
        const { dom, points } = root.figureView;
        const box = dom.over.getBoundingClientRect();
        const point = points.find(each => each.group === 'published');
        return [box.left + point.x, box.top + point.y];
    }""")
    page.page.mouse.move(*place)
    page.painted()
    assert "a page, 7.5 ms" in page.page.locator(".mlt-card").inner_text()


def test_strips_move_and_share_the_cursor(page):
    cursor = Cursor()
    first, second = StripChart(cursor=cursor), StripChart(cursor=cursor)
    page.show(first)
    page.show(second)
    whole = run("continuous")
    growing, seen = Trace(whole.header), set()
    for start in range(0, len(whole.records), 30):
        for record in whole.records[start : start + 30]:
            growing.add(record)
        for chart in (first, second):
            chart.feed(0, growing)
            chart.publish()
        page.pump()
        seen.add(ink(page)["hash"])
    assert len(seen) > 4
    for chart in (first, second):
        chart.finish(0)
    page.pump()
    before = ink(page, 1)["hash"]
    box = page.page.locator("canvas.mlt-over").first.bounding_box()
    page.page.mouse.click(box["x"] + 300, box["y"] + 60)
    page.pump()
    assert ink(page, 1)["hash"] != before
    page.page.wait_for_timeout(300)
    page.pump()
    assert cursor.t is not None
    page.page.locator("canvas.mlt-over").first.focus()
    page.page.keyboard.press("Escape")
    page.page.mouse.move(5, 5)
    page.pump()
    assert ink(page, 1)["hash"] == before


def test_the_histogram_changes_its_axis(page):
    widget = histogram()
    page.show(widget)
    before = ink(page)["hash"]
    page.page.get_by_role("button", name="Log axis").click()
    page.pump()
    assert widget.scale == "log"
    assert ink(page)["hash"] != before
    assert page.page.get_by_role("button", name="Linear axis").is_visible()


def test_a_dot_of_the_roofline_appears_when_it_is_measured(page):
    widget = Roofline()
    page.show(widget)
    widget.add_device("here", "This machine", "measured")
    widget.set_roof("here", 1e11, 2e10)
    seen = set()
    for batch in (1, 8, 32):
        widget.add_dot("here", batch, 2e6 * batch, 2e6 + 3e3 * batch, 2e-4)
        page.pump()
        seen.add(ink(page)["hash"])
    assert len(seen) == 3


# ── questions ───────────────────────────────────────────────────────────────────────────────


def drawn() -> Predict:
    x, y = Axis("ms per token", 5, 100, True, "ms"), Axis("tok/s", 50, 20_000, True)
    return Predict("point", "Where will it lie?", chart=Chart(x, y, [("known", [(10, 100)])]))


def test_a_point_is_placed_by_pointer_and_keys_and_locks(page):
    predict = drawn()
    page.show(predict)
    tab = page.page
    lock = tab.get_by_role("button", name="Lock my prediction")
    assert lock.is_disabled()
    chart = tab.locator("svg.ml-chart")
    box = chart.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 60)
    page.pump()
    clicked = predict.answer
    assert 5 < clicked[0] < 100
    assert lock.is_enabled()
    for key in ("ArrowRight", "Shift+ArrowUp"):
        tab.keyboard.press(key)
    page.pump()
    assert predict.answer[0] > clicked[0]
    assert predict.answer[1] > clicked[1]
    tab.get_by_label("ms per token").fill("0")
    page.pump()
    assert predict.answer[0] == 5
    lock.click()
    page.pump()
    assert predict.locked_at
    stood = predict.answer
    tab.mouse.click(box["x"] + 120, box["y"] + 200)
    page.pump()
    assert predict.answer == stood
    assert tab.locator("svg.ml-chart").get_attribute("tabindex") == "-1"
    assert "before Run" in tab.locator(".ml-note").first.inner_text()


def test_a_quiz_answers_and_saves(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quiz = Quiz.of("05")
    page.show(quiz)
    page.page.locator(".ml-option input").first.check()
    page.pump()
    assert quiz.picked[0] == 0
    page.page.get_by_role("button", name="Save my answers").click()
    page.pump()
    page.pump()
    assert "Saved to answers-05.json" in page.page.locator(".ml-save").inner_text()
    assert (tmp_path / "answers-05.json").is_file()


def test_a_second_view_of_a_question_or_a_walk_says_the_same(page):
    for number, name in enumerate(("quiz", "walk", "predict_choice")):
        show(page, name)
        page.view(number)
    tab = page.page
    tab.locator(".ml-quiz").nth(0).get_by_role("radio").nth(2).check()
    page.pump()
    told = tab.locator(".ml-quiz .ml-feedback").all_inner_texts()
    assert told[0] == told[3]
    assert told[0].startswith("✕")
    first, second = tab.locator(".ml-walk .ml-title").all()
    tab.locator(".ml-walk").nth(1).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        tab.keyboard.press(key)
    assert first.inner_text() == second.inner_text() == "Iteration 2 of 9"
    tab.locator(".ml-walk").nth(0).get_by_role("button", name="iteration 1", exact=True).click()
    tab.keyboard.press("End")  # the button pressed is gone: the walk has the focus
    assert first.inner_text() == second.inner_text() == "Iteration 9 of 9"
    tab.locator(".ml-predict").nth(0).get_by_role("radio", name="60 %").click()
    page.pump()
    assert "your answer" in tab.locator(".ml-predict").nth(1).locator(".ml-picked").inner_text()
    assert "60 %" in tab.locator(".ml-predict").nth(1).locator(".ml-picked").inner_text()
    names = (
        "() => [...document.querySelectorAll('.ml-predict input:first-of-type')].map(i => i.name)"
    )
    assert len(set(tab.evaluate(names))) == 2  # groups of their own
