"""A class in JupyterLab: a student's seat and the instructor's desk, on one simulated server."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest

from minillm.llm import LLM
from minillm.serve import Classroom, ServerSettings, make_app, running, serving_engine
from minillm.sim import CostModel
from tests.e2e.lab import LabPage, LabServer

LIMIT_MS = 30_000
NAMES = """() => {
    const view = [...document.querySelectorAll('*')].find(each => each.figureView)?.figureView;
    return view ? [view.mode, ...view.rows[0].map(row => row.name)] : null;
}"""


@pytest.fixture
def room() -> Iterator[tuple[str, Classroom]]:
    room = Classroom()
    llm = LLM.simulated(CostModel(0.02, 0.0, 0.0), num_blocks=256, max_model_len=2048)
    with running(make_app(llm, serving_engine(llm), ServerSettings(classroom=room))) as url:
        yield url, room


def write_class(lab: LabServer, url: str, room: Classroom) -> str:
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python",
    }  # fmt: skip
    notebook.cells = [
        nbformat.v4.new_code_cell(f'import widgets\nwidgets.join("{url}", "{room.code}", "Ada")'),
        nbformat.v4.new_code_cell(
            f'bob = widgets.join("{url}", "{room.code}", "Bob")\nbob.ask("hello", 400)'
        ),
        nbformat.v4.new_code_cell(f'widgets.teach("{url}", "{room.instructor_key}")'),
    ]
    for cell, name in zip(notebook.cells, ("ada", "bob", "desk"), strict=True):
        cell["id"] = name
    nbformat.write(notebook, lab.root / "class.ipynb")
    return "class.ipynb"


def test_a_student_asks_and_the_instructor_pauses(
    lab: LabServer, page: LabPage, room: tuple[str, Classroom]
):
    url, classroom = room
    page.open_notebook(write_class(lab, url, classroom))
    page.start_all_cells()
    assert page.wait_until_run() == []
    page.show_cell("ada")
    prompt = page.page.get_by_placeholder("Ask something").first
    prompt.fill("Why is the sky blue?")
    prompt.press("Enter")
    page.page.get_by_text("Why is the sky blue?").first.wait_for(timeout=LIMIT_MS)
    page.page.get_by_text("‹").first.wait_for(timeout=LIMIT_MS)
    page.page.wait_for_function(
        f"() => JSON.stringify(({NAMES})()) === JSON.stringify(['people', 'Ada', 'Bob'])",
        timeout=LIMIT_MS,
    )
    page.show_cell("desk")
    page.page.get_by_role("cell", name="Bob").first.wait_for(timeout=LIMIT_MS)
    page.page.get_by_role("button", name="Pause the class").first.click()
    page.page.get_by_text("Paused by the instructor").first.wait_for(timeout=LIMIT_MS)
    page.page.get_by_role("button", name="Resume the class").first.click()
    page.page.get_by_text("Going on.").first.wait_for(timeout=LIMIT_MS)
    page.check_clean()
