"""No number in a table of claims stands without where it comes from.

The tables "Often said, and what is so" correct what is said with figures. Each row with a
figure names the heading of the lesson under whose cells it is made (“A hundred at once”), or links
a source.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))[1:]  # 00 claims nothing
DIGIT = re.compile(r"(?<![\w.])\d")


def source(cell: dict) -> str:
    return "".join(cell["source"])


def title(text: str) -> str:
    """A heading or a quotation of one, bare: “The GPU is idle”, and then. → the gpu is idle"""
    return text.strip(" “”.,:?").lower()


def headings_with_code(cells: list[dict]) -> set[str]:
    """The headings that have a code cell before the next one."""
    found, last = set(), None
    for cell in cells:
        if cell["cell_type"] == "markdown":
            lines = [line for line in source(cell).splitlines() if line.startswith("#")]
            last = title(lines[-1].lstrip("#")) if lines else last
        elif last is not None:
            found.add(last)
    return found


def claims(cells: list[dict]) -> list[str]:
    """What the rows of the lesson's table say is so."""
    [cell] = [cell for cell in cells if cell["id"].endswith("-misconceptions")]
    rows = re.findall(r"^\|(?! ✕|:-)(.*)\|$", source(cell), re.MULTILINE)
    return [row.rpartition(" | ")[2] for row in rows]


def uncited(text: str, headings: set[str]) -> bool:
    """Whether this has a figure in prose and names neither a heading nor a source."""
    prose = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "", text)
    if not DIGIT.search(prose):
        return False
    named = {title(quoted) for quoted in re.findall(r"“([^”]+)”", prose)}
    return not named & headings and not re.search(r"\]\(https?://", text)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_figure_in_a_claims_table_is_uncited(path: Path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    rows, headings = claims(cells), headings_with_code(cells)
    assert rows
    assert headings
    wrong = [row for row in rows if uncited(row, headings)]
    assert not wrong, "\n".join(wrong)


def test_there_are_figures_to_cite():
    """Most rows have one, so that the test above looks at something."""
    rows = [row for path in LESSONS for row in claims(json.loads(path.read_text("utf-8"))["cells"])]
    assert len(LESSONS) == 12
    assert sum(bool(DIGIT.search(row)) for row in rows) > len(rows) / 2


@pytest.mark.parametrize(
    ("text", "is_uncited"),
    [
        ("It is 45 % of all rows.", True),
        ("It is 45 % of all rows (“See it live”).", False),
        ("It is 45 % of all rows (“See it live?”).", False),
        ("It is 45 % of all rows (“Elsewhere”).", True),
        ("It is 45 % (source: [a paper](https://example.org/)).", False),
        ("It is 45 % (see [the glossary](../docs/glossary.md)).", True),
        ("It takes `--port 80` and p99 of an A100.", False),
        ("It is idle.", False),
    ],
)
def test_what_counts_as_cited(text, is_uncited):
    assert uncited(text, {"see it live"}) is is_uncited


def test_a_heading_without_code_makes_no_figure():
    cells = [
        {"cell_type": "markdown", "source": ["# Words\n", "only"]},
        {"cell_type": "markdown", "source": "## “Made here”, and then"},
        {"cell_type": "code", "source": "1"},
    ]
    assert headings_with_code(cells) == {"made here”, and then"}
