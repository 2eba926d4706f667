"""What a student handed in: a folder, a notebook or a zip. Finds the exercises' notebooks in it.

Notebooks are recognised by their name, lesson_NN anywhere in it. A zip with a path that leads out
of it, a link, or too much data is refused in one sentence.
"""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path, PurePosixPath

from grading.build import exercises
from grading.submission import SubmissionError

MAX_ZIP_BYTES = 64 << 20
MAX_ZIP_FILES = 1_000
NAME = re.compile(r"lesson_\d\d")
STUDENT = re.compile(r"[ ._-]*lesson_\d\d|\.zip$|\.ipynb$")


def student_of(entry: Path) -> str:
    """Whose entry this is: "ann" for the folder ann, ann.zip, ann.lesson_05.ipynb."""
    return STUDENT.split(entry.name)[0] or entry.name


def notebooks(entry: Path, scratch: Path) -> dict[str, Path]:
    """Exercise → its notebook in a student's entry. Raises SubmissionError for a bad zip.

    scratch: an empty folder, for what is unpacked. Of several notebooks of one exercise the one
    with the shortest path counts; links are left out.
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
                if not member.is_dir():
                    left -= _copy(archive.name, zipped, member, folder, left)
    except SubmissionError:
        raise
    except Exception as error:  # whatever a broken file makes zipfile, zlib or the disk raise
        raise SubmissionError(f"{archive.name} cannot be unpacked: {error}.") from error


def _copy(
    name: str, zipped: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path, most: int
) -> int:
    """Unpack one file; its size."""
    target = folder / PurePosixPath(member.filename)
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipped.open(member) as source, target.open("wb") as copy:
        data = source.read(most + 1)  # what it says of its size may be untrue
        if len(data) > most:
            raise SubmissionError(_too_large(name))
        copy.write(data)
    return len(data)


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
