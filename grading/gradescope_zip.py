"""Builds the autograders to upload to Gradescope: `make gradescope`, or with LESSON=05 for one.

dist/gradescope/lesson_NN.zip grades one exercise, for an assignment of its own;
dist/gradescope.zip grades all of them, for a course that is handed in as one. Each holds the
checks, the hidden ones too, the simulator that they run on, and pins of what these need: a zip is
the same, byte for byte, each time it is made.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from grading.build import ROOT, exercises

DIST = ROOT / "dist"
NEEDS = ("cloudpickle", "nbformat", "numpy")  # numpy: a student's answer may use it
INSTRUCTORS = ("nbgrader_apart.py", "nbgrader_config.py", "release.py", "gradescope_zip.py",
               "grade.py", "tables.py")  # fmt: skip
PYTHONS = ("3.11", "3.12", "3.13")
MOMENT = (1980, 1, 1, 0, 0, 0)  # the oldest that a zip can name

SETUP = """\
#!/usr/bin/env bash
# Run once by Gradescope, as root, when the autograder is built: a Python with what checks need.
set -euo pipefail
root="${AUTOGRADER:-/autograder}"

find_python() {
    local name test="import ensurepip, sys; sys.exit(sys.version_info < (3, 11))"
    for name in python3.13 python3.12 python3.11 python3; do
        if "$name" -c "$test" 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    return 1
}

if ! python=$(find_python); then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends python3.12-venv \\
        || apt-get install -y --no-install-recommends python3.11-venv
    python=$(find_python)
fi
"$python" -m venv "$root/venv"
"$root/venv/bin/python" -m pip install --disable-pip-version-check --no-cache-dir \\
    --requirement "$root/source/requirements.txt"
if [ "$root" = /autograder ] && ! id student >/dev/null 2>&1; then
    useradd --no-create-home --shell /usr/sbin/nologin student  # runs the students' code
fi
"""

RUN = """\
#!/usr/bin/env bash
# Run by Gradescope for each submission. results.json is there afterwards, whatever happens.
root="${AUTOGRADER:-/autograder}"
results="$root/results/results.json"
export PYTHONPATH="$root/source" PYTHONDONTWRITEBYTECODE=1
cd "$root/source" && "$root/venv/bin/python" -m grading.gradescope "$root"
if [ ! -s "$results" ]; then
    mkdir -p "$root/results"
    printf '{"score": 0, "output": "%s"}\\n' \\
        "The autograder did not start, which is no fault of yours: please tell your instructor." \\
        >"$results"
fi
"""


def build(wanted: Iterable[str], target: Path) -> Path:
    """Write the zip that grades these exercises."""
    files = {"setup.sh": SETUP.encode(), "run_autograder": RUN.encode()}
    files["requirements.txt"] = "".join(f"{pin}\n" for pin in pins()).encode()
    for path in sources(set(wanted)):
        files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, MOMENT)
            info.create_system = 3  # Unix, whose modes follow
            info.external_attr = (0o755 if name in ("setup.sh", "run_autograder") else 0o644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            zipped.writestr(info, files[name], compresslevel=9)
    return target


def sources(wanted: set[str]) -> Iterator[Path]:
    """Our files that grading these exercises needs: no engine's, no widgets', no other lesson's."""
    yield ROOT / "LICENSE"
    yield ROOT / "minillm" / "__init__.py"
    for folder in ("core", "sim", "data"):
        for path in _files(ROOT / "minillm" / folder):
            if "recorded" not in path.parts:  # runs to look at: no check does
                yield path
    grading = ROOT / "grading"
    for path in _files(grading):
        place = path.relative_to(grading)
        if place.parts[0] == "mutants" or place.name in INSTRUCTORS:
            continue
        if not place.stem.startswith("lesson_") or place.stem in wanted:
            yield path


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def pins() -> list[str]:
    """Exact versions, those of requirements.lock, of NEEDS and all that these need."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    locked = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions = {_canonical(one.name): one for one in locked}
    found: dict[str, str] = {}
    left = list(NEEDS)
    while left:
        name = _canonical(left.pop())
        if name not in found and name in versions:
            found[name] = str(versions[name])
            left += _needs(name)
    return [found[name] for name in sorted(found)]


def _needs(name: str) -> list[str]:
    """What a package requires on Linux, under any Python that the course knows."""
    places = [
        {"extra": "", "python_version": version, "sys_platform": "linux", "os_name": "posix"}
        for version in PYTHONS
    ]
    return [
        one.name
        for one in map(Requirement, importlib.metadata.requires(name) or ())
        if not one.marker or any(one.marker.evaluate(place) for place in places)
    ]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(numbers: Sequence[str]) -> int:
    known = exercises()
    wanted = [f"lesson_{number:0>2}" for number in numbers]
    if not set(wanted) <= set(known):
        choice = ", ".join(name[-2:] for name in known)
        print(f"LESSON is {' '.join(numbers)!r}; it can be {choice}.", file=sys.stderr)
        return 2
    made = [build([name], DIST / "gradescope" / f"{name}.zip") for name in wanted or known]
    if not wanted:
        made.append(build(known, DIST / "gradescope.zip"))
    for path in made:
        print(f"{os.path.relpath(path, ROOT)} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
