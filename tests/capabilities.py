"""What a test needs from the machine: found, or skipped with a reason, or failed when CI=true."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """End this test: a skip on a person's machine, a failure in continuous integration."""
    reason = f"not on this machine: {what}"
    if os.environ.get("CI", "").lower() == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def find_program(what: str, *names: str) -> str:
    """The path of the first of these programs that is there; else `missing(what)`."""
    for name in names:
        found = shutil.which(name)
        if found is None and Path("/usr/sbin", name).exists():  # often not on a user's PATH
            found = f"/usr/sbin/{name}"
        if found is not None:
            return found
    missing(what)
