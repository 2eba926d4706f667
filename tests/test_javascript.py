"""Runs the JavaScript tests (`node --test tests/js`) as one test of this suite."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.capabilities import find_program

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "js").glob("*.test.*js"))


@pytest.mark.skipif(not FILES, reason="there is no tests/js/*.test.mjs yet")
def test_node_tests_pass():
    node = find_program("node (Node.js 20 or newer runs the JavaScript tests)", "node", "nodejs")
    answer = subprocess.run(
        [node, "--test", "--test-reporter=tap", *FILES],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    passed = re.search(r"^# pass (\d+)", answer.stdout, re.MULTILINE)
    assert passed is not None, answer.stdout
    assert int(passed[1]) > 0, answer.stdout
