"""Write requirements.lock from the environment in .venv: exact pins that resolve together.

Run by `make lock` after `pip install name==version` in .venv. Standard library only. Left out:
pip itself, this project, the local part of a version (`+cpu`), the CUDA libraries that torch
brings along by itself where it was installed for a GPU, and what the extra `cluster` added.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
CLUSTER = ROOT / "requirements-cluster.txt"  # what `make cluster` adds; never in the lock

LEFT_OUT = re.compile(r"^(pip|wheel|minillm|triton|cuda-.*|nvidia-(?!ml-py$).*)$")

# Packages that only some systems need: pip reads the part after the semicolon.
MARKERS = {
    "overrides": 'python_version < "3.12"',
    "pexpect": 'sys_platform != "win32"',
    "ptyprocess": 'sys_platform != "win32"',
}
EXTRA_LINES = ['appnope==0.1.4; sys_platform == "darwin"']

HEADER = """\
# Exact pins that resolve together, written by `make lock`. Python 3.11 to 3.13, Linux and macOS.
# `make setup` installs torch first (CPU or CUDA build, see MINILLM_TORCH), then this file.
# The module pynvml comes from nvidia-ml-py; the distribution called pynvml is deprecated.
"""


def canonical(name: str) -> str:
    """One spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Name and version of each distribution in the environment that runs this script."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format", "json", "--exclude-editable"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    return {item["name"]: item["version"] for item in json.loads(listing)}


def lock_text(packages: dict[str, str]) -> str:
    """The lock file's text for these packages."""
    lines = list(EXTRA_LINES)
    pins = re.findall(r"^([\w.-]+)==", CLUSTER.read_text(encoding="utf-8"), re.MULTILINE)
    of_cluster = {canonical(name) for name in pins}
    for name, version in packages.items():
        key = canonical(name)
        if LEFT_OUT.match(key) or key in of_cluster:
            continue
        marker = f"; {MARKERS[key]}" if key in MARKERS else ""
        lines.append(f"{name}=={version.split('+')[0]}{marker}")
    return HEADER + "\n".join(sorted(lines, key=str.lower)) + "\n"


if __name__ == "__main__":
    LOCK.write_text(lock_text(installed()), encoding="utf-8")
    print(f"wrote {LOCK.name}")
