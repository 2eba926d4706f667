"""The lessons as in a browser tab: no torch, no numpy, no thread, no process, no socket."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.notebooks.harness import CELL_LIMIT_S, LESSONS, ROOT, answers

START = (Path(__file__).parent / "tab_kernel.py").read_text(encoding="utf-8")
QUICK = ("03", "05")
PAGES = [*LESSONS, ROOT / "notebooks" / "dashboard.ipynb"]


@pytest.fixture
def in_a_tab(tmp_path, monkeypatch):
    """Kernels that start now lack what a tab lacks."""
    start = tmp_path / "profile_default" / "startup"
    start.mkdir(parents=True)
    (start / "00-tab.py").write_text(START, encoding="utf-8")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("MINILLM_FAST", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def run_in_a_tab(path: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """Every cell of a notebook, in fast mode."""
    notebook = nbformat.read(path, as_version=4)
    monkeypatch.setenv("MINILLM_ANSWERS", json.dumps(answers(notebook)))
    NotebookClient(
        notebook, timeout=CELL_LIMIT_S, kernel_name="python3", allow_errors=True,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()  # fmt: skip
    return notebook


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem[:9], marks=() if path.name[:2] in QUICK else pytest.mark.slow
        )
        for path in PAGES
    ],
)
def test_every_cell_runs_in_a_tab(path, in_a_tab, monkeypatch):
    wrong = []
    for cell in run_in_a_tab(path, monkeypatch).cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                wrong.append(f"{cell.id}: {output.ename}: {output.evalue}")
            elif output.get("name") == "stderr":
                wrong.append(f"{cell.id}: stderr: {output.text}")
    assert not wrong, "\n".join(wrong)
