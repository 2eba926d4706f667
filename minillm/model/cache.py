"""Where minillm keeps files of its own, and how a folder there comes to be: whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def cache_folder() -> Path:
    """MINILLM_HOME, else the platform's cache folder for minillm (~/.cache/minillm on Linux)."""
    home = os.environ.get("MINILLM_HOME")
    if home:
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("minillm", appauthor=False))


def free_bytes(folder: Path) -> int:
    """Free disk space where the folder is, or where it would be made."""
    return shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder` that takes its place if the block ends well, else vanishes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=unfinished_prefix(folder), dir=folder.parent))
    try:
        yield unfinished
        unfinished.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)  # a folder can't be renamed onto a full one
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what killed runs left; only for who knows that no other run is making the folder."""
    for leftover in folder.parent.glob(f"{unfinished_prefix(folder)}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def unfinished_prefix(folder: Path) -> str:
    """How the names of unfinished folders begin."""
    return f".{folder.name}-"
