"""Submissions of exercise 2 that would break a careless grader, each with what it must come to.

Every student of STUDENTS hands in a notebook with both questions solved, but for one thing. The
points of `fifo_waits` may go with it; those of `littles_law` never.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from textwrap import indent

import nbformat
from nbformat import NotebookNode

from grading.build import source_notebook

EXERCISE, QUESTION, OTHER = "lesson_02", "fifo_waits", "littles_law"
FULL, OTHERS = 8, 6  # points of QUESTION and OTHER
HEAD = f"def {QUESTION}(arrivals, services):\n"
VICTIM = "VICTIM"  # becomes the path of a folder that is not the student's


@dataclass(frozen=True)
class Student:
    """One submission. points: of QUESTION. says: what the feedback must tell, if anything."""

    notebook: NotebookNode
    points: float
    says: str = ""


@dataclass(frozen=True)
class Fault:
    """Statements that do harm, and what is said of them in the answer or at a cell's top level."""

    code: str
    says: str
    ends_process: bool = False


ENDLESS = "It did not end within"
FAULTS = {
    "endless_loop": Fault("while True:\n    pass", ENDLESS),
    "os_exit": Fault(
        "import os\nos._exit(0)", "It ended its process (exit status 0)", ends_process=True
    ),
    "segfault": Fault(
        "import ctypes\nctypes.string_at(0)", "It crashed its process (segmentation fault)",
        ends_process=True,
    ),
    "memory": Fault("block = bytearray(8 << 30)", "MemoryError"),
    "memory_kept": Fault(
        "blocks = []\nwhile True:\n    blocks.append(bytes(1 << 27))", "MemoryError"
    ),
    "endless_flood": Fault("while True:\n    print('x' * 100_000)", ENDLESS),
    "system_exit": Fault("raise SystemExit", "SystemExit"),
    "input": Fault("name = input('? ')", "EOFError"),
    "deletes": Fault(
        f"import shutil\nshutil.rmtree({VICTIM!r})", "may write and delete in its own folder only"
    ),
}  # fmt: skip


def solved() -> NotebookNode:
    return source_notebook(EXERCISE)


def cell_of(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    return next(
        cell for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") == grade_id
    )  # fmt: skip


def answer(notebook: NotebookNode) -> NotebookNode:
    return cell_of(notebook, f"solution_{QUESTION}")


def test_cell(notebook: NotebookNode) -> NotebookNode:
    return cell_of(notebook, f"test_{QUESTION}")


def with_answer(source: str) -> NotebookNode:
    notebook = solved()
    answer(notebook).source = source
    return notebook


# ── a fault, in three places ────────────────────────────────────────────────────────────────


def inside(fault: Fault) -> Student:
    """The function itself does it."""
    return Student(with_answer(HEAD + indent(fault.code, "    ")), 0, fault.says)


def above(fault: Fault) -> Student:
    """The answer's cell does it before it comes to the function."""
    source = answer(solved()).source
    return Student(with_answer(f"{fault.code}\n{source}"), 0, fault.says)


def beside(fault: Fault) -> Student:
    """Another cell does it: nothing is lost."""
    notebook = solved()
    notebook.cells.insert(0, nbformat.v4.new_code_cell(fault.code))
    return Student(notebook, FULL)


# ── answers that try to deceive ─────────────────────────────────────────────────────────────

ALWAYS_EQUAL = """
class Equal(list):
    def __eq__(self, other):
        return True
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None

def fifo_waits(arrivals, services):
    return Equal()
"""
ALWAYS_EQUAL_OBJECT = ALWAYS_EQUAL.replace("(list)", "")
TELLS_ITS_INPUT = """
def fifo_waits(arrivals, services):
    waits, end = [0.0] * len(arrivals), 0.0
    for i in sorted(range(len(arrivals)), key=lambda i: arrivals[i]):
        waits[i] = max(0.0, end - arrivals[i])
        end = max(end, arrivals[i]) + services[i]
    if 9 < len(arrivals) < 100:
        raise ValueError(f"the secret is {arrivals}")
    return waits
"""


def finite_flood() -> Student:
    source = answer(solved()).source
    flood = "    import sys\n    for _ in range(2000):\n        print('x' * 1000)\n"
    flood += "        print('y' * 1000, file=sys.stderr)\n"
    return Student(with_answer(source.replace(HEAD, HEAD + flood)), FULL)


# ── notebooks that were tampered with ───────────────────────────────────────────────────────


def tampered(change: Callable[[NotebookNode], None], points: float, says: str = "") -> Student:
    notebook = solved()
    change(notebook)
    return Student(notebook, points, says)


def edit_test(notebook: NotebookNode) -> None:
    test_cell(notebook).source = "8"
    answer(notebook).source = HEAD + "    return []"


def more_points(notebook: NotebookNode) -> None:
    test_cell(notebook).metadata.nbgrader.points = 800


def delete_test(notebook: NotebookNode) -> None:
    notebook.cells.remove(test_cell(notebook))


def delete_answer(notebook: NotebookNode) -> None:
    notebook.cells.remove(answer(notebook))


def duplicate_answer(notebook: NotebookNode) -> None:
    notebook.cells.append(deepcopy(answer(notebook)))


def duplicate_test(notebook: NotebookNode) -> None:
    notebook.cells.insert(0, deepcopy(test_cell(notebook)))


def strip_metadata(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        cell.metadata = {}


def strip_ids_too(notebook: NotebookNode) -> None:
    strip_metadata(notebook)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell{number}"


def answer_as_text(notebook: NotebookNode) -> None:
    place = notebook.cells.index(answer(notebook))
    notebook.cells[place] = nbformat.v4.new_raw_cell(
        notebook.cells[place].source, metadata=notebook.cells[place].metadata
    )


def unlike_a_list(notebook: NotebookNode) -> None:
    answer(notebook).source = f"{QUESTION} = 8"


TAMPERED = {
    "edited_test": tampered(edit_test, 0, "who comes to an idle server is served at once"),
    "more_points": tampered(more_points, FULL),
    "deleted_test": tampered(delete_test, FULL),
    "deleted_answer": tampered(delete_answer, 0, f"There was no cell with {QUESTION}."),
    "duplicated_answer": tampered(duplicate_answer, FULL),
    "duplicated_test": tampered(duplicate_test, FULL),
    "stripped": tampered(
        strip_metadata, FULL, f"The cell with {QUESTION} had lost its marks."
    ),
    "stripped_of_ids": tampered(
        strip_ids_too, FULL, f"The cell with {QUESTION} had lost its marks."
    ),
    "answer_as_text": tampered(answer_as_text, 0, f"There was no cell with {QUESTION}."),
    "a_number": tampered(unlike_a_list, 0, "must be a function or a class"),
}  # fmt: skip
PLACES = {"inside": inside, "above": above, "beside": beside}
STUDENTS: dict[str, Student] = {
    "solved": Student(solved(), FULL),
    "always_equal": Student(with_answer(ALWAYS_EQUAL), 0, "[]"),
    "always_equal_object": Student(with_answer(ALWAYS_EQUAL_OBJECT), 0, "It is of type Equal"),
    "finite_flood": finite_flood(),
    "tells_its_input": Student(with_answer(TELLS_ITS_INPUT), FULL - 1, "ValueError"),
    **{
        f"{name}-{place}": PLACES[place](fault)
        for name, fault in FAULTS.items()
        for place in PLACES
    },
    **TAMPERED,
}
# One of each kind, where it hurts most; the slow tests take all.
FEW = (
    "solved", "always_equal", "finite_flood", "tells_its_input", "endless_loop-inside",
    "os_exit-above", "segfault-inside", "memory-inside", "system_exit-above",
    "input-inside", "deletes-inside", "edited_test", "deleted_test", "deleted_answer",
    "duplicated_answer", "duplicated_test", "stripped",
)  # fmt: skip


def submitted(name: str, victim: str) -> NotebookNode:
    """A student's notebook; victim: the folder that must survive it."""
    notebook = deepcopy(STUDENTS[name].notebook)
    for cell in notebook.cells:
        cell.source = cell.source.replace(VICTIM, victim)
    return notebook
