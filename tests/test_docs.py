"""The docs keep to what is there: claims name cells, terms have an entry, links lead somewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def cell_ids() -> set[str]:
    return {
        cell["id"]
        for path in NOTEBOOKS
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    }


def test_every_claim_maps_to_cells_that_are_there():
    text = (DOCS / "instructor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 18))
    known = cell_ids()
    for number, cells in rows:
        named = re.findall(r"`([\w-]+)`", cells)
        assert named, number
        assert set(named) <= known, (number, set(named) - known)


def test_every_lesson_has_its_time_in_the_guide():
    text = (DOCS / "instructor.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        title = json.loads(path.read_text(encoding="utf-8"))["cells"][0]
        minutes = re.search(r"\*\*(\d+) min\*\*", "".join(title["source"]))[1]
        row = re.search(rf"^\| {path.name[:2]} .*?\| (\d+) \|", text, re.MULTILINE)
        assert row[1] == minutes, path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_to_the_glossary_have_an_entry(path: Path):
    anchors = set(re.findall(r'<a id="([\w-]+)">', (DOCS / "glossary.md").read_text("utf-8")))
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    for anchor in re.findall(r"glossary\.md#([\w-]+)", text):
        assert anchor in anchors, anchor


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_term_of_a_lesson_leads_to_its_entry(path: Path):
    anchors = set(re.findall(r'<a id="([\w-]+)">', (DOCS / "glossary.md").read_text("utf-8")))
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    summary = next(cell for cell in cells if cell["id"] == f"{path.name[:2]}-summary")
    [line] = re.findall(r"^\*\*Terms\*\*: (.*)$", "".join(summary["source"]), re.MULTILINE)
    terms = line.split(" · ")
    assert len(terms) >= 4
    for term in terms:
        link = re.fullmatch(r"\[\*[^*]+\*\]\(\.\./docs/glossary\.md#([\w-]+)\)", term)
        assert link, term
        assert link[1] in anchors, term
