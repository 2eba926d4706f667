"""The replay in a browser: it plays, pauses, is scrubbed, opens files and saves them."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minillm.core import summarize
from tests.e2e.widget_page import WidgetPage
from widgets.replay import Replay

pytestmark = pytest.mark.browser
GOLDEN = Path(__file__).parents[1] / "golden" / "trace.jsonl"
BAR, TIMELINE, STRIPS, BLOCKS = range(4)
LIMIT_S = 90.0


class Shown:
    """A Replay and its page."""

    def __init__(self, page, name: str, theme: str = "light") -> None:
        self.page, self.replay = page, Replay(name)
        replay = self.replay
        views = (replay.bar, replay.timeline, replay.strips, replay.blocks, replay.latencies)
        self.wire = WidgetPage(page, *views, theme=theme)
        steps = len(replay.model.trace.steps)
        self.until(lambda: self.js("views[1].lanes[0].stepCount") == steps)
        self.until(lambda: self.js("views[3].lane.stepCount") == steps)

    def js(self, expression: str):
        return self.page.evaluate(f"() => {expression.replace('views[', 'window.views[')}")

    def until(self, condition: Callable[[], bool]) -> None:
        """Carry messages until it holds."""
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            self.wire.pump()
            time.sleep(0.01)

    def press(self, words: str) -> None:
        self.page.get_by_role("button", name=words, exact=True).first.click()

    @property
    def note(self) -> str:
        return self.page.locator(".mlr-note").inner_text()

    @property
    def clock(self) -> str:
        return self.page.locator(".mlr-clock").inner_text().replace("\u2009", " ")

    def times(self) -> set:
        """Where the cursor is, of each view that has one."""
        return {self.js(f"views[{i}].link.t") for i in (BAR, TIMELINE, STRIPS, BLOCKS)}


@pytest.fixture
def context(browser):
    opened = browser.new_context(viewport={"width": 1280, "height": 1000})
    yield opened
    opened.close()


@pytest.fixture
def shown(context) -> Iterator[Shown]:
    made = Shown(context.new_page(), "a100-continuous")
    yield made
    made.replay.close()
    made.wire.check_clean()


def test_it_plays_at_its_pace_and_all_views_follow_until_somebody_points(shown):
    replay = shown.replay
    assert replay.player.pace == 0.1  # a short run begins in slow motion: 21 s
    shown.press("Play")
    shown.until(lambda: (replay.cursor.t or 0) > 0.05)
    shown.until(lambda: shown.page.get_by_role("button", name="Pause").count() == 1)
    assert len(shown.times()) == 1
    at = shown.js("views[3].shown")
    assert 0 < at < len(replay.model.trace.steps)
    # The pointer in passing does not disturb it; a click on purpose takes over.
    shown.page.locator(".mlt-over").first.hover()
    assert shown.js("views[1].link.cursor.playing") > 0
    shown.page.locator(".mlt-over").first.click(position={"x": 300, "y": 60})
    clicked = shown.js("views[1].link.t")
    shown.until(lambda: not replay.bar.playing)
    assert shown.times() == {clicked}
    assert replay.cursor.t == pytest.approx(clicked)
    shown.until(lambda: shown.page.get_by_role("button", name="Play", exact=True).count() == 1)


def test_it_plays_to_the_end_and_the_histograms_have_all(shown):
    replay = shown.replay
    shown.page.get_by_label("Pace").select_option("4 times as fast")
    shown.until(lambda: replay.player.pace == 4.0)
    shown.page.locator(".mlt-over").first.focus()
    shown.page.keyboard.press(" ")  # in any figure
    shown.until(lambda: replay.cursor.t == replay.model.end and not replay.bar.playing)
    whole = summarize(replay.model.trace)
    shown.until(
        lambda: shown.js("views[4].model.get('data').lanes[0].metrics.ttft.n") == whole.requests
    )
    shown.until(lambda: shown.clock.endswith("step 175 of 175"))


def test_keys_and_the_slider_go_step_by_step(shown):
    replay = shown.replay
    slider = shown.page.get_by_label("Time in the run")
    slider.focus()
    shown.page.keyboard.press("Home")
    for _ in range(3):
        shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("Shift+ArrowRight")
    shown.until(lambda: "step 14 of 175" in shown.clock)
    shown.until(lambda: shown.js("views[3].shown") == 13)
    shown.until(lambda: replay.text.text.count("step 14 of 175") == 1)
    assert "step 14 of 175" in slider.get_attribute("aria-valuetext")
    found = replay.latencies.model.lanes[0].found
    shown.until(lambda: 0 < found["ttft"].n < 24)
    shown.page.keyboard.press("End")
    assert "step 175 of 175" in shown.clock
    shown.page.keyboard.press("Escape")
    shown.until(lambda: replay.cursor.t is None)
    box = slider.bounding_box()
    shown.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    shown.until(lambda: replay.cursor.t is not None)
    assert replay.cursor.t == pytest.approx(replay.model.end / 2, rel=0.05)
    # What has not happened yet is dimmed: the same place before and after the cursor came.
    pixel = "views[1].dom.over.getContext('2d').getImageData({x}, {y}, 1, 1).data[3]"
    right = shown.js("Math.round(views[1].scale.x(views[1].lanes[0].now * 0.9) * views[1].ratio)")
    middle = shown.js("Math.round((views[1].geometry.panels[0].top + 40) * views[1].ratio)")
    shown.wire.painted()
    assert shown.js(pixel.format(x=right, y=middle)) > 100
    shown.page.keyboard.press("Escape")
    shown.wire.painted()
    assert shown.js(pixel.format(x=right, y=middle)) == 0


def test_another_run_is_chosen_from_the_list(shown):
    shown.page.get_by_label("Recorded run", exact=True).select_option("a100-static")
    shown.until(lambda: shown.replay.bar.chosen == "a100-static")
    steps = len(shown.replay.model.trace.steps)
    shown.until(lambda: shown.js("views[1].lanes[0].stepCount") == steps)
    assert f"of {steps}" in shown.clock
    assert "simulated" in shown.page.locator(".mlr-origin").inner_text()


def test_a_file_of_ones_own_and_a_wrong_one(shown, tmp_path):
    mine, wrong = tmp_path / "mine.jsonl.gz", tmp_path / "notes.jsonl"
    mine.write_bytes(gzip.compress(GOLDEN.read_bytes()))
    wrong.write_text("\n".join([*GOLDEN.read_text(encoding="utf-8").splitlines()[:3], "{]"]))
    field = shown.page.locator(".mlr-file")
    field.set_input_files(wrong)
    shown.until(lambda: shown.note.startswith("notes.jsonl: Line 4 of the trace"))
    assert shown.page.locator(".mlr-note.mlr-wrong").count() == 1
    assert shown.replay.bar.chosen == "a100-continuous"
    turn = shown.replay.bar.note["turn"]
    field.set_input_files(wrong)  # the same again is said again
    shown.until(lambda: shown.replay.bar.note["turn"] > turn)
    shown.until(lambda: shown.note.startswith("notes.jsonl: Line 4 of the trace"))
    field.set_input_files(mine)
    shown.until(lambda: shown.replay.bar.own == "mine.jsonl.gz")
    steps = len(shown.replay.model.trace.steps)
    shown.until(lambda: shown.js("views[1].lanes[0].stepCount") == steps)
    shown.until(lambda: shown.note == "")
    chosen = shown.js("views[0].select.selectedOptions[0].textContent")
    assert chosen == "mine.jsonl.gz"
    field.set_input_files(mine)  # the note goes, though nothing else changes
    shown.until(lambda: shown.note.startswith("Reading"))
    shown.until(lambda: shown.note == "")


def test_a_file_that_is_too_long_or_empty_never_leaves_the_page(shown, tmp_path):
    shown.replay.bar.most_bytes = 1000
    shown.wire.pump()
    long, empty = tmp_path / "long.jsonl", tmp_path / "empty.jsonl"
    long.write_bytes(b"x" * 2_000_000)
    empty.write_bytes(b"")
    shown.page.locator(".mlr-file").set_input_files(long)
    shown.until(lambda: shown.note.startswith("long.jsonl has 1.9 MB; a file of up to"))
    shown.page.locator(".mlr-file").set_input_files(empty)
    shown.until(lambda: shown.note == "empty.jsonl is empty.")


def saved(shown: Shown, words: str, folder: Path) -> Path:
    """The file that a button saves."""
    downloads = []
    shown.page.once("download", lambda download: downloads.append(download))
    shown.page.locator(".mlr").get_by_role("button", name=words).click()
    shown.until(lambda: downloads)
    path = folder / downloads[0].suggested_filename
    downloads[0].save_as(path)
    return path


def test_each_export_is_a_real_download(shown, tmp_path):
    table = saved(shown, "CSV", tmp_path)
    assert table.name == "a100-continuous.csv"
    trace = shown.replay.model.trace
    rows = sum(len(step.rows) for step in trace.steps)
    assert len(table.read_text(encoding="utf-8").splitlines()) == rows + 1
    events = saved(shown, "Perfetto JSON", tmp_path)
    assert len(json.loads(events.read_text(encoding="utf-8"))["traceEvents"]) > rows
    picture = saved(shown, "PNG", tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    shown.until(lambda: shown.note == "Saved as a100-continuous.png.")


def test_without_matplotlib_the_page_saves_what_it_has_painted(shown, tmp_path, monkeypatch):
    monkeypatch.setattr("widgets.replay.panel.exported", lambda trace, to: None)
    picture = saved(shown, "PNG", tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000


def test_a_second_view_steers_the_same_run_and_one_may_close(shown):
    shown.wire.view(BAR)
    bars = shown.page.locator(".mlr")
    assert bars.count() == 2
    bars.nth(1).get_by_role("button", name="Play").click()
    shown.until(lambda: shown.replay.bar.playing)
    assert bars.nth(0).get_by_role("button", name="Pause").count() == 1
    shown.wire.close(BAR, 1)
    assert bars.count() == 1
    shown.until(lambda: shown.js("Boolean(views[1].link.conductor)"))  # the one that is left
    bars.nth(0).get_by_role("button", name="Pause").click()
    shown.until(lambda: not shown.replay.bar.playing)


def test_in_the_dark_and_narrow_nothing_is_cut_off(context):
    page = context.new_page()
    page.set_viewport_size({"width": 480, "height": 900})
    shown = Shown(page, "a100-continuous", theme="dark")
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert shown.js(wide)
    assert shown.js("views[0].root.style.getPropertyValue('--mlt-bg')") == "#101419"
    shown.replay.close()
    shown.wire.check_clean()
