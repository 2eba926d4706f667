"""Grades a folder of submissions into a CSV: `make grade DIR=submissions OUT=grades.csv`.

The folder has an entry a student: a folder (with notebooks in it, or in folders inside it), a
notebook named student.lesson_05.ipynb, or a zip of either. Notebooks are recognised by their name,
lesson_NN anywhere in it. A line a question: student, exercise, question, score, max, reason; a
student's missing exercises are not listed. One student's fault never stops the others.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path, PurePosixPath

from grading.build import exercises
from grading.submission import SubmissionError, grade_notebook, questions, read_notebook

MAX_ZIP_BYTES = 64 << 20
MAX_ZIP_FILES = 1_000
NAME = re.compile(r"lesson_\d\d")
COLUMNS = ("student", "exercise", "question", "score", "max", "reason")


@dataclass(frozen=True)
class Line:
    """A line of the CSV. An unreadable submission has one with an empty exercise."""

    student: str
    exercise: str
    question: str
    score: float
    max: float
    reason: str


def grade_folder(folder: Path, *, hidden: bool = True) -> Iterator[Line]:
    """The lines of every student in the folder, in order of name."""
    for entry in sorted(folder.iterdir()):
        if not entry.name.startswith("."):
            yield from grade_entry(entry, hidden=hidden)


def grade_entry(entry: Path, *, hidden: bool = True) -> Iterator[Line]:
    """The lines of one student."""
    student = re.split(r"\.lesson_\d\d|\.zip$|\.ipynb$", entry.name)[0]
    with tempfile.TemporaryDirectory(prefix="minillm-grade-") as scratch:
        try:
            found = notebooks(entry, Path(scratch))
        except SubmissionError as error:
            yield Line(student, "", "", 0, 0, str(error))
            return
        if not found:
            names = ", ".join(exercises())
            yield Line(student, "", "", 0, 0, f"No notebook named like {names} was found.")
        for exercise, path in sorted(found.items()):
            yield from _grade_one(student, exercise, path, hidden)


def _grade_one(student: str, exercise: str, path: Path, hidden: bool) -> Iterator[Line]:
    try:
        graded = grade_notebook(exercise, read_notebook(path), hidden=hidden)
    except SubmissionError as error:
        for question in questions(exercise):
            yield Line(student, exercise, question.name, 0, question.points, str(error))
        return
    for one in graded:
        question = one.question
        yield Line(student, exercise, question.name, one.score, question.points, one.reason)


def notebooks(entry: Path, scratch: Path) -> dict[str, Path]:
    """Exercise → its notebook in a student's entry. Raises SubmissionError for a bad zip.

    Of several notebooks of one exercise the one with the shortest path counts; links are left out.
    """
    if entry.is_symlink():
        raise SubmissionError(f"{entry.name} is a link.")
    if entry.suffix == ".zip":
        unpack(entry, scratch)
        entry = scratch
    paths = [entry] if entry.is_file() else sorted(entry.rglob("*.ipynb"))
    known = set(exercises())
    found: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (len(path.parts), path)):
        name = NAME.search(path.name)
        hides = any(part.startswith(".") for part in path.relative_to(entry.parent).parts)
        if name and name[0] in known and not path.is_symlink() and not hides:
            found.setdefault(name[0], path)
    return found


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip. Raises SubmissionError for paths that lead out, links, and too much data."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = zipped.infolist()
            _check_members(archive.name, members)
            left = MAX_ZIP_BYTES
            for member in members:
                if member.is_dir():
                    continue
                target = folder / PurePosixPath(member.filename)
                target.parent.mkdir(parents=True, exist_ok=True)
                with zipped.open(member) as source, target.open("wb") as copy:
                    data = source.read(left + 1)  # what it says of its size may be untrue
                    left -= len(data)
                    if left < 0:
                        raise SubmissionError(_too_large(archive.name))
                    copy.write(data)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        raise SubmissionError(f"{archive.name} cannot be unpacked: {error}.") from error


def _check_members(name: str, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_ZIP_FILES:
        raise SubmissionError(f"{name} has {len(members):,} files; {MAX_ZIP_FILES:,} are accepted.")
    if sum(member.file_size for member in members) > MAX_ZIP_BYTES:
        raise SubmissionError(_too_large(name))
    for member in members:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in member.filename:
            raise SubmissionError(f"{name} has a path that leads out of it: {member.filename!r}.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise SubmissionError(f"{name} has a link in it: {member.filename!r}.")


def _too_large(name: str) -> str:
    return f"{name} unpacks to more than {MAX_ZIP_BYTES >> 20} MiB."


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grading.grade", description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with an entry a student")
    parser.add_argument("out", type=Path, help="the CSV to write")
    parser.add_argument("--public", action="store_true", help="without the hidden checks")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder.")
    if not os.access(options.out.resolve().parent, os.W_OK):
        parser.error(f"{options.out} cannot be written.")
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for line in grade_folder(options.folder, hidden=not options.public):
            writer.writerow(astuple(line))
            file.flush()
            print(f"{line.student} {line.exercise} {line.question}: {line.score:g} of {line.max:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
