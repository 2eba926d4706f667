"""The zips for Gradescope: what is in them, and that they are the same each time."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from grading import gradescope_zip
from grading.build import exercises
from grading.gradescope_zip import build, pins

ROOT = Path(__file__).resolve().parents[2]
ONE = "lesson_02"


def test_a_zip_holds_what_one_lesson_needs_and_is_always_the_same(tmp_path):
    first, second = (build([ONE], tmp_path / f"{n}.zip") for n in (1, 2))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as zipped:
        infos = {info.filename: info for info in zipped.infolist()}
    assert {"setup.sh", "run_autograder", "requirements.txt"} <= set(infos)
    for script in ("setup.sh", "run_autograder"):
        assert infos[script].external_attr >> 16 == 0o755
    lessons = {name for name in infos if "/lesson_" in name}
    assert lessons == {
        f"grading/{part}/{ONE}.{ending}"
        for part, ending in (("checks", "py"), ("hidden", "py"), ("source", "md"))
    }
    parts = {"/".join(name.split("/")[:2]) for name in infos if name.startswith("minillm/")}
    assert parts == {"minillm/__init__.py", "minillm/core", "minillm/sim", "minillm/data"}
    assert not any("mutants" in name or "__pycache__" in name for name in infos)
    assert first.stat().st_size < 2 << 20


def test_its_pins_are_few_and_those_of_the_lock():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = pins()
    assert set(found) <= set(lock)
    names = {pin.partition("==")[0] for pin in found}
    assert {"nbformat", "cloudpickle", "numpy"} <= names
    assert not names & {"torch", "nbgrader", "jupyterlab", "transformers"}
    assert len(names) < 20


def test_its_scripts_are_good_bash(tmp_path):
    with zipfile.ZipFile(build([ONE], tmp_path / "one.zip")) as zipped:
        for script in ("setup.sh", "run_autograder"):
            source = zipped.read(script)
            done = subprocess.run(["bash", "-n"], input=source, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
            assert source.startswith(b"#!/usr/bin/env bash\n")


def test_the_command_makes_a_zip_a_lesson_and_one_of_all(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gradescope_zip, "DIST", tmp_path)
    assert gradescope_zip.main([]) == 0
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.zip")}
    assert made == {"gradescope.zip", *(f"gradescope/{name}.zip" for name in exercises())}
    assert gradescope_zip.main(["5"]) == 0
    assert "lesson_05.zip" in capsys.readouterr().out.splitlines()[-1]
    assert gradescope_zip.main(["44"]) == 2
    assert "LESSON is '44'; it can be 01, 02" in capsys.readouterr().err
