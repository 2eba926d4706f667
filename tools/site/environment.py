"""The build's own environment, build/site-venv: JupyterLite and what it needs, pinned with hashes.

It is apart from .venv, so that the course's lock stays as it is and the site can be built on a
machine that never installed the course.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.site.errors import SiteError

REQUIREMENTS = Path(__file__).with_name("requirements.lock")


def make_environment(folder: Path) -> Path:
    """The Python of the build's environment; made when it is not there or the lock has changed."""
    python, stamp = folder / "bin" / "python", folder / "complete"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    if python.exists() and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"Installing what the build needs into {folder.parent.name}/{folder.name}", flush=True)
    _run(
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        f"The build's environment {folder} could not be made",
    )
    _run(
        [
            str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install",
            "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:",
            f"--requirement={REQUIREMENTS}",
        ],
        "The build's pinned packages could not be installed",
    )
    stamp.write_text(wanted, encoding="utf-8")
    return python


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        reasons = [line for line in lines if line.startswith("ERROR:")] or lines[-3:]
        raise SiteError(f"{failure}: {' '.join(reasons) or 'no reason was given'}")
