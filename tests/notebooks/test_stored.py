"""How notebooks are stored: clean, without solutions, with stable cell ids."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.harness import LESSONS


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_solution_and_no_long_code_in_a_lesson(path: Path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) <= 24, cell.id


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_price_is_read_as_a_formula(path: Path):
    """Between two bare dollar signs JupyterLab typesets mathematics."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            words = re.sub(r"`[^`]*`", "", cell.source)
            assert len(re.findall(r"(?<!\\)\$", words)) < 2, cell.id
