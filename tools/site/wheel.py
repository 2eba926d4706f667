"""Our own wheel for the browser, built from the working tree.

The packages are copied to a folder of their own first: what a student must not see (solutions,
hidden checks) stays out, and so does what an earlier build left in build/.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.site.errors import SiteError

PACKAGES = ("minillm", "widgets", "grading")
PRIVATE = ("hidden", "mutants", "source")  # of grading: hidden checks and solutions
PROJECT_FILES = ("pyproject.toml", "README.md", "LICENSE")


def copy_public(root: Path, target: Path) -> None:
    """Copy the packages and what their build reads, without what is private."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        private = PRIVATE if Path(folder) == root / "grading" else ()
        return {name for name in names if name in ("__pycache__", *private)}

    for package in PACKAGES:
        shutil.copytree(root / package, target / package, ignore=left_out)
    for name in PROJECT_FILES:
        shutil.copy2(root / name, target / name)
    for path in target.rglob("*"):  # a wheel keeps modes; those of a checkout vary
        path.chmod(0o755 if path.is_dir() else 0o644)


def build_wheel(root: Path, work: Path, python: Path, epoch: int) -> Path:
    """The wheel of the working tree, the same bytes for the same tree. python: has setuptools."""
    tree, out = work / "tree", work / "wheel"
    tree.mkdir(parents=True)
    copy_public(root, tree)
    done = subprocess.run(
        [
            str(python), "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet",
            "--no-deps", "--no-build-isolation", "--no-index", f"--wheel-dir={out}", str(tree),
        ],
        env=dict(os.environ, SOURCE_DATE_EPOCH=str(epoch), PYTHONHASHSEED="0"),
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    wheels = sorted(out.glob("minillm-*-py3-none-any.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        print(done.stdout + done.stderr)
        raise SiteError("The course's own wheel could not be built; the lines above say why.")
    return wheels[0]
