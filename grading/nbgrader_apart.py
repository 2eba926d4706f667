"""Two preprocessors for nbgrader: mend a submission's cells, grade it without a kernel."""

from __future__ import annotations

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output
from nbgrader.preprocessors import NbGraderPreprocessor

from grading.build import source_notebook
from grading.cells import defines
from grading.submission import calls_the_grader, grade_notebook, questions


class RepairCells(NbGraderPreprocessor):
    """Puts the exercise's own cells back around the student's code.

    Test cells come from the source, each once and in order. The student's answer to a question is
    the last cell with its grade id, else with its cell id, else the last that defines its name.
    A note at the top says what was missing.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        exercise = resources["nbgrader"]["assignment"]
        notes: list[str] = []
        template = source_notebook(exercise)
        answers: dict[str, int] = {}  # grade id → place in the submission
        for question in questions(exercise):
            wanted = f"solution_{question.name}"
            place = _place(nb.cells, wanted, template, list(question.objects.values()))
            if place is None:
                notes.append(f"There was no cell with {question.name}.")
                continue
            if not _has_id(nb.cells[place], wanted):
                notes.append(f"The cell with {question.name} had lost its marks.")
            answers[wanted] = place
        nb.cells = _rebuilt(template, answers, nb.cells)
        if notes:
            nb.cells.insert(0, new_markdown_cell("**Note from grading.** " + " ".join(notes)))
        return nb, resources


def _has_id(cell: NotebookNode, grade_id: str) -> bool:
    return cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id


def _place(
    cells: list[NotebookNode], grade_id: str, template: NotebookNode, names: list[str]
) -> int | None:
    cell_id = next(cell["id"] for cell in template.cells if _has_id(cell, grade_id))
    code = [(i, cell) for i, cell in enumerate(cells) if cell.cell_type == "code"]
    ways = (
        lambda cell: _has_id(cell, grade_id),
        lambda cell: cell.get("id") == cell_id,
        lambda cell: any(defines(cell.source, name) for name in names),
    )
    for way in ways:
        found = [i for i, cell in code if way(cell)]
        if found:
            return found[-1]
    return None


def _rebuilt(
    template: NotebookNode, answers: dict[str, int], cells: list[NotebookNode]
) -> list[NotebookNode]:
    """The source's cells, the student's answers in their places, and the cells that they added."""
    ours = {cell["id"] for cell in template.cells}
    added = [
        place
        for place, cell in enumerate(cells)
        if cell.cell_type == "code"
        and place not in answers.values()
        and cell.get("id") not in ours
        and not calls_the_grader(cell.source)
    ]
    rebuilt = []
    for cell in template.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("solution"):
            place = answers.get(marks["grade_id"])
            cell.source = "" if place is None else cells[place].source
            while place is not None and added and added[0] < place:
                rebuilt.append(_plain(cells[added.pop(0)]))
        rebuilt.append(cell)
    return rebuilt + [_plain(cells[place]) for place in added]


def _plain(cell: NotebookNode) -> NotebookNode:
    """A cell of the student's own, without marks that would make it look like one of ours."""
    cell.metadata.pop("nbgrader", None)
    return cell


class GradeApart(NbGraderPreprocessor):
    """Takes the place of nbgrader's Execute: the checks run on the cells' text, in processes."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        exercise = resources["nbgrader"]["assignment"]
        results = {f"test_{one.question.name}": one for one in grade_notebook(exercise, nb)}
        for cell in nb.cells:
            one = results.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
            if one is not None:
                cell.outputs = [
                    new_output("display_data", {
                        "text/plain": repr(one.report), "text/html": one.report._repr_html_(),
                    }),
                    new_output("execute_result", {"text/plain": f"{one.score:g}"},
                               execution_count=1),
                ]  # fmt: skip
                cell.execution_count = 1
        return nb, resources
