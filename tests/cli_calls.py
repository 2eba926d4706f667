"""Calling the command line from tests, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minillm.cli import main

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
TINY = ("--device", "cpu", "--dtype", "float32", "--threads", "1")


def call(*arguments: str) -> int:
    """The exit code; argparse leaves by SystemExit, the rest returns."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as end:
        return end.code or 0


def refused(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """The one sentence on stderr of a call that must end with code 2 and leave stdout empty."""
    assert call(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("minillm")
    return lines[0]


def assert_shape(value: object, golden: object, where: str = "$") -> None:
    """Same keys in the same order, and values of the type that the golden file names."""
    if isinstance(golden, dict):
        assert isinstance(value, dict), where
        assert list(value) == list(golden), where
        for key in golden:
            assert_shape(value[key], golden[key], f"{where}.{key}")
    elif isinstance(golden, list):
        assert isinstance(value, list), where
        for index, item in enumerate(value):
            assert_shape(item, golden[0], f"{where}[{index}]")
    else:
        kinds = {"number": (int, float), "str": str, "bool": bool, "null": type(None)}
        names = golden.split("|")
        assert isinstance(value, tuple(kinds[n] for n in names) if len(names) > 1 else
                          kinds[golden]), f"{where}: {value!r} is no {golden}"  # fmt: skip
        assert isinstance(value, bool) == (golden == "bool"), where


def report(command: str, text: str) -> dict:
    """The JSON of a command, its shape checked against the golden file."""
    data = json.loads(text)
    assert_shape(data, json.loads((GOLDEN / f"cli_{command}.json").read_text()))
    assert (data["schema"], data["command"]) == (1, command)
    return data


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "minillm", *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip
