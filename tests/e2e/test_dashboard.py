"""The dashboard in Chromium: the real script, a simulated engine, real Voila, no network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.e2e.dashboard import DashboardServer, Visitor
from tools.dashboard import WAITING_KERNELS

pytestmark = pytest.mark.browser

READY_S = 8.0  # the goal, on a machine that does nothing else; see ready_limit()
CULL_AFTER_S = 30

TIMELINE = "[...document.querySelectorAll('*')].find(each => each.figureView)?.figureView"
STEPS = f"() => {{ const view = {TIMELINE}; return view ? view.lanes[0].now : 0; }}"
PAINTED = """() => {
    const canvases = [...document.querySelectorAll('.mlt-figure canvas')];
    const ink = canvas => {
        if (!canvas.width || !canvas.height) return 0;
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 3; i < data.length; i += 16) n += data[i] > 0;
        return n;
    };
    return canvases.filter(canvas => ink(canvas) > 300).length;
}"""


def ready_limit() -> float:
    """Seconds: five times the goal, and in proportion more where others wait for the processors."""
    return 5 * READY_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.fixture(scope="module")
def server(chromium: str) -> Iterator[DashboardServer]:
    server = DashboardServer("--simulate", "A100-80GB-SXM", "--cull-after", str(CULL_AFTER_S))
    yield server
    server.stop()


@pytest.fixture
def visit(browser, server: DashboardServer):
    """Open a page of its own, as another visitor would."""
    contexts = []

    def opened(theme: str = "light", width: int = 1400) -> Visitor:
        context = browser.new_context(viewport={"width": width, "height": 1500})
        contexts.append(context)
        visitor = Visitor(context.new_page(), server.url)
        visitor.ready_s = visitor.open(theme)
        return visitor

    yield opened
    for context in contexts:
        context.close()


def test_it_paints_moves_and_takes_a_burst_a_prompt_and_a_second_visitor(visit):
    first = visit()
    assert first.ready_s < ready_limit()
    page = first.page
    first.wait(f"() => ({PAINTED})() >= 4")  # timeline (two layers), strips, blocks, histogram
    before = page.evaluate(STEPS)
    first.wait(f"before => ({STEPS})() > before + 0.5", before)
    # A burst fills the slots: somebody waits.
    page.get_by_role("button", name="Burst of 16").click()
    page.get_by_role("button", name="Burst of 16").click()
    page.locator(".mlt-headline", has_text="for a slot").first.wait_for(timeout=30_000)
    # A prompt of one's own: its text comes, and its row is highlighted.
    prompt = page.get_by_label("Send a prompt of your own")
    prompt.fill("Why is the sky blue?")
    prompt.press("Enter")
    card = page.locator(".mld-request", has_text="Why is the sky blue?")
    card.locator(".mld-said", has_text="‹").wait_for(timeout=30_000)
    first.wait(f"() => ({TIMELINE}).pinned !== null")
    assert prompt.input_value() == ""

    second = visit("dark")
    assert second.ready_s < ready_limit()
    second.wait(f"() => ({STEPS})() > 0.5")
    second.page.locator(".mld-option", has_text="static").click()
    first.wait("() => document.querySelector('.mld-option input[value=static]').checked")
    second.page.locator(".mld-option", has_text="continuous").click()
    first.wait("() => document.querySelector('.mld-option input[value=continuous]').checked")
    for visitor in (first, second):
        at = visitor.page.evaluate(STEPS)
        visitor.wait(f"at => ({STEPS})() > at + 0.2", at)
        visitor.check_clean()

    # A reload is a visit of its own, and finds the engine as it is.
    first.open()
    first.errors.clear()  # Voila's bundle logs the connections that the old page lost
    first.wait(f"() => ({STEPS})() > 0.5")
    first.check_clean()


def test_three_visitors_at_once_are_ready_soon(browser, server: DashboardServer):
    """As three who open the page at one time: three pages load side by side."""
    end = time.monotonic() + 60
    while len(server.kernels()) < WAITING_KERNELS and time.monotonic() < end:
        time.sleep(0.2)
    pages, contexts = [], [browser.new_context() for _ in range(3)]
    begun = time.monotonic()
    for context in contexts:
        visitor = Visitor(context.new_page(), server.url)
        visitor.page.goto(server.url, wait_until="commit")
        pages.append(visitor)
    took = []
    for visitor in pages:
        visitor.page.locator(".mld-origin b").wait_for(timeout=150_000)
        took.append(time.monotonic() - begun)
    print("ready after", [f"{seconds:.1f} s" for seconds in took])
    for visitor in pages:
        visitor.check_clean()
    for context in contexts:
        context.close()
    assert max(took) < ready_limit()


def test_the_text_of_whichever_request_is_clicked_is_shown(visit):
    visitor = visit()
    page = visitor.page
    visitor.wait(f"() => ({STEPS})() > 0.5")
    page.get_by_role("button", name="Burst of 16").click()
    page.locator(".mlt-headline", has_text="for a slot").first.wait_for(timeout=30_000)
    figure = page.locator("canvas.mlt-over").first
    box = figure.bounding_box()
    for share in (0.3, 0.4, 0.5, 0.6, 0.2):  # a row that somebody is in
        figure.click(position={"x": box["width"] * 0.5, "y": box["height"] * share})
        page.wait_for_timeout(600)
        if page.locator(".mld-request .mld-letter").count():
            break
    page.locator(".mld-request .mld-said", has_text="‹").wait_for(timeout=30_000)
    # The moment that was clicked leaves the live view: the figures show what is now again.
    visitor.wait(f"() => ({TIMELINE}).link.t === null", limit_s=120)
    visitor.check_clean()


def test_the_engine_is_chosen_and_chunked_prefill_is_switched(visit):
    visitor, other = visit(), visit()
    page = visitor.page
    visitor.wait(f"() => ({STEPS})() > 0.5")
    page.get_by_label("Engine", exact=True).select_option(label="simulated L4")
    for each in (visitor, other):
        each.page.locator(".mld-origin", has_text="L4,").wait_for(timeout=30_000)
    page.locator("[data-name=enable_chunked_prefill] .mld-option", has_text="off").click()
    budget = page.get_by_label("max_num_batched_tokens")
    other.wait("() => document.querySelector('[data-name=max_num_batched_tokens] input').disabled")
    assert budget.get_attribute("aria-valuetext") == "4,096"
    page.locator("[data-name=enable_chunked_prefill] .mld-option", has_text="on").click()
    other.wait("() => !document.querySelector('[data-name=max_num_batched_tokens] input').disabled")
    prompt = page.get_by_label("Send a prompt of your own")
    prompt.fill("a very long prompt " * 1500)  # as if pasted: 7,000 tokens, and 4,096 fit
    page.get_by_role("button", name="Send", exact=True).click()
    page.locator(".mld-bad", has_text="4096 tokens in all").wait_for(timeout=30_000)
    page.get_by_label("Engine", exact=True).select_option(label="simulated A100-80GB")
    other.page.locator(".mld-origin", has_text="A100-80GB-SXM").wait_for(timeout=30_000)
    for each in (visitor, other):
        each.check_clean()


def test_light_and_dark_are_switched_in_the_page_and_kept(visit):
    visitor = visit("dark")
    page = visitor.page
    kernel = page.locator("#jupyter-config-data").inner_text()
    dark = "() => document.body.dataset.jpThemeLight === 'false' && window.getComputedStyle("
    dark += "document.querySelector('.mld')).backgroundColor === 'rgb(17, 17, 17)'"
    visitor.wait(dark)
    page.get_by_role("button", name="Light colours").click()
    visitor.wait("() => document.body.dataset.jpThemeLight === 'true'")
    assert page.locator("#jupyter-config-data").inner_text() == kernel
    page.get_by_role("button", name="Dark colours").click()
    visitor.wait(dark)
    visitor.check_clean()


def test_the_keyboard_reaches_controls_and_figures(visit):
    visitor = visit()
    page = visitor.page
    visitor.wait(f"() => ({STEPS})() > 0.5")
    rate = page.get_by_label("Your arrivals a second")
    rate.focus()
    before = rate.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert rate.get_attribute("aria-valuetext") != before
    page.locator("canvas.mlt-over").first.focus()
    page.keyboard.press("ArrowLeft")
    visitor.wait(f"() => ({TIMELINE}).cursor !== null")
    visitor.check_clean()


def test_an_engine_that_dies_is_told_within_5_s_and_comes_back(visit, server: DashboardServer):
    visitor = visit()
    visitor.wait(f"() => ({STEPS})() > 0.5")
    (engine,) = server.find("minillm", "serve")
    killed = time.monotonic()
    engine.kill()
    visitor.page.locator(".mld-banner", has_text="The engine is gone").wait_for(timeout=30_000)
    assert time.monotonic() - killed < 5 * 5
    visitor.wait("() => document.querySelector('.mld-banner').hidden", limit_s=60)
    visitor.wait(f"() => ({STEPS})() > 0.2", limit_s=60)
    assert any("The engine was ended by SIGKILL" in line for line in server.lines)
    visitor.check_clean()


def test_a_kernel_that_dies_is_told_within_5_s(visit, server: DashboardServer):
    visitor = visit()
    visitor.wait(f"() => ({STEPS})() > 0.5")
    kernel = server.kernel_of(visitor.page)
    killed = time.monotonic()
    kernel.suspend()  # a hung kernel is as silent as a dead one, and nobody restarts it
    try:
        visitor.page.locator(".mld-banner", has_text="Stale since").wait_for(timeout=30_000)
        assert time.monotonic() - killed < 5 * 5
    finally:
        kernel.resume()
    visitor.wait("() => document.querySelector('.mld-banner').hidden")
    visitor.check_clean()


def test_a_recorded_run_is_played_again_and_saved(visit, tmp_path):
    visitor = visit()
    page = visitor.page
    page.get_by_role("tab", name="Replay").click()
    page.locator(".mlr").wait_for(timeout=60_000)
    page.get_by_label("Recorded run", exact=True).select_option("a100-continuous")
    visitor.wait("() => document.querySelector('.mlr-clock').textContent.includes('of 175')")
    page.locator(".mlr-play").click()
    page.locator(".mlr-play:text-is('Pause')").wait_for(timeout=30_000)
    clock = "document.querySelector('.mlr-clock').textContent"
    step = f"Number(/step (\\d+) of/.exec({clock})[1])"
    visitor.wait(f"() => {{ const at = {step}; return at > 3 && at < 170; }}")
    page.locator(".mlr-play").click()
    page.locator(".mlr-play:text-is('Play')").wait_for(timeout=30_000)
    for button, suffix in (("CSV", ".csv"), ("PNG", ".png"), ("Perfetto JSON", ".trace.json")):
        with page.expect_download(timeout=60_000) as download:
            page.locator(".mlr").get_by_role("button", name=button).click()
        assert download.value.suggested_filename == f"a100-continuous{suffix}"
        download.value.save_as(tmp_path / f"saved{suffix}")
        assert (tmp_path / f"saved{suffix}").stat().st_size > 10_000
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text("{}")
    page.locator(".mlr-file").set_input_files(wrong)
    visitor.wait("() => document.querySelector('.mlr-note').textContent.includes('Line 1')")
    visitor.check_clean()


def test_kernels_go_when_their_pages_are_closed_and_ctrl_c_leaves_nothing(
    visit, server: DashboardServer, browser
):
    """Last of the module: it stops the server."""
    context = browser.new_context()
    page = context.new_page()
    Visitor(page, server.url).open()
    kernel = server.kernel_of(page)
    context.close()
    end = time.monotonic() + 5 * CULL_AFTER_S
    while (is_alive(kernel) or len(server.kernels()) > WAITING_KERNELS) and (
        time.monotonic() < end
    ):
        time.sleep(0.5)
    assert not is_alive(kernel)
    assert len(server.kernels()) == WAITING_KERNELS
    children = server.children()
    assert len(children) >= 3
    assert server.interrupt() == 0
    psutil.wait_procs(children, timeout=10)
    # Whoever adopts an orphan may be slow to collect it: a zombie has ended.
    assert [child for child in children if is_alive(child)] == []


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
