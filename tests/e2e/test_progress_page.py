"""Progress in a real JupyterLab: answers are noted and shown at once, the page is made, offline."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.lab import LabPage, LabServer, run_notebook
from tests.e2e.test_lab import write_notebook

WHERE = """
import os
os.environ["MINILLM_PROGRESS"] = "progress.json"
from widgets.progress import progress
progress()
"""
ASK = """
from widgets.questions import Predict, Quiz
wait = Predict("05-wait", "How long?", choices=["1 step", "80 steps"])
wait
"""
QUIZ = 'Quiz.of("05")'
CHECK = """
from grading import check
from minillm.core.scheduler.continuous import ContinuousScheduler
check("lesson_05", scheduler=ContinuousScheduler)
"""
FORM = "from widgets.summary import SummaryForm\nSummaryForm()"
NEXT = "06_prefill_and_decode.ipynb"


def keep(page: LabPage, name: str, tmp_path: Path) -> None:
    page.page.screenshot(path=tmp_path / f"{name}.png")


def test_what_is_done_is_noted_and_shown(lab: LabServer, page: LabPage, tmp_path: Path):
    name = write_notebook(lab, "mine.ipynb", WHERE, ASK, QUIZ, CHECK, 'progress("05")', FORM)
    write_notebook(lab, NEXT, "'the next lesson'")
    assert run_notebook(page, name) == []
    tab = page.page

    page.show_cell("test-1")
    tab.get_by_label("80 steps").check()
    tab.get_by_role("button", name="Lock my prediction").click()
    page.show_cell("test-2")
    tab.get_by_role("radio", name="In step 58", exact=True).check()
    tab.wait_for_selector("text=✓ Right.")

    # The lesson's line, drawn before, has followed; so has the strip of all lessons.
    page.show_cell("test-4")
    tab.wait_for_selector("text=Lesson 5: the quiz is still open.")
    tab.wait_for_selector("text=predictions 1 of 2")
    tab.wait_for_selector("text=/check (\\d+) of \\1 points/")
    tab.wait_for_selector("text=quiz 1 of 3 right")
    kept = json.loads((lab.root / "progress.json").read_text(encoding="utf-8"))["lessons"]["05"]
    assert set(kept) == {"predict 05-wait", "quiz 1", "check", "end"}
    assert kept["predict 05-wait"]["answer"] == "80 steps"
    page.show_cell("test-0")
    tile = tab.get_by_role("link", name="Lesson 5, Continuous batching: begun")
    tile.wait_for()
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        page.set_theme(theme)
        for cell in ("test-0", "test-4"):
            page.show_cell(cell)
            tab.wait_for_timeout(300)
            keep(page, f"{theme.split()[1].lower()}-{cell}", tmp_path)

    # The page, by its form.
    page.show_cell("test-5")
    tab.get_by_label("Your name").fill("Ada Lovelace")
    tab.get_by_role("button", name="Make my page").click()
    tab.wait_for_selector("text=/Saved to course-summary.html at/")
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Download the page").click()
    assert download.value.suggested_filename == "course-summary.html"
    frame = tab.frame_locator("iframe[title^='The page']")
    frame.get_by_role("heading", name="Ada Lovelace").wait_for()
    page.show_cell("test-5")
    keep(page, "form", tmp_path)
    saved = (lab.root / "course-summary.html").read_text(encoding="utf-8")
    assert Path(download.value.path()).read_text(encoding="utf-8") == saved

    # The way to the next lesson.
    page.show_cell("test-4")
    tab.get_by_role("link", name="Next: lesson 6, Prefill and decode").click()
    tab.wait_for_function(
        f"() => window.jupyterapp.shell.currentWidget?.context?.path === '{NEXT}'"
    )
    page.check_clean()
