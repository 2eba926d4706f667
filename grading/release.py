"""Releases the exercises to students through nbgrader: `make exercises`.

`python -m grading.release` writes the student versions into notebooks/exercises/;
`python -m grading.release --course DIR` writes a whole nbgrader course: source, release, gradebook.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nbgrader.apps import NbGraderAPI

from grading.build import ROOT, SourceError, exercises, write_source
from grading.nbgrader_config import course_config

STUDENT = ROOT / "notebooks" / "exercises"


def student_notebooks() -> dict[str, str]:
    """Exercise → what nbgrader releases of it to students, as the file's text."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            exercise: path.read_text(encoding="utf-8")
            for exercise, path in release_all(Path(folder), database=False).items()
        }


def release_all(course: Path, *, database: bool = True) -> dict[str, Path]:
    """Put every source into an nbgrader course and release it there: the released notebooks.

    database: whether the course's gradebook learns of them, which grading needs.
    """
    config = course_config(course)
    config.GenerateAssignment.no_database = not database
    config.SaveCells.enabled = database
    api = NbGraderAPI(config=config)
    released = {}
    for exercise in exercises():
        write_source(exercise, course)
        with beside_python():
            result = api.generate_assignment(exercise, force=True, create=True)
        if not result["success"]:
            raise SourceError(f"nbgrader could not release {exercise}: {result['log'][-2000:]}")
        released[exercise] = course / "release" / exercise / f"{exercise}.ipynb"
    return released


@contextmanager
def beside_python() -> Iterator[None]:
    """nbgrader starts `alembic` by name: let it find the one of this environment."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def main() -> int:
    """Write the student versions; `--course DIR` writes a whole nbgrader course there instead."""
    if len(sys.argv) == 3 and sys.argv[1] == "--course":
        course = Path(sys.argv[2]).resolve()
        released = release_all(course)
        print(f"{len(released)} exercises in {course}: source and release, ready for nbgrader.")
        return 0
    STUDENT.mkdir(parents=True, exist_ok=True)
    for exercise, text in student_notebooks().items():
        path = STUDENT / f"{exercise}.ipynb"
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
