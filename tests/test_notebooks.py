"""Every lesson runs from top to bottom without a person: in fast mode, on the real model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).resolve().parent.parent.glob("notebooks/*.ipynb"))
CELL_LIMIT_S = 180
FIGURE_TYPES = ("application/vnd.jupyter.widget-view+json", "text/html")


def answers(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """The predictions of the cells' metadata, by key."""
    found: dict[str, Any] = {}
    for cell in notebook.cells:
        found.update(cell.metadata.get("minillm", {}).get("answers", {}))
    return found


def execute(
    path: Path, monkeypatch: pytest.MonkeyPatch, only: list[str] | None = None
) -> nbformat.NotebookNode:
    """Run a notebook (only these cells, if given) in fast mode; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    if only is not None:
        notebook.cells = [cell for cell in notebook.cells if cell.id in only]
    root = path.resolve().parent.parent
    monkeypatch.setenv("MINILLM_FAST", "1")
    monkeypatch.setenv("MINILLM_ANSWERS", json.dumps(answers(notebook)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")]))
    client = NotebookClient(
        notebook, timeout=CELL_LIMIT_S, kernel_name="python3", allow_errors=only is not None,
        resources={"metadata": {"path": str(path.parent)}},
    )  # fmt: skip
    client.execute()
    return notebook


def outputs(notebook: nbformat.NotebookNode, cell_id: str) -> list[Any]:
    return next(cell for cell in notebook.cells if cell.id == cell_id).outputs


def text(notebook: nbformat.NotebookNode, cell_id: str) -> str:
    """What a cell shows, as plain text."""
    parts = []
    for output in outputs(notebook, cell_id):
        data = output.get("data", {})
        parts.append(data.get("text/plain") or output.get("text") or "")
    return "\n".join(parts)


@pytest.fixture(scope="module")
def module_patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def lesson_00(default_model_path, module_patch) -> nbformat.NotebookNode:
    return execute(NOTEBOOKS[0], module_patch)


@pytest.fixture(scope="module")
def lesson_05(default_model_path, module_patch) -> nbformat.NotebookNode:
    path = next(path for path in NOTEBOOKS if path.name.startswith("05"))
    return execute(path, module_patch)


# ── how they are stored ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_clean(path: Path):
    raw = json.loads(path.read_text(encoding="utf-8"))
    nbformat.validate(nbformat.from_dict(raw))
    assert (raw["nbformat"], raw["nbformat_minor"]) == (4, 5)
    assert set(raw["metadata"]) == {"kernelspec", "language_info"}
    lesson = path.stem.split("_")[0]
    for cell in raw["cells"]:
        assert cell["id"].startswith(f"{lesson}-"), cell["id"]
        assert set(cell["metadata"]) <= {"minillm"}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_solution_and_no_long_code_in_a_lesson(path: Path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 24, cell.id


# ── lesson 00 ───────────────────────────────────────────────────────────────────────────────


def test_lesson_00_shows_machine_run_and_answer(lesson_00):
    assert "The course can run here." in text(lesson_00, "00-machine")
    assert "tok/s" in text(lesson_00, "00-live-result")
    assert "measured" in text(lesson_00, "00-live-result")
    assert len(text(lesson_00, "00-answer")) > 60
    assert FIGURE_TYPES[0] in outputs(lesson_00, "00-live")[0].data


# ── lesson 05 ───────────────────────────────────────────────────────────────────────────────


def test_lesson_05_compares_two_policies_on_the_real_engine(lesson_05):
    result = text(lesson_05, "05-demo-result")
    assert "static" in result
    assert "continuous" in result
    assert "measured" in result
    html = outputs(lesson_05, "05-demo-result")[0].data["text/html"]
    assert "<svg" in html  # the still picture stays in a saved notebook
    assert "dynamic" in text(lesson_05, "05-three")


def test_lesson_05_takes_the_predictions_from_the_cells(lesson_05):
    assert "You predicted 3.0×, you saw" in text(lesson_05, "05-saw-speed")
    assert "You predicted 2 to 20 steps, you saw" in text(lesson_05, "05-saw-wait")


def test_lesson_05_walks_through_iterations_1_2_5_and_7(lesson_05):
    lines = text(lesson_05, "05-walk-table").splitlines()
    who = {int(line.split()[0]): line for line in lines if line[:1].isdigit()}
    for iteration, names in {1: "ABC", 2: "ADC", 5: "EDC", 7: "ED"}.items():
        cells = who[iteration].split("  ")
        seats = [cell.strip()[0] for cell in cells if "/" in cell]
        assert "".join(seats) == names


def test_the_stub_runs_and_scores_nothing(lesson_05):
    result = text(lesson_05, "05-check")
    assert "0 of 10 points" in result
    assert "Smallest failing input: replay(MyScheduler, " in result
    assert "Hint: " in result
    assert "MyScheduler" in text(lesson_05, "05-drive-result")


def test_a_broken_rule_is_named_and_the_engine_survives(lesson_05):
    broken = text(lesson_05, "05-broken")
    assert "Your scheduler broke a rule in step 1, request A" in broken
    assert "a row computes at least 1 token and no more than remain" in broken
    assert "expected: 1" in broken
    assert "got: 2" in broken
    assert "continuous" in text(lesson_05, "05-survives")
    assert "failed" not in text(lesson_05, "05-survives")


def test_no_cell_writes_to_stderr(lesson_00, lesson_05):
    for notebook in (lesson_00, lesson_05):
        for cell in notebook.cells:
            for output in cell.get("outputs", ()):
                assert output.get("name") != "stderr", (cell.id, output.text)


def test_a_cell_run_too_early_names_the_one_it_needs(monkeypatch):
    path = next(path for path in NOTEBOOKS if path.name.startswith("05"))
    notebook = nbformat.read(path, as_version=4)
    setup = next(cell for cell in notebook.cells if cell.id == "05-setup")
    imports = [line for line in setup.source.splitlines() if line.startswith("from ")]
    setup.source = "\n".join(imports)
    early = next(cell for cell in notebook.cells if cell.id == "05-demo-result")
    notebook.cells = [setup, early]
    root = path.parent.parent
    monkeypatch.setenv("PYTHONPATH", str(root))
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True).execute()
    [error] = early.outputs
    assert error.ename == "CellMissingError"
    sentence = "Run the cell under “See both policies live” first: this one uses ab."
    assert error.traceback == [sentence]
