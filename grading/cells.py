"""A student's object as the source of the notebook's cells, made where it is checked.

Graded notebooks are never run in the grader's own process or kernel: their code cells travel as
text, and the checked process runs them one after the other, each under a time limit. A cell that
raises, loops or is no Python loses what it would have defined, and nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grading.limits import TimeLimitError, time_limit
from grading.outcome import describe

CELL_LIMIT_S = 5.0


@dataclass(frozen=True)
class FromCells:
    """The object `name` that these cells define."""

    name: str
    sources: tuple[str, ...]

    @property
    def __name__(self) -> str:
        return self.name


def resolve(objects: Mapping[str, object]) -> dict[str, object]:
    """Run the cells of each FromCells; other objects as they are.

    Raises NameError with what happened when a name is not there afterwards.
    """
    made: dict[tuple[str, ...], tuple[dict, list[str]]] = {}
    result = dict(objects)
    for key, thing in objects.items():
        if isinstance(thing, FromCells):
            if thing.sources not in made:
                made[thing.sources] = run_cells(thing.sources)
            names, faults = made[thing.sources]
            if thing.name not in names:
                why = " ".join(faults) or "No cell defines it."
                raise NameError(f"{thing.name} is not defined. {why}")
            result[key] = names[thing.name]
    return result


def run_cells(sources: Iterable[str]) -> tuple[dict[str, object], list[str]]:
    """The names that the cells leave, and a sentence for each cell that failed."""
    names: dict[str, object] = {"__name__": "__main__", "display": lambda *_: None}
    faults = []
    for number, source in enumerate(sources, 1):
        before = dict(names)
        try:
            code = compile(
                python_lines(source), f"<cell {number}>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            )
            with time_limit(CELL_LIMIT_S):
                exec(code, names)
        except TimeLimitError as error:
            faults.append(f"Code cell {number}: {error}")
        except MemoryError as error:  # what it filled the memory with must not cost the next cells
            faults.append(f"Code cell {number}: {describe(error)}.")
            names.clear()
            names.update(before)
        except BaseException as error:
            faults.append(f"Code cell {number}: {describe(error)}.")
    return names, faults


def python_lines(source: str) -> str:
    """A cell's source without IPython's magics and shell lines, line numbers kept."""
    lines = source.split("\n")
    if lines and lines[0].startswith("%%"):
        return "\n" * len(lines)
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in lines)


def defines(source: str, name: str) -> bool:
    """Whether a cell's top level makes that name."""
    try:
        body = ast.parse(python_lines(source)).body
    except (SyntaxError, ValueError):
        return f"def {name}(" in source or f"class {name}" in source
    return any(name in _names(node) for node in body)


def _names(node: ast.stmt) -> Sequence[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []
