"""What a check found: properties with points, and for a failed one the smallest input.

Text for terminals and screen readers, HTML for notebooks (theme-aware, no script, no image
from elsewhere). A check never raises for what a student's code does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

HIDDEN_INPUT = "It fails on an input that is not shown."
CSS = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Group:
    """One property: whether it held in all cases, and what a failing one looked like.

    failing_call: Python that shows the failure again. hint: a question.
    pictures: (title, HTML) pairs, drawn side by side. hidden: on inputs that students do not see.
    """

    name: str
    passed: bool
    points: float
    max_points: float
    note: str = ""
    failing_call: str = ""
    expected: str = ""
    got: str = ""
    hint: str = ""
    pictures: tuple[tuple[str, str], ...] = ()
    hidden: bool = False


@dataclass(frozen=True)
class CheckReport:
    """The result of one exercise. `score` of `max`; `groups` in the order they are shown."""

    exercise: str
    groups: tuple[Group, ...] = field(default_factory=tuple)
    remark: str = ""

    @property
    def score(self) -> float:
        return sum(group.points for group in self.groups)

    @property
    def max(self) -> float:
        return sum(group.max_points for group in self.groups)

    def part(self, hidden: bool) -> CheckReport:
        """The hidden groups alone, or the others."""
        return replace(self, groups=tuple(one for one in self.groups if one.hidden is hidden))

    @property
    def first_failure(self) -> Group | None:
        return next((group for group in self.groups if not group.passed), None)

    @property
    def headline(self) -> str:
        held = sum(group.passed for group in self.groups)
        count, failure = len(self.groups), self.first_failure
        if failure is None:
            return f"All {count} properties hold." if count != 1 else "The property holds."
        if count == 1:
            return f"Does not hold yet: {failure.name}."
        return f"{held} of {count} properties hold. Next: {failure.name}."

    def __repr__(self) -> str:
        lines = [f"{self.headline}  {_points(self.score)} of {_points(self.max)} points"]
        for group in self.groups:
            lines.append(f"  {'✓' if group.passed else '✕'} {group.name} ({group.note})")
        failure = self.first_failure
        if failure is not None:
            where = failure.failing_call
            lines += [
                HIDDEN_INPUT if failure.hidden else f"Smallest failing input: {where}",
                f"  expected: {failure.expected}",
                f"  got:      {failure.got}",
                f"Hint: {failure.hint}",
            ]
        return "\n".join(lines + ([self.remark] if self.remark else []))

    def _repr_html_(self) -> str:
        kind = "mg-good" if self.first_failure is None else "mg-alert"
        rows = "".join(_row(group) for group in self.groups)
        points = f"{_points(self.score)} of {_points(self.max)} points"
        remark = f'<p class="mg-note">{escape(self.remark)}</p>' if self.remark else ""
        return (
            f"<style>{CSS}</style>"
            f'<div class="mg-card {kind}"><div class="mg-head">'
            f'<span class="mg-title">{escape(self.headline)}</span>'
            f'<span class="mg-note">{points}</span></div>'
            f'<ul class="mg-props">{rows}</ul>{self._failure_html()}{remark}</div>'
        )

    def _failure_html(self) -> str:
        failure = self.first_failure
        if failure is None:
            return ""
        call = f"<pre>{escape(failure.failing_call)}</pre>"
        where = f"<p>Smallest failing input, to paste into a cell:</p>{call}"
        if failure.hidden:
            where = f"<p>{HIDDEN_INPUT}</p>"
        pictures = "".join(
            f"<figure><figcaption>{escape(title)}</figcaption>{html}</figure>"
            for title, html in failure.pictures
        )
        return (
            f"{where}"
            f'<div class="mg-pictures">{pictures}</div>'
            f"<p><b>Expected</b> {escape(failure.expected)}<br><b>Got</b> {escape(failure.got)}</p>"
            f"<p><b>Hint</b> {escape(failure.hint)}</p>"
        )


def show(report: CheckReport) -> float:
    """Show the report where there is a notebook, else print it; its points."""
    try:
        from IPython.display import display
    except ImportError:
        print(report)
    else:
        display(report)
    return report.score


def _row(group: Group) -> str:
    mark, kind = ("✓", "mg-ok") if group.passed else ("✕", "mg-bad")
    state = "holds" if group.passed else "fails"
    name = escape(group.name)
    return (
        f'<li class="{"" if group.passed else "mg-failed"}">'
        f'<span class="{kind}" role="img" aria-label="{state}">{mark}</span>'
        f'<span>{name}</span><span class="mg-note">{escape(group.note)}</span></li>'
    )


def _points(value: float) -> str:
    return f"{value:g}"
