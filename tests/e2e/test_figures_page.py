"""Block map, queue and cluster in a real browser, outside Jupyter, and the cursor they share."""

from __future__ import annotations

import time

import pytest

from minillm.core.trace import Trace
from tests.e2e.widget_page import WidgetPage
from tests.widgets.runs import run, shared_run
from widgets.block_map import BlockMap
from widgets.cluster_model import ClusterHeader, ClusterHistory, Load
from widgets.cluster_view import ClusterView
from widgets.cursor import Cursor
from widgets.queue_view import QueueView
from widgets.timeline import Timeline

pytestmark = pytest.mark.browser

HASH = """() => {
    const canvas = window.view.dom.over;
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    let hash = 0;
    for (let i = 0; i < pixels.length; i++) hash = (hash * 31 + pixels[i]) | 0;
    return hash;
}"""
LEAKED = """() => {
    window.leaked = [];
    document.addEventListener("keydown", (event) => window.leaked.push(event.key));
}"""


@pytest.fixture
def tab(browser):
    context = browser.new_context(viewport={"width": 1248, "height": 900})
    yield context.new_page()
    context.close()


def finished(widget, *traces):
    for lane, trace in enumerate(traces):
        widget.feed(lane, trace)
        widget.finish(lane)
    widget.conclude()
    return widget


def history(live: bool = False) -> ClusterHistory:
    header = ClusterHeader(
        ("A100", "A100", "H100"), "least_conn", "simulated", "A100, H100", "m", (8, 8, 8)
    )
    made = ClusterHistory(header)
    for i in range(300):
        up = not 100 <= i < 160
        loads = [Load(min(8, i // 20), max(0, i // 20 - 8), i / 400, True, i)] * 2
        made.add(i * 0.1, [*loads, Load(6 * up, 0, 0.3 * up, up, min(i, 100))])
    made.done = not live
    return made


def shown(name: str):
    """A finished widget of that kind, with something to see."""
    if name == "blocks":
        return finished(BlockMap(cursor=Cursor()), shared_run())
    if name == "queue":
        return finished(
            QueueView(3, cursor=Cursor()), run("static"), run("dynamic"), run("continuous")
        )
    view = ClusterView(cursor=Cursor())
    view.show(history())
    view.conclude()
    return view


@pytest.fixture(params=["blocks", "queue", "cluster"])
def wire(request, tab):
    made = WidgetPage(tab, shown(request.param))
    made.name = request.param
    made.painted()
    yield made
    made.check_clean()


def settled(wire):
    """The picture once nothing glides any more."""
    wire.page.wait_for_function("() => !window.view.moving && !window.view.frame", timeout=10_000)
    return wire.page.evaluate(HASH)


def test_keys_move_through_the_run_and_stay_in_the_figure(wire):
    page = wire.page
    page.evaluate(LEAKED)
    page.locator(".mlt-over").focus()
    seen = [settled(wire)]
    t = "() => window.view.link.t"
    page.keyboard.press("Home")
    seen.append(settled(wire))
    first = page.evaluate(t)
    page.keyboard.press("ArrowRight")
    second = page.evaluate(t)
    page.keyboard.press("Shift+ArrowRight")
    far = page.evaluate(t)
    seen.append(settled(wire))
    page.keyboard.press("ArrowLeft")
    assert first < second < page.evaluate(t) < far
    assert len(page.locator(".mlt-live").inner_text()) > 20
    page.keyboard.press("End")
    seen.append(settled(wire))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.evaluate(t) is None
    assert settled(wire) == seen[0] or wire.name == "queue"  # another lane is in the scene
    assert len(set(seen)) >= 3
    assert set(page.evaluate("() => window.leaked")) <= {"Shift"}


def test_it_is_named_described_and_tells_its_finding(wire):
    page = wire.page
    over = page.locator(".mlt-over")
    assert (over.get_attribute("role"), over.get_attribute("tabindex")) == ("img", "0")
    assert page.locator(".mlt-headline").inner_text() == wire.widgets[0].headline
    assert "simulated" in page.locator(".mlt-provenance").inner_text()
    page.wait_for_function(
        "() => window.view.dom.over.getAttribute('aria-label').length > 80", timeout=20_000
    )


def test_it_follows_theme_width_and_pixel_ratio(wire):
    page = wire.page
    light = settled(wire)
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    wire.painted()
    background = page.locator(".mlt").evaluate("el => getComputedStyle(el).backgroundColor")
    assert background == "rgb(16, 20, 25)"
    assert settled(wire) != light
    for width in (640, 400):
        page.set_viewport_size({"width": width, "height": 900})
        wire.painted()
        settled(wire)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), width


def test_a_second_view_shows_the_same_and_a_closed_one_leaves_nothing(wire):
    page = wire.page
    before = settled(wire)
    page.evaluate("() => { window.first = window.view; window.widgets[0].view(); }")
    wire.pump()
    wire.painted()
    assert settled(wire) == before
    page.evaluate("() => window.view.link.keep({ t: 0.25 })")
    wire.painted()
    assert page.evaluate("() => window.first.link.t") == 0.25
    frames = page.evaluate(
        "() => { window.widgets[0].views[1].close(); return window.view.stats.frames; }"
    )
    page.evaluate("() => window.first.link.keep({ t: 0.75 })")
    wire.painted()
    assert page.evaluate("() => window.view.stats.frames") == frames
    assert page.locator(".mlt").count() == 1


def test_play_moves_the_cursor_and_the_reader_can_take_over(wire):
    page = wire.page
    page.get_by_role("button", name="Play at").click()
    page.wait_for_function("() => window.view.link.t > 0.0001", timeout=10_000)
    pause = page.get_by_role("button", name="Pause")
    pause.click()
    held = page.evaluate("() => window.view.link.t")
    wire.painted()
    assert page.evaluate("() => window.view.link.t") == held
    page.get_by_role("button", name="Play at").click()
    page.locator(".mlt-over").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Play at").wait_for(timeout=10_000)


def test_stale_and_frozen(wire):
    widget = wire.widgets[0]
    widget.stale("The engine stopped at 14:07:03. Run the cell again.")
    wire.pump()
    note = wire.page.locator(".mlt-stale-note")
    note.wait_for(state="visible", timeout=10_000)
    assert "14:07:03" in note.inner_text()
    widget.stale("")
    widget.freeze()
    wire.pump()
    wire.painted()
    assert wire.page.locator(".mlt-frozen-figure svg").is_visible()
    assert wire.page.locator(".mlt-frozen-figure table").is_visible()
    assert not wire.page.locator(".mlt-over").is_visible()


def test_hovering_a_block_tells_its_owner_and_a_click_highlights_it(tab):
    cursor = Cursor()
    wire = WidgetPage(tab, finished(BlockMap(cursor=cursor), shared_run()))
    wire.painted()
    tab.mouse.move(60, 160)
    wire.painted()
    card = tab.locator(".mlt-card")
    assert card.inner_text().startswith("Block 0 · in use")
    assert "Tokens filled" in card.inner_text()
    tab.mouse.down()
    tab.mouse.up()
    wire.painted()
    req = tab.evaluate("() => window.view.link.req")
    letter = tab.evaluate("() => window.view.letterOf(window.view.link.req)")
    assert f"Held by\n{letter}" in card.inner_text()
    tab.wait_for_timeout(300)
    wire.pump()
    assert cursor.req == req is not None  # the kernel heard of it
    wire.check_clean()


def test_figures_of_one_cursor_move_together_whoever_moves(tab):
    cursor = Cursor()
    trace = shared_run()
    widgets = [
        finished(Timeline(cursor=cursor), trace), finished(BlockMap(cursor=cursor), trace),
        finished(QueueView(cursor=cursor), trace),
    ]  # fmt: skip
    alone = finished(BlockMap(), trace)
    wire = WidgetPage(tab, *widgets, alone)
    wire.painted()
    both = "() => window.views.map(({ link }) => [link.t, link.req])"
    step = "() => [window.views[0].cursor?.step?.number, window.views[1].shown]"
    tab.locator(".mlt-over").nth(0).focus()
    tab.keyboard.press("Home")
    tab.keyboard.press("Shift+ArrowRight")
    wire.painted()
    assert tab.evaluate(step) == [10, 10]
    tab.locator(".mlt-over").nth(1).focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    wire.painted()
    assert tab.evaluate(step) == [11, 11]
    told = tab.evaluate(both)
    assert told[0] == told[1] == told[2]
    assert told[0][1] is not None
    assert told[3] == [None, None]
    assert tab.evaluate("() => window.views[0].pinned") == told[0][1]
    tab.wait_for_timeout(300)
    wire.pump()
    assert [cursor.t, cursor.req] == told[0]
    cursor.move(t=trace.steps[40].t_start - trace.steps[0].t_start + 0.001, req=3)
    wire.pump()
    wire.painted()
    assert tab.evaluate(step) == [40, 40]
    assert {tuple(pair) for pair in tab.evaluate(both)[:3]} == {(cursor.t, 3)}
    wire.check_clean()


def test_live_figures_keep_up_and_lost_messages_are_asked_for_again(tab):
    trace = shared_run()
    growing = Trace(trace.header)
    blocks, queue = BlockMap(), QueueView()
    wire = WidgetPage(tab, blocks, queue)
    for index, record in enumerate(trace.records):
        growing.add(record)
        if index % 30 == 29:
            for widget in (blocks, queue):
                widget.feed(0, growing)
                widget.publish()
            wire.lose = index % 3
            wire.pump()
    for widget in (blocks, queue):
        widget.feed(0, growing)
        widget.finish(0)
    deadline = time.monotonic() + 20
    steps = len(trace.steps)
    whole = f"() => window.views[0].lane.stepCount === {steps} && window.views[0].lane.done"
    while time.monotonic() < deadline and not tab.evaluate(whole):
        wire.pump()
        tab.wait_for_timeout(50)
    assert tab.evaluate(whole)
    wire.painted()
    used = tab.evaluate("() => { const { lane } = window.views[0]; return [...lane.kvUsed]; }")
    assert used == [step.kv_used for step in trace.steps]
    replayed = tab.evaluate(
        "() => window.views[0].lane.t0.map((_, i) => window.views[0].lane.stateAt(i).numUsed)"
    )
    assert replayed == used
    wire.check_clean()


def test_a_running_cluster_is_followed(tab):
    view = ClusterView()
    whole = history()
    live = view.watch(whole.header)
    wire = WidgetPage(tab, view)
    for t, loads in list(whole.ticks)[:120]:
        live.add(t, loads)
        view.publish()
        wire.lose = int(t * 10) % 7 == 6
        if int(t * 10) % 4 == 0:
            wire.pump()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        view.publish()
        wire.pump()
        if tab.evaluate("() => window.view.cluster.times.length") == 120:
            break
        live.add(live.ticks[-1][0] + 0.1, live.ticks[-1][1])
    assert tab.evaluate("() => window.view.cluster.times.length") >= 120
    assert not tab.get_by_role("button", name="Play at").is_visible()
    view.finish()
    wire.pump()
    wire.painted()
    assert tab.get_by_role("button", name="Play at").is_visible()
    wire.check_clean()
