"""The replay in JupyterLab: it plays, takes a file, saves files, and stays when it is frozen."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.lab import LabPage, LabServer, run_notebook
from tests.e2e.test_lab import write_notebook

GOLDEN = Path(__file__).parents[1] / "golden" / "trace.jsonl"
MAKE = """
from widgets.replay import Replay
replay = Replay("a100-continuous")
replay
"""
CLOCK = "document.querySelector('.mlr-clock')?.textContent ?? ''"


def test_it_plays_opens_and_saves_in_jupyterlab(lab: LabServer, page: LabPage, tmp_path):
    name = write_notebook(lab, "replay.ipynb", MAKE, "replay.freeze()")
    page.page.set_viewport_size({"width": 1280, "height": 3200})
    page.open_notebook(name)
    page.page.evaluate(
        "() => void window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
    )
    bar = page.page.locator(".mlr")
    bar.wait_for(timeout=120_000)
    page.page.wait_for_function(f"() => ({CLOCK}).includes('of 175')", timeout=60_000)
    bar.get_by_role("button", name="Play").click()
    at = f"Number(/step (\\d+) of/.exec({CLOCK})[1])"
    page.page.wait_for_function(f"() => {at} > 3 && {at} < 170", timeout=60_000)
    bar.get_by_role("button", name="Pause").click()
    bar.get_by_role("button", name="Play").wait_for(timeout=30_000)
    page.page.get_by_label("Time in the run").focus()
    page.page.keyboard.press("Home")
    page.page.keyboard.press("b")  # is no command of JupyterLab's in here
    page.page.wait_for_function(f"() => {at} === 1")
    assert len(page.cells()) == 2
    words = page.page.locator(".ml-title", has_text="step 1 of 175")
    words.wait_for(timeout=30_000)

    with page.page.expect_download(timeout=60_000) as download:
        bar.get_by_role("button", name="Perfetto JSON").click()
    download.value.save_as(tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["traceEvents"]

    page.page.locator(".mlr-file").set_input_files(GOLDEN)
    shown = "document.querySelector('.mlr-runs')?.selectedOptions[0]?.textContent"
    page.page.wait_for_function(f"() => {shown} === 'trace.jsonl'", timeout=60_000)

    page.show_cell("test-1")
    page.page.evaluate(
        "() => void window.jupyterapp.commands.execute('notebook:run-cell-and-select-next')"
    )
    page.page.locator(".jp-OutputArea figure img").wait_for(timeout=60_000)
    html = page.cells()[1]["outputs"][-1]["data"]["text/html"]
    assert "Batch timeline." in html
    page.check_clean()


def test_a_notebook_that_is_run_at_once_replays_by_itself(lab: LabServer, page: LabPage):
    wait = "replay.play(pace=4.0)\nawait replay.finished()\nreplay.cursor.t == replay.model.end"
    name = write_notebook(lab, "replay_cells.ipynb", MAKE, wait)
    assert run_notebook(page, name) == []
    assert page.cells()[1]["outputs"][-1]["data"]["text/plain"] == "True"
    page.check_clean()
