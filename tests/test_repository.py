"""The repository's own promises: pins, conda file, make targets, file sizes, clean notebooks."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 300
NOTEBOOKS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
CELL_METADATA = {"minillm", "nbgrader", "tags", "deletable", "editable"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(name: str = "requirements.lock") -> dict[str, Requirement]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonical(pin.name): pin for pin in pins}


def read_project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_lock_has_exact_public_pins_only():
    for pin in [*read_lock().values(), *read_lock("requirements-cluster.txt").values()]:
        versions = list(pin.specifier)
        assert len(versions) == 1, pin
        assert versions[0].operator == "==", pin
        assert "+" not in versions[0].version, pin
        assert pin.url is None, pin


def test_lock_has_torch_and_nvml_and_no_deprecated_pynvml():
    pins = read_lock()
    assert str(pins["torch"].specifier) == "==2.13.0"
    assert "nvidia-ml-py" in pins
    assert "pynvml" not in pins
    cuda = [name for name in pins if name.startswith("nvidia-") and name != "nvidia-ml-py"]
    assert cuda == []  # the CPU build of torch needs none; the CUDA build brings its own


def test_lock_serves_every_extra_of_the_project():
    """Ray is apart: only who wants the extra `cluster` installs it, beside the lock."""
    cluster = read_lock("requirements-cluster.txt")
    assert not set(cluster) & set(read_lock())
    pins = read_lock() | cluster
    for extra, requirements in read_project()["project"]["optional-dependencies"].items():
        for requirement in map(Requirement, requirements):
            if requirement.name == "minillm":
                continue
            pin = pins.get(canonical(requirement.name))
            assert pin is not None, f"[{extra}] {requirement.name} is not in requirements.lock"
            version = next(iter(pin.specifier)).version
            assert requirement.specifier.contains(version), f"[{extra}] {requirement} != {pin}"


def test_environment_is_what_the_lock_says():
    wrong = []
    for name, pin in read_lock().items():
        if pin.marker is not None and not pin.marker.evaluate():
            continue
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "nothing"
        if not pin.specifier.contains(installed.split("+")[0], prereleases=True):
            wrong.append(f"{pin} is locked, {installed} is installed")
    assert not wrong, "\n".join(wrong)


def test_deprecated_pynvml_distribution_is_not_installed():
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("pynvml")
    assert importlib.metadata.version("nvidia-ml-py")


def test_pip_check_is_clean():
    answer = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, timeout=120
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_style_is_clean():
    answer = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise", "."],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_conda_environment():
    text = (ROOT / "environment.yml").read_text(encoding="utf-8")
    environment = yaml.safe_load(text)
    assert environment["channels"][0] == "conda-forge"
    dependencies = environment["dependencies"]
    names = {re.split(r"[=<>]", item)[0] for item in dependencies if isinstance(item, str)}
    assert names == {"python", "nginx", "pip"}
    assert [item for item in dependencies if isinstance(item, dict)] == [
        {"pip": ["-r requirements.lock"]}
    ]
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert re.search(r"module pynvml comes from nvidia-ml-py", comments)


def test_project_file():
    project = read_project()["project"]
    assert project["name"] == "minillm"
    assert project["dependencies"] == []
    assert project["requires-python"] == ">=3.11"  # and no upper bound
    assert set(project["optional-dependencies"]) == {
        "model", "widgets", "serve", "cluster", "dev",
    }  # fmt: skip
    source = (ROOT / "minillm" / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{project["version"]}"' in source


def test_make_targets_that_the_readme_names_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z-]+)", readme))
    named |= set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE))
    assert {"lab", "test"} <= named
    assert named <= targets


def test_files_that_the_readme_links_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_no_file_is_long():
    long = []
    for folder in ("minillm", "widgets", "grading"):
        for pattern in ("*.py", "*.js", "*.css"):
            for path in (ROOT / folder).rglob(pattern):
                lines = len(path.read_text(encoding="utf-8").splitlines())
                if lines > MAX_LINES:
                    long.append(f"{path.relative_to(ROOT)}: {lines} lines")
    assert not long, "\n".join(long)


def test_there_are_lessons():
    assert [path.name[:3] for path in NOTEBOOKS if path.parent.name == "notebooks"][:1] == ["00_"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_clean(path: Path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    name = path.stem.removeprefix("lesson_")  # 05_continuous_batching, dashboard, lesson_05
    lesson = name.split("_")[0]
    identifiers = [cell.get("id", "") for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        assert re.fullmatch(rf"{lesson}-[a-z0-9][a-z0-9-]*", cell["id"]), cell["id"]
        assert set(cell["metadata"]) <= CELL_METADATA, cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], cell["id"]
            assert cell["execution_count"] is None, cell["id"]
    assert (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    assert set(notebook["metadata"].get("language_info", {})) <= {"name"}


def test_wheel_is_pure_and_carries_static_files_and_data(tmp_path: Path):
    answer = subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
            "--wheel-dir", str(tmp_path), str(copy_of_sources(tmp_path / "source")),
        ],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for folder in ("minillm", "widgets", "grading")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert expected - names == set()
    assert not [name for name in names if name.startswith(("tests/", "tools/", "benchmarks/"))]


def copy_of_sources(target: Path) -> Path:
    """A copy of what the build reads, so that building leaves nothing behind in the repository."""
    import shutil

    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    for folder in ("minillm", "widgets", "grading"):
        if (ROOT / folder).exists():
            shutil.copytree(
                ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__")
            )
    return target
