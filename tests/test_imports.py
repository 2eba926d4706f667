"""The house's rule, tested: imports point downward only, and the ground floor needs nothing.

Walks every module of minillm, widgets and grading by its syntax tree, imports inside functions
too, and compares with the table of docs/architecture.md (MAY_IMPORT below).
"""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("minillm", "widgets", "grading")

# part → the other parts that it may import. cli stands on top and imports all, lazily.
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "data": set(),
    "recordings": {"core", "data"},
    "telemetry": set(),
    "model": {"core", "data"},
    "sim": {"core", "data"},
    "llm": {"core", "data", "model", "sim"},
    "serve": {"core", "data", "telemetry", "llm"},
    "bench": {"core", "data", "sim", "telemetry", "llm", "root"},
    "widgets": {"core", "data", "recordings", "sim", "telemetry", "llm", "bench", "root"},
    "grading": {"core", "data", "sim", "widgets"},
    "root": {"core", "data", "sim", "llm", "cli"},  # minillm/__init__.py and __main__.py
}
MAY_IMPORT["cli"] = set(MAY_IMPORT) - {"grading"}
GRADING_MAY_USE_OF_WIDGETS = ("widgets.figures", "widgets.frames", "widgets.progress_file")
STANDARD_LIBRARY_ONLY = ("core", "sim", "data", "recordings")
BLOCKED = ("torch", "numpy", "psutil", "matplotlib", "ipywidgets", "anywidget", "rich", "tqdm")


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement's target as seen from one module."""

    module: str  # the importing module, dotted
    target: str  # the imported module, dotted
    line: int
    lazy: bool  # inside a function
    typing_only: bool  # under `if TYPE_CHECKING:`


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if "source" not in path.parts  # notebooks' sources for grading are no modules
}


def part_of(module: str) -> str | None:
    """The floor of the house that a module of ours stands on; None for someone else's module."""
    first, *rest = module.split(".")
    if first in ("widgets", "grading"):
        return first
    if first != "minillm":
        return None
    if not rest or rest[0] in ("__main__", "_version"):
        return "root"
    return rest[0]


class ImportVisitor(ast.NodeVisitor):
    """Collects the imports of one module."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module, self.is_package = module, is_package
        self.found: list[Import] = []
        self.functions = self.typing_blocks = 0

    def visit_function(self, node: ast.AST) -> None:
        self.functions += 1
        self.generic_visit(node)
        self.functions -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function

    def visit_If(self, node: ast.If) -> None:
        guard = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        self.typing_blocks += guard
        for child in node.body:
            self.visit(child)
        self.typing_blocks -= guard
        for child in node.orelse:
            self.visit(child)

    def add(self, target: str, line: int) -> None:
        self.found.append(
            Import(self.module, target, line, self.functions > 0, self.typing_blocks > 0)
        )

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            package = self.module.split(".")
            drop = node.level - (1 if self.is_package else 0)
            package = package[: len(package) - drop]
            base = ".".join([*package, base] if base else package)
        for alias in node.names:
            if (base, alias.name) == ("minillm", "__version__"):
                continue  # a string that everybody may print
            submodule = f"{base}.{alias.name}"
            self.add(submodule if submodule in MODULES else base, node.lineno)


def imports_of(module: str, path: Path) -> list[Import]:
    visitor = ImportVisitor(module, path.name == "__init__.py")
    visitor.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return visitor.found


IMPORTS = [found for module, path in MODULES.items() for found in imports_of(module, path)]


def where(found: Import) -> str:
    return f"{MODULES[found.module].relative_to(ROOT)}:{found.line} imports {found.target}"


def test_the_walk_sees_the_house():
    parts = {part_of(module) for module in MODULES}
    assert "core" in parts
    assert len(IMPORTS) > 20


def test_every_part_has_a_place_in_the_table():
    assert {part_of(module) for module in MODULES} <= set(MAY_IMPORT)


def test_imports_point_downward_only():
    wrong = []
    for found in IMPORTS:
        above, below = part_of(found.module), part_of(found.target)
        if below is not None and above != below and below not in MAY_IMPORT[above]:
            wrong.append(where(found))
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_circle():
    floors = {part: needed - {"root"} for part, needed in MAY_IMPORT.items()}
    list(graphlib.TopologicalSorter(floors).static_order())


def test_modules_have_no_circle():
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        if found.target in MODULES and found.target != found.module and not found.typing_only:
            graph[found.module].add(found.target)
    try:
        list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail("modules import one another in a circle: " + " → ".join(error.args[1]))


def test_ground_floor_needs_the_standard_library_alone():
    wrong = [
        where(found)
        for found in IMPORTS
        if part_of(found.module) in STANDARD_LIBRARY_ONLY
        and part_of(found.target) is None
        and found.target.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not wrong, "\n".join(wrong)


def test_core_and_simulator_start_no_thread_and_do_no_io():
    forbidden = {"threading", "multiprocessing", "concurrent", "asyncio", "socket", "subprocess"}
    wrong = [
        where(found)
        for found in IMPORTS
        if part_of(found.module) in ("core", "sim") and found.target.split(".")[0] in forbidden
    ]
    assert not wrong, "\n".join(wrong)


def test_llm_and_cli_reach_for_torch_lazily():
    wrong = [
        where(found)
        for found in IMPORTS
        if part_of(found.module) in ("root", "llm", "cli")
        and not found.lazy
        and not found.typing_only
        and (part_of(found.target) == "model" or found.target.split(".")[0] in BLOCKED)
    ]
    assert not wrong, "\n".join(wrong)


def test_widgets_import_only_the_light_parts_at_module_level():
    wrong = [
        where(found)
        for found in IMPORTS
        if part_of(found.module) == "widgets"
        and not found.lazy
        and not found.typing_only
        and part_of(found.target) not in (None, "core", "data", "recordings", "sim", "widgets")
    ]
    assert not wrong, "\n".join(wrong)


def test_models_of_the_figures_need_the_standard_library_alone():
    models = (
        "frames", "blocks", "cluster_model", "cursor", "queue_model", "progress_model", "course",
        "replay.model",
    )  # fmt: skip
    wrong = [
        where(found)
        for found in IMPORTS
        if found.module in {f"widgets.{name}" for name in models}
        and part_of(found.target) is None
        and found.target.split(".")[0] not in sys.stdlib_module_names
    ]
    assert not wrong, "\n".join(wrong)


def test_grading_uses_only_figures_frames_and_progress_of_the_widgets():
    wrong = [
        where(found)
        for found in IMPORTS
        if part_of(found.module) == "grading"
        and part_of(found.target) == "widgets"
        and not found.target.startswith(GRADING_MAY_USE_OF_WIDGETS)
    ]
    assert not wrong, "\n".join(wrong)


IMPORT_WITH_BLOCKED = """
import importlib, json, pkgutil, sys, time

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked in this test")

BLOCKED = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Block())
start = time.perf_counter()
import minillm
seconds = time.perf_counter() - start
names = ["minillm"]
for part in sys.argv[2].split(","):
    package = importlib.import_module(f"minillm.{part}")
    names.append(package.__name__)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(info.name)
        names.append(info.name)
heavy = sorted(name for name in sys.modules if name.split(".")[0] in BLOCKED)
print(json.dumps({"seconds": seconds, "names": names, "heavy": heavy}))
"""


def test_minillm_core_and_simulator_import_with_nothing_installed():
    parts = [part for part in ("core", "sim") if f"minillm.{part}" in MODULES]
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_WITH_BLOCKED, ",".join(BLOCKED), ",".join(parts)],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    result = json.loads(answer.stdout)
    assert result["heavy"] == []
    assert "minillm.core.config" in result["names"]
    assert result["seconds"] < 0.2 * 5  # 0.2 s is the goal; five times that on a busy machine
