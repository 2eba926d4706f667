"""Makes an exercise's notebook from its source, for nbgrader.

A source is grading/source/lesson_NN.md: prose, and fenced Python blocks.

    ```python                           a plain cell
    ```python solution NAME             the student writes; ### BEGIN SOLUTION … ### END SOLUTION
    ```python test NAME points=12       one line, grade("lesson_NN", NAME=…)

`source_notebook` is what nbgrader takes as its source, a hidden half of each test included;
grading/release.py makes the students' version of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "grading" / "source"
FENCE = re.compile(r"^```python[ ]*(.*?)\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
TEST = "from grading import grade\n\n{call}"
HIDDEN = (
    TEST + "\n### BEGIN HIDDEN TESTS\nfrom grading.hidden import grade\n\n{call}\n"
    "### END HIDDEN TESTS"
)
KERNEL = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Block:
    """One cell of a source. kind: markdown, plain, solution or test. name: of the question."""

    kind: str
    text: str
    name: str = ""
    points: float = 0


class SourceError(ValueError):
    """A source that cannot be read, with the place."""


def exercises() -> list[str]:
    """The exercises that have a source, in order."""
    return sorted(path.stem for path in SOURCES.glob("lesson_*.md"))


def blocks(exercise: str) -> list[Block]:
    """The cells of an exercise's source. Raises SourceError for a block it cannot read."""
    return list(_blocks(exercise, (SOURCES / f"{exercise}.md").read_text(encoding="utf-8")))


def _blocks(exercise: str, text: str) -> Iterator[Block]:
    place = 0
    for fence in FENCE.finditer(text):
        prose = text[place : fence.start()].strip()
        if prose:
            yield Block("markdown", prose)
        yield _block(exercise, fence[1].split(), fence[2].rstrip("\n"))
        place = fence.end()
    rest = text[place:].strip()
    if rest:
        yield Block("markdown", rest)


def _block(exercise: str, words: list[str], code: str) -> Block:
    match words:
        case []:
            return Block("plain", code)
        case ["solution", name] if "### BEGIN SOLUTION" in code:
            return Block("solution", code, name)
        case ["test", name, points] if points.startswith("points="):
            if not code.startswith(f'grade("{exercise}", {name}=') or "\n" in code:
                raise SourceError(f"{exercise}: a test is one line, grade({exercise!r}, {name}=…).")
            return Block("test", code, name, float(points.removeprefix("points=")))
    raise SourceError(
        f"{exercise}: a block is `python`, `python solution NAME` (with ### BEGIN SOLUTION) or "
        f"`python test NAME points=P`, got `python {' '.join(words)}`."
    )


def source_notebook(exercise: str) -> NotebookNode:
    """The notebook with solutions and hidden tests, marked up for nbgrader."""
    cells = []
    for number, block in enumerate(blocks(exercise)):
        cell_id = f"{exercise.removeprefix('lesson_')}-{number:02d}-{block.kind}"
        if block.kind == "markdown":
            cell = nbformat.v4.new_markdown_cell(block.text)
        else:
            cell = nbformat.v4.new_code_cell(_code(block))
        cell["id"] = cell_id
        if block.kind in ("solution", "test"):
            cell.metadata["nbgrader"] = _marks(block)
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells, metadata=KERNEL)


def _code(block: Block) -> str:
    if block.kind != "test":
        return block.text
    return HIDDEN.format(call=block.text)


def _marks(block: Block) -> dict:
    is_test = block.kind == "test"
    marks = {
        "schema_version": 3, "grade": is_test, "solution": not is_test, "locked": is_test,
        "task": False, "grade_id": f"{block.kind}_{block.name}",
    }  # fmt: skip
    return {**marks, "points": block.points} if is_test else marks


def write_source(exercise: str, course: Path) -> Path:
    path = course / "source" / exercise / f"{exercise}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(source_notebook(exercise), path)
    return path
