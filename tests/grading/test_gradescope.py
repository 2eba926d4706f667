"""The Gradescope zip, run as Gradescope runs it: in a tree of its own, with its pins alone."""

from __future__ import annotations

import importlib.metadata
import json
import os
import pwd
import subprocess
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import nbformat
import pytest

from grading import gradescope
from grading.build import exercises, source_notebook
from grading.gradescope_zip import build, pins
from grading.release import student_notebooks
from grading.submission import questions
from tests.grading import hostile

ONE = hostile.EXERCISE
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
# https://gradescope-autograders.readthedocs.io/en/latest/specs/, "Output format"
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY,
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["score"],
                "properties": {
                    "score": {"type": "number", "minimum": 0},
                    "max_score": {"type": "number", "exclusiveMinimum": 0},
                    "name": {"type": "string", "minLength": 1},
                    "number": {"type": "string"},
                    "output": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITY,
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}


def bare_venv(folder: Path) -> None:
    """An environment that has the zip's pins and nothing else: links to what is installed here."""
    venv.create(folder, symlinks=True, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    for pin in pins():
        found = importlib.metadata.distribution(pin.partition("==")[0])
        tops = {file.parts[0] for file in found.files if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))


class Autograder:
    """A tree as Gradescope has it: source, submission, results and the unpacked zip."""

    def __init__(self, root: Path, archive: Path) -> None:
        self.root = root
        for name in ("source", "submission", "results"):
            (root / name).mkdir(parents=True)
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(root / "source")
        (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
        (root / "run_autograder").chmod(0o755)

    def hand_in(self, notebook: nbformat.NotebookNode, name: str = f"{ONE}.ipynb") -> None:
        for path in (self.root / "submission").iterdir():
            path.unlink()
        nbformat.write(notebook, self.root / "submission" / name)

    def run(self, **environment: str) -> dict:
        """Run the script as Gradescope does; results.json, which must keep to the schema."""
        results = self.root / "results" / "results.json"
        results.unlink(missing_ok=True)
        done = subprocess.run(
            [self.root / "run_autograder"], cwd=self.root, capture_output=True, text=True,
            timeout=400, check=False,
            env={"PATH": os.environ["PATH"], "AUTOGRADER": str(self.root), **environment},
        )  # fmt: skip
        assert done.returncode == 0
        self.said = done.stdout + done.stderr
        data = json.loads(results.read_text(encoding="utf-8"))
        jsonschema.validate(data, SCHEMA)
        return data


@pytest.fixture(scope="module")
def autograder() -> Iterator[Autograder]:
    # Not under tmp_path, which other users cannot enter.
    with tempfile.TemporaryDirectory(prefix="minillm-gradescope-") as folder:
        Path(folder).chmod(0o755)
        tree = Autograder(Path(folder) / "autograder", build([ONE], Path(folder, "one.zip")))
        bare_venv(tree.root / "venv")
        yield tree


def scores(data: dict) -> dict[str, float]:
    assert "tests" in data, data
    return {test["name"]: test["score"] for test in data["tests"]}


def total(data: dict) -> float:
    return sum(scores(data).values())


def output(data: dict) -> str:
    return "\n".join(test["output"] for test in data["tests"])


def test_a_solved_notebook_gets_every_point(autograder):
    autograder.hand_in(hostile.solved())
    data = autograder.run()
    assert scores(data) == {
        "Exercise 2: fifo_waits": 7,
        "Exercise 2: fifo_waits, hidden inputs": 1,
        "Exercise 2: littles_law": 5,
        "Exercise 2: littles_law, hidden inputs": 1,
    }
    assert all(test["score"] == test["max_score"] for test in data["tests"])
    assert [test["number"] for test in data["tests"]] == ["2.1", "2.1h", "2.2", "2.2h"]
    for test in data["tests"]:
        hides = "hidden" in test["name"]
        assert test["visibility"] == ("after_published" if hides else "visible")
    assert data["stdout_visibility"] == "hidden"
    assert data["output"] == ""
    assert "fifo_waits: 8 of 8" in autograder.said


def test_an_empty_notebook_gets_nothing_and_says_why(autograder):
    autograder.hand_in(nbformat.reads(student_notebooks()[ONE], as_version=4))
    data = autograder.run()
    assert total(data) == 0
    assert output(data).count("NotImplementedError") >= 2


def test_a_wrong_answer_shows_its_failing_input_but_no_hidden_one(autograder):
    autograder.hand_in(hostile.submitted("tells_its_input", ""))
    data = autograder.run()
    assert scores(data)["Exercise 2: fifo_waits, hidden inputs"] == 0
    assert total(data) == 13
    assert "secret" not in json.dumps(data)
    autograder.hand_in(hostile.with_answer(hostile.HEAD + "    return [0.0] * len(arrivals)"))
    data = autograder.run()
    assert "Smallest failing input: fifo_waits([0.0" in output(data)


FEW = ("endless_loop-inside", "os_exit-above", "segfault-inside")
# Every kind, once; the notebooks that were tampered with mean nothing to it.
KINDS = [
    name for name in hostile.STUDENTS
    if name not in hostile.TAMPERED and not name.endswith(("-above", "-beside"))
]  # fmt: skip


@pytest.mark.parametrize(
    "student",
    [
        name if name in FEW else pytest.param(name, marks=pytest.mark.slow)
        for name in [*KINDS, *hostile.TAMPERED, *(f"{name}-above" for name in hostile.FAULTS)]
    ],
)
def test_a_hostile_submission_costs_its_question(autograder, tmp_path, student):
    (tmp_path / "file").touch()
    autograder.hand_in(hostile.submitted(student, str(tmp_path)))
    data = autograder.run()
    points = scores(data)
    expected = hostile.STUDENTS[student]
    assert points["Exercise 2: littles_law"] + points["Exercise 2: littles_law, hidden inputs"] == 6
    assert total(data) == expected.points + hostile.OTHERS
    if "mark" not in expected.says and "no cell" not in expected.says:  # nbgrader's notes
        assert expected.says in output(data)
    assert (tmp_path / "file").exists()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("lesson_02.ipynb", "{", "lesson_02.ipynb is no notebook"),
        ("notes.txt", "hello", "No notebook named like lesson_02.ipynb was found"),
        ("lesson_03.ipynb", '{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
         "No notebook named like lesson_02.ipynb"),
    ],
)  # fmt: skip
def test_what_is_no_submission_is_told(autograder, name, text, says):
    autograder.hand_in(hostile.solved())
    (autograder.root / "submission" / f"{ONE}.ipynb").unlink()
    (autograder.root / "submission" / name).write_text(text, encoding="utf-8")
    data = autograder.run()
    assert total(data) == 0
    assert says in data["output"] + output(data)


def test_the_only_notebook_counts_whatever_its_name(autograder):
    autograder.hand_in(hostile.solved(), "my homework (2).ipynb")
    assert total(autograder.run()) == 14


def test_there_are_results_when_python_is_missing(tmp_path):
    tree = Autograder(tmp_path / "autograder", build([ONE], tmp_path / "one.zip"))
    data = tree.run()
    assert data["score"] == 0
    assert "no fault of yours" in data["output"]


def test_our_own_fault_keeps_what_is_graded(tmp_path, monkeypatch):
    results = gradescope.Results(tmp_path / "results.json", [ONE])
    (tmp_path / "lesson_02.ipynb").write_text(nbformat.writes(hostile.solved()), encoding="utf-8")
    whole = gradescope.graded

    def breaks(*args):
        yield next(whole(*args))
        raise RuntimeError("ours")

    monkeypatch.setattr(gradescope, "graded", breaks)
    with pytest.raises(RuntimeError, match="ours"):
        gradescope.grade_submission(tmp_path, results)
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, SCHEMA)
    assert total(data) == 8


def test_questions_after_the_time_is_over_say_so(tmp_path, monkeypatch):
    results = gradescope.Results(tmp_path / "results.json", [ONE])
    (tmp_path / "lesson_02.ipynb").write_text(nbformat.writes(hostile.solved()), encoding="utf-8")
    monkeypatch.setattr(gradescope, "ALL_SECONDS", 0)
    gradescope.grade_submission(tmp_path, results)
    results.write()
    data = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert total(data) == 0
    assert output(data).count("took the 0 s that there are") == 4


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_the_code_runs_as_a_user_without_rights(autograder):
    nobody = pwd.getpwnam("nobody")
    asks = f"import os\n{hostile.HEAD}    return [os.getuid(), os.getgid(), os.getgroups()]"
    autograder.hand_in(hostile.with_answer(asks))
    python = (autograder.root / "venv" / "bin" / "python").resolve()
    for parent in (*python.parents, *Path(pytest.__file__).parents):
        if not os.stat(parent).st_mode & 0o001:
            pytest.skip(f"{parent} is closed to other users")
    data = autograder.run(MINILLM_CHECK_USER="nobody")
    assert f"got:      [{nobody.pw_uid}, {nobody.pw_gid}, []]" in output(data)
    autograder.hand_in(hostile.solved())
    assert total(autograder.run(MINILLM_CHECK_USER="nobody")) == 14


def test_the_memory_of_a_small_container_is_kept(autograder):
    source = hostile.HEAD + "    block = bytearray(700 << 20)\n    return []"
    autograder.hand_in(hostile.with_answer(source))
    assert "MemoryError" in output(autograder.run(MINILLM_CHECK_MEMORY_MB="460"))
    autograder.hand_in(hostile.with_answer(hostile.answer(hostile.solved()).source.replace(
        hostile.HEAD, "import numpy\n" + hostile.HEAD
    )))  # fmt: skip
    assert total(autograder.run(MINILLM_CHECK_MEMORY_MB="460")) == 14


@pytest.mark.slow
def test_the_whole_course_in_one_zip(tmp_path):
    """All exercises solved in one submission get all points, with nothing but the pins."""
    tmp_path.chmod(0o755)
    tree = Autograder(tmp_path / "autograder", build(exercises(), tmp_path / "all.zip"))
    bare_venv(tree.root / "venv")
    for exercise in exercises():
        path = tree.root / "submission" / f"{exercise}.ipynb"
        nbformat.write(source_notebook(exercise), path)
    data = tree.run()
    assert data["output"] == ""
    lost = [test for test in data["tests"] if test["score"] != test["max_score"]]
    assert not lost, lost
    assert total(data) == sum(one.points for name in exercises() for one in questions(name))


@pytest.mark.slow
def test_setup_installs_the_pins(tmp_path):
    """setup.sh itself, with a package registry in reach."""
    tree = Autograder(tmp_path / "autograder", build([ONE], tmp_path / "one.zip"))
    done = subprocess.run(
        ["bash", tree.root / "source" / "setup.sh"], capture_output=True, text=True, timeout=500,
        env={**os.environ, "AUTOGRADER": str(tree.root)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tree.hand_in(hostile.solved())
    assert total(tree.run()) == 14
