"""Runs a lesson from top to bottom without a person: in fast mode, on the real model.

lesson = execute(lesson_path("05"), monkeypatch)
assert "static" in text(lesson, "05-demo-result")
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(ROOT.glob("notebooks/[0-9][0-9]_*.ipynb"))
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


def lesson_path(number: str) -> Path:
    """The notebook of a lesson: "05"."""
    return next(path for path in LESSONS if path.name.startswith(f"{number}_"))


def writes_nothing_to_stderr(notebook: nbformat.NotebookNode) -> None:
    """A lesson's cells show no warning."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.get("name") != "stderr", (cell.id, output.text)


def run_too_early(number: str, cell_id: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run one cell of a lesson after nothing but the set-up's imports: what the error shows."""
    path = lesson_path(number)
    notebook = nbformat.read(path, as_version=4)
    setup = next(cell for cell in notebook.cells if cell.id == f"{number}-setup")
    setup.source = "\n".join(x for x in setup.source.splitlines() if x.startswith("from "))
    early = next(cell for cell in notebook.cells if cell.id == cell_id)
    notebook.cells = [setup, early]
    monkeypatch.setenv("PYTHONPATH", str(path.parent.parent))
    NotebookClient(notebook, timeout=60, kernel_name="python3", allow_errors=True).execute()
    [error] = early.outputs
    assert error.ename == "CellMissingError"
    return error.traceback
