"""nbgrader's settings for this course: copy or link this file as nbgrader_config.py.

Grading never runs a submission in a kernel: `GradeApart` takes the place of nbgrader's Execute, so
that no student's cell can stop, delay or change the grading of another question or person.
"""

from __future__ import annotations

from pathlib import Path

from traitlets.config import Config

from grading.nbgrader_apart import GradeApart, RepairCells


def course_config(course: Path) -> Config:
    """The settings of a course that lives in this folder."""
    c = Config()
    c.CourseDirectory.root = str(course)
    c.CourseDirectory.db_url = f"sqlite:///{course / 'gradebook.db'}"
    c.Exchange.course_id = "minillm"
    apply(c)
    return c


def apply(c: Config) -> None:
    """What is the same for every course."""
    c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
    c.Autograde.sanitize_preprocessors = [
        "nbgrader.preprocessors.ClearOutput",
        RepairCells,
        "nbgrader.preprocessors.OverwriteKernelspec",
        "nbgrader.preprocessors.OverwriteCells",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        GradeApart,
        "nbgrader.preprocessors.LimitOutput",
        "nbgrader.preprocessors.SaveAutoGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]


if "get_config" in globals():  # read by nbgrader itself
    apply(get_config())  # noqa: F821
