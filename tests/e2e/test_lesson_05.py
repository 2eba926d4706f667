"""Lesson 05 in a real JupyterLab: the timeline moves, Stop stops, questions answer, all offline."""

from __future__ import annotations

import json
import time
from pathlib import Path

import nbformat
import pytest

from tests.e2e.lab import LabPage, LabServer, run_notebook

ROOT = Path(__file__).resolve().parent.parent.parent
LESSON = "05_continuous_batching.ipynb"

# What a figure's canvas shows, as one number; null while there is none.
FINGERPRINT = """() => {
    const canvas = document.querySelector('canvas');
    if (!canvas || !canvas.width) return null;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let sum = 0;
    for (let i = 0; i < pixels.length; i += 4) {
        sum = (sum * 31 + pixels[i] + 7 * pixels[i + 1] + 13 * pixels[i + 2]) | 0;
    }
    return sum;
}"""

ENDLESS_RUN = """
from dataclasses import replace
from minillm import LLM
from widgets.compare import Comparison
from widgets.lesson import workload

llm = LLM()
requests = workload(llm, 16, longest=160)
requests = [replace(r, params=replace(r.params, max_tokens=2000)) for r in requests]
ab = Comparison(llm, requests, "continuous", "static")
ab
"""


@pytest.fixture
def lesson(lab: LabServer, default_model_path) -> str:
    """The lesson below the server's root, in fast mode; everything else as a student has it."""
    notebook = nbformat.read(ROOT / "notebooks" / LESSON, as_version=4)
    setup = next(cell for cell in notebook.cells if cell.id == "05-setup")
    setup.source = f"import os\nos.environ['MINILLM_FAST'] = '1'\n{setup.source}"
    nbformat.write(notebook, lab.root / LESSON)
    return LESSON


def write(lab: LabServer, name: str, *sources: str) -> str:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    for index, cell in enumerate(notebook.cells):
        cell.id = f"cell-{index}"
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, lab.root / name)
    return name


def keep(page: LabPage, name: str, tmp_path: Path) -> None:
    """A screenshot in the test's own folder (pytest --basetemp keeps it)."""
    page.page.screenshot(path=tmp_path / f"{name}.png")


@pytest.mark.timeout(600)
def test_the_lesson_runs_paints_and_moves_offline(
    lab: LabServer, page: LabPage, lesson: str, tmp_path: Path
):
    page.open_notebook(lesson)
    page.start_all_cells()
    page.show_cell("05-demo")
    seen = set()
    deadline = time.monotonic() + 300
    while not page.page.evaluate("() => window.minillmRun?.done") and time.monotonic() < deadline:
        seen.add(page.page.evaluate(FINGERPRINT))
        page.page.wait_for_timeout(50)
    assert page.wait_until_run(300) == []
    seen.discard(None)
    assert len(seen) >= 5, "the timeline's pixels hardly changed while the engine ran"

    texts = {cell["id"]: json.dumps(cell.get("outputs", ""), ensure_ascii=False)
             for cell in page.cells()}  # fmt: skip
    assert "tokens per second" in texts["05-demo-result"]
    assert "You made no prediction" in texts["05-saw-speed"]
    assert "Your scheduler broke a rule in step 1, request A" in texts["05-broken"]
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        page.set_theme(theme)
        page.show_cell("05-demo")
        page.page.wait_for_timeout(300)
        keep(page, theme.split()[1].lower(), tmp_path)

    # The quiz answers without the kernel.
    page.show_cell("05-quiz")
    page.page.get_by_role("radio", name="In step 57", exact=True).check()
    page.page.wait_for_selector("text=The slot is free only when step 57 is over")
    page.page.get_by_role("radio", name="In step 58", exact=True).check()
    page.page.wait_for_selector("text=✓ Right.")

    # The walk goes on with the arrow keys.
    page.show_cell("05-walk")
    walk = page.page.locator(".ml-walk")
    walk.focus()
    walk.press("ArrowRight")
    page.page.wait_for_selector("text=Iteration 2 of 9")
    assert walk.locator(".ml-slot b").all_text_contents() == ["A", "D", "C"]
    walk.press("End")
    page.page.wait_for_selector("text=Iteration 9 of 9")
    page.check_clean()


PREDICT = """
from widgets.questions import Predict
wait = Predict("wait", "How long?", choices=["1 step", "80 steps"])
wait
"""


def test_a_prediction_is_picked_locked_and_read_by_the_next_cell(lab: LabServer, page: LabPage):
    name = write(lab, "predict.ipynb", PREDICT, "wait.saw('1 step')")
    assert run_notebook(page, name) == []
    lock = page.page.get_by_role("button", name="Lock my prediction")
    assert lock.is_disabled()
    page.page.get_by_label("80 steps").check()
    page.page.wait_for_selector("text=your answer")
    lock.click()
    page.page.wait_for_selector(r"text=/locked \d\d:\d\d, before Run/")
    assert page.page.get_by_label("1 step").is_disabled()
    page.show_cell("cell-1")
    page.page.evaluate("() => { void window.jupyterapp.commands.execute('notebook:run-cell'); }")
    page.page.wait_for_selector("text=You predicted 80 steps, you saw 1 step.")
    page.check_clean()


@pytest.mark.timeout(600)
def test_stop_ends_a_run_of_the_real_model_within_a_second_five_times(
    lab: LabServer, page: LabPage, default_model_path
):
    """The last time while a cell awaits the end: the callback must come through all the same."""
    name = write(lab, "stop.ipynb", ENDLESS_RUN, "(await ab.finished()).stopped")
    page.open_notebook(name)
    page.page.evaluate(
        """() => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = 0;
            void window.jupyterapp.commands.execute('notebook:run-cell');
        }"""
    )
    run = page.page.locator("button.ml-run")
    stop = page.page.locator("button.ml-stop")
    run.wait_for(timeout=120_000)
    took = []
    for number in range(5):
        run.click()
        page.page.wait_for_selector("button.ml-stop:not([disabled])", timeout=30_000)
        page.page.wait_for_timeout(700)
        if number == 4:
            page.page.evaluate(
                """() => {
                    const notebook = window.jupyterapp.shell.currentWidget.content;
                    notebook.activeCellIndex = 1;
                    void window.jupyterapp.commands.execute('notebook:run-cell');
                }"""
            )
            page.page.wait_for_timeout(500)
        before = time.monotonic()
        stop.click()
        page.page.wait_for_selector("button.ml-run:not([disabled])", timeout=30_000)
        took.append(time.monotonic() - before)
    # A second is what a student gets; on a machine that runs other tests besides, the median.
    assert sorted(took)[2] < 1.0, took
    assert max(took) < 5.0, took
    page.page.wait_for_function(
        """() => window.jupyterapp.shell.currentWidget.context.model.toJSON()
            .cells[1].outputs.some(out => out.data?.['text/plain'] === 'True')""",
        timeout=30_000,
    )
    page.check_clean()
