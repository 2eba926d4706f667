"""The timeline in a real browser, outside Jupyter: it paints, moves, answers keys and pointer."""

from __future__ import annotations

import time

import pytest

from minillm.core.trace import RequestEvent, Row, StepRecord, Trace, TraceHeader
from tests.e2e.widget_page import WidgetPage
from tests.widgets.runs import run
from widgets.timeline import Timeline

pytestmark = pytest.mark.browser

SETTLED = """() => {
    const canvas = window.view.dom.data;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const found = { blue: 0, amber: 0, red: 0 };
    for (let i = 0; i < pixels.length; i += 4) {
        const [r, g, b, a] = [pixels[i], pixels[i + 1], pixels[i + 2], pixels[i + 3]];
        if (a < 250) continue;
        if (r === 0 && g === 114 && b === 178) found.blue++;
        else if (r === 230 && g === 159 && b === 0) found.amber++;
        else if (r > 190 && g > 70 && g < 120 && b < 40) found.red++;
    }
    return found;
}"""
PLACE = """([panel, row, t]) => {
    const { dom, geometry, scale } = window.view;
    const box = dom.over.getBoundingClientRect();
    const at = geometry.panels[panel];
    return { x: box.left + scale.x(t), y: box.top + at.top + (row + 0.5) * at.pitch };
}"""
HASH = """() => {
    const canvas = window.view.dom.data;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let hash = 0;
    for (let i = 0; i < pixels.length; i++) hash = (hash * 31 + pixels[i]) | 0;
    return hash;
}"""


@pytest.fixture
def tab(browser):
    context = browser.new_context(viewport={"width": 1248, "height": 900})
    yield context.new_page()
    context.close()


@pytest.fixture
def pair(tab):
    """A finished A/B run on the page, 1,200 px wide."""
    timeline = Timeline(lanes=2, detokenize=lambda ids: " ".join(map(str, ids)))
    timeline.feed(0, run("static"))
    timeline.feed(1, run("continuous", num_blocks=52))
    timeline.finish(0)
    timeline.finish(1)
    timeline.conclude()
    wire = WidgetPage(tab, timeline)
    wire.painted()
    yield wire
    wire.check_clean()


def hover(wire, panel, row, t):
    place = wire.page.evaluate(PLACE, [panel, row, t])
    wire.page.mouse.move(place["x"], place["y"])
    wire.painted()
    return place


def test_it_paints_what_ran(pair):
    found = pair.page.evaluate(SETTLED)
    assert found["blue"] > 5_000
    assert found["amber"] > 300
    assert found["red"] > 5_000
    text = pair.page.locator(".mlt-top").inner_text()
    assert "Continuous batching: 2.2× the tokens per second." in text
    assert "simulated" in text
    assert "same 14 requests" in text


def test_hovering_shows_the_card_and_a_click_pins_it(pair):
    hover(pair, 1, 7, 0.55)
    card = pair.page.locator(".mlt-card")
    pair.pump()
    pair.painted()
    said = card.inner_text()
    assert said.startswith("H · step ")
    assert "decoding" in said
    assert "static: 1,087" in said
    assert "of ≤ 70" in said
    last = pair.page.locator(".mlt-card mark").inner_text().strip()
    assert last.isdigit()  # the kernel's text of this step
    pair.page.mouse.down()
    pair.page.mouse.up()
    hover(pair, 0, 1, 2.0)
    assert card.inner_text().startswith("H · step ")
    pair.page.keyboard.press("Escape")
    pair.painted()
    assert not card.is_visible()


def test_keys_move_the_cursor_and_stay_in_the_figure(pair):
    page = pair.page
    page.evaluate("""() => {
        window.leaked = [];
        document.addEventListener("keydown", (event) => window.leaked.push(event.key));
    }""")
    page.locator(".mlt-over").focus()
    step = "() => { return window.view.cursor?.step?.number ?? null; }"

    def after(*keys):
        for key in keys:
            page.keyboard.press(key)
        pair.painted()
        return page.evaluate(step)

    assert after("ArrowRight") == 0
    assert after("ArrowRight") == 1
    assert after("Shift+ArrowRight") == 11
    assert after("ArrowLeft") == 10
    assert after("End") == 178
    assert after("Home") == 0
    assert "Request A, step 0" in page.locator(".mlt-live").inner_text()
    assert after("ArrowDown", "ArrowDown") == 0
    assert page.evaluate("() => window.view.cursor.row") == 2
    assert after("Escape") is None
    assert set(page.evaluate("() => window.leaked")) <= {"Shift"}
    for key in ("x", "d", "1"):  # commands of a notebook
        page.keyboard.press(key)
    assert set(page.evaluate("() => window.leaked")) <= {"Shift"}
    page.keyboard.press("Alt+x")  # is the page's or the browser's
    assert page.evaluate("() => window.leaked.at(-1)") == "x"


def test_a_drag_zooms_and_a_double_click_shows_all(pair):
    page = pair.page
    whole = page.evaluate("() => [window.view.scale.v0, window.view.scale.v1]")
    start = hover(pair, 0, 3, 0.5)
    page.mouse.down()
    page.mouse.move(start["x"] + 150, start["y"], steps=4)
    page.mouse.up()
    pair.painted()
    v0, v1 = page.evaluate("() => [window.view.scale.v0, window.view.scale.v1]")
    assert v0 == pytest.approx(0.5, abs=0.02)
    assert v1 - v0 < 0.5
    assert page.get_by_role("button", name="Show all").is_visible()
    page.mouse.dblclick(start["x"], start["y"])
    pair.painted()
    assert page.evaluate("() => [window.view.scale.v0, window.view.scale.v1]") == whole


def test_the_wheel_zooms_a_focused_figure_and_the_axis_scrubs(pair):
    page = pair.page
    window = "() => [window.view.scale.v0, window.view.scale.v1]"
    whole = page.evaluate(window)
    place = hover(pair, 0, 3, 0.5)
    page.mouse.wheel(0, -200)
    pair.painted()
    assert page.evaluate(window) == whole  # not focused: the page's wheel
    page.locator(".mlt-over").focus()
    page.mouse.wheel(0, -200)
    pair.painted()
    v0, v1 = page.evaluate(window)
    assert v1 - v0 < 0.9 * (whole[1] - whole[0])
    assert v0 < 0.5 < v1
    page.keyboard.press("Escape")
    pair.painted()
    axis = page.evaluate(
        "() => window.view.geometry.axisY + window.view.dom.over.getBoundingClientRect().top"
    )
    page.mouse.move(place["x"], axis + 3)
    page.mouse.down()
    seen = set()
    for shift in range(0, 100, 20):
        page.mouse.move(place["x"] + shift, axis + 3)
        pair.painted()
        seen.add(page.evaluate("() => window.view.cursor.step.number"))
    page.mouse.up()
    assert len(seen) == 5


def test_slots_and_back(pair):
    before = pair.page.evaluate(HASH)
    pair.page.get_by_role("button", name="Show slots").click()
    pair.painted()
    rows = pair.page.evaluate("() => window.view.geometry.panels.map(panel => panel.rows)")
    assert rows == [6, 6]
    assert pair.page.evaluate(SETTLED)["blue"] > 2_000
    pair.page.get_by_role("button", name="Show requests").click()
    pair.painted()
    assert pair.page.evaluate(HASH) == before


def test_it_follows_the_theme_and_the_width(pair):
    page = pair.page
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    pair.painted()
    dark = page.locator(".mlt").evaluate("el => getComputedStyle(el).backgroundColor")
    assert dark == "rgb(16, 20, 25)"
    page.evaluate("""() => {
        document.body.style.setProperty('--jp-layout-color0', '#fffaf0');
        document.body.dataset.jpThemeLight = 'true';
    }""")
    pair.painted()
    light = page.locator(".mlt").evaluate("el => getComputedStyle(el).backgroundColor")
    assert light == "rgb(255, 250, 240)"
    page.set_viewport_size({"width": 640, "height": 900})
    pair.painted()
    assert page.evaluate("() => window.view.geometry.figuresX") is None
    page.set_viewport_size({"width": 440, "height": 900})
    pair.painted()
    assert page.evaluate("() => window.view.geometry.panels.length") == 1
    page.get_by_role("button", name="Show Continuous").click()
    pair.painted()
    assert page.evaluate("() => window.view.geometry.panels[0].lane") == 1
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_it_moves_while_it_runs_and_incremental_painting_equals_a_whole_one(tab):
    whole = run("static")
    growing = Trace(whole.header)
    timeline = Timeline()
    wire = WidgetPage(tab, timeline)
    seen = set()
    for start in range(0, len(whole.records), 15):
        for record in whole.records[start : start + 15]:
            growing.add(record)
        timeline.feed(0, growing)
        timeline.publish()
        wire.pump()
        wire.painted()
        seen.add(tab.evaluate(HASH))
    assert len(seen) > 10
    assert tab.evaluate("() => window.view.lanes[0].stepCount") == len(whole.steps)
    incremental = tab.evaluate(HASH)
    full = tab.evaluate("() => window.view.stats.full")
    tab.evaluate("() => window.view.repaint()")
    wire.painted()
    assert tab.evaluate("() => window.view.stats.full") == full + 1
    assert tab.evaluate(HASH) == incremental
    assert tab.get_by_role("button", name="Pause").is_visible()
    timeline.finish(0)
    wire.pump()
    wire.painted()
    assert not tab.get_by_role("button", name="Pause").is_visible()
    wire.check_clean()


def test_pause_holds_the_picture_and_follow_catches_up(tab):
    whole = run("continuous")
    growing = Trace(whole.header)
    timeline = Timeline(expected_requests=14)
    wire = WidgetPage(tab, timeline)

    def feed(records):
        for record in records:
            growing.add(record)
        timeline.feed(0, growing)
        timeline.publish()
        wire.pump()
        wire.painted()

    feed(whole.records[:60])
    tab.get_by_role("button", name="Pause").click()
    wire.painted()
    held = tab.evaluate(HASH)
    feed(whole.records[60:90])
    assert tab.evaluate(HASH) == held
    tab.get_by_role("button", name="Follow live").click()
    wire.painted()
    assert tab.evaluate(HASH) != held
    wire.check_clean()


def test_lost_messages_are_asked_for_again(tab):
    whole = run("continuous")
    growing = Trace(whole.header)
    timeline = Timeline()
    wire = WidgetPage(tab, timeline)
    for index, record in enumerate(whole.records):
        growing.add(record)
        if index % 10 == 9:
            timeline.feed(0, growing)
            timeline.publish()
            wire.lose = index % 3
            wire.pump()
    timeline.feed(0, growing)
    timeline.finish(0)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        wire.pump()
        if tab.evaluate("() => window.view.lanes[0].done && window.view.lanes[0].stepCount") == len(
            whole.steps
        ):
            break
        tab.wait_for_timeout(50)
    assert tab.evaluate("() => window.view.stats.gaps") > 0
    assert tab.evaluate("() => window.view.lanes[0].stepCount") == len(whole.steps)
    tokens = tab.evaluate("() => [...window.view.lanes[0].requests.values()].map(r => r.tokens)")
    assert sum(tokens) == sum(row.token_id is not None for s in whole.steps for row in s.rows)


def test_a_view_that_comes_late_is_brought_up_in_parts(tab):
    trace, records = stress(128, 400)
    timeline = Timeline()
    timeline.reset(0, trace.header)
    timeline.feed(0, records)
    timeline.finish(0)  # nobody was there
    wire = WidgetPage(tab, timeline)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        wire.pump()
        if tab.evaluate("() => window.view.lanes[0].stepCount") == 400:
            break
        tab.wait_for_timeout(50)
    assert tab.evaluate("() => window.view.lanes[0].stepCount") == 400
    assert tab.evaluate("() => window.view.stats.messages") >= 4
    wire.check_clean()


def test_very_many_requests_keep_the_figure_small(tab):
    timeline = Timeline()
    wire = WidgetPage(tab, timeline)
    timeline.feed(
        0, run("continuous", [(0.001 * i, 8, 3) for i in range(700)], slots=64, budget=512)
    )
    timeline.finish(0)
    wire.pump()
    wire.painted()
    assert tab.evaluate("() => window.view.geometry.height") < 700
    assert tab.evaluate("() => window.view.rows[0].length") == 256
    assert tab.evaluate(SETTLED)["blue"] > 1_000
    wire.check_clean()


def test_stale_and_frozen(pair):
    pair.widgets[0].stale("The engine stopped at 14:07:03. Run the cell again.")
    pair.pump()
    note = pair.page.locator(".mlt-stale-note")
    note.wait_for(state="visible", timeout=10_000)
    assert "14:07:03" in note.inner_text()
    pair.widgets[0].stale("")
    pair.widgets[0].freeze()
    pair.pump()
    pair.painted()
    assert pair.page.locator(".mlt-frozen-figure svg").is_visible()
    assert not pair.page.locator(".mlt-over").is_visible()
    assert pair.page.locator("table tr").count() == 3


def test_it_is_described_for_those_who_do_not_see_it(pair):
    over = pair.page.locator(".mlt-over")
    assert over.get_attribute("role") == "img"
    assert over.get_attribute("tabindex") == "0"
    pair.page.wait_for_function(
        "() => window.view.dom.over.getAttribute('aria-label').includes('62 % of rows padding')",
        timeout=20_000,
    )


def test_a_closed_view_leaves_nothing_behind(pair):
    page = pair.page
    pair.close()
    frames = page.evaluate("() => window.view.stats.frames")
    pair.widgets[0].publish(heartbeat=True)
    pair.pump()
    pair.painted()
    assert page.evaluate("() => window.view.stats.frames") == frames
    assert page.locator(".mlt").count() == 0


def stress(rows: int, steps: int) -> tuple[Trace, list]:
    """A run of `rows` sequences that all decode for `steps` steps."""
    config = {"max_num_seqs": rows}
    header = TraceHeader("simulated", "none", "none", "none", "continuous", 1, 16, config)
    records = [
        RequestEvent(0.0, r, f"r{r}", "arrive", {"prompt_len": 1, "max_tokens": steps})
        for r in range(rows)
    ]
    for i in range(steps):
        kind = 0 if i == 0 else 1
        made = [Row(r, kind, 1, 0, i, 7) for r in range(rows)]
        records.append(StepRecord(i, i * 0.02, (i + 1) * 0.02, 0, rows, None, made, 0, 0))
    return Trace(header), records


def test_stress_256_rows_2000_steps(tab):
    """≥ 6 painted frames a second with 256 rows × 2,000 steps (the goal is 30: 5x slack)."""
    trace, records = stress(256, 2000)
    timeline = Timeline()
    timeline.reset(0, trace.header)
    wire = WidgetPage(tab, timeline)
    started = 256 + 1900
    for start in range(0, started, 60):  # in parts, as a run would send them
        timeline.feed(0, records[start : min(start + 60, started)])
        timeline.publish()
        wire.pump()
    wire.painted()
    before = tab.evaluate("() => window.view.stats.frames")
    began = time.monotonic()
    for record in records[started:]:
        timeline.feed(0, [record])
        timeline.publish()
        wire.pump(wait=False)
        tab.evaluate("() => new Promise(requestAnimationFrame)")
    seconds = time.monotonic() - began
    painted = tab.evaluate("() => window.view.stats.frames") - before
    print(f"{painted / seconds:.0f} painted frames/s with 256 rows x 2,000 steps")
    assert tab.evaluate("() => window.view.lanes[0].stepCount") == 2000
    assert painted / seconds >= 6
    wire.check_clean()
