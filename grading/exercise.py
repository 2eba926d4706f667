"""An exercise as data: how the student's code is called, and what must hold of its answers.

    EXERCISE = Exercise("lesson_02", run_function, (
        Property("the last one waits longest", 2, "Who is served first?", needs=("fifo_waits",),
                 calls=calls("fifo_waits", [([0, 0], [1, 2])]), finding=equals(right_waits)),
        …,
    ))

`run` is called where the student's code lives (grading/isolate.py) and returns plain data; the
properties look at that data here, in the parent. Inputs come smallest first, so that the first one
that fails is the one to show.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grading.cells import FromCells
from grading.isolate import Sandbox, sandbox
from grading.limits import Limits
from grading.outcome import Outcome, Run
from grading.report import CheckReport, Group

SHRINK_TRIES = 120
NO_ANSWER = "an answer"  # what is expected where none came
Expected = str
Got = str
Finding = tuple[Expected, Got] | None  # None: the property holds
Rerun = Callable[[Iterable[dict]], list[Outcome]]
Pictures = tuple[tuple[str, str], ...]  # (title, HTML) pairs


@dataclass(frozen=True)
class Call:
    """One input. text: Python that shows it again; "{scheduler}" in it becomes the name of the
    student's object that is given as `scheduler`. args: plain data for the exercise's `run`.
    """

    text: str
    args: dict


@dataclass(frozen=True)
class Skip:
    """An answer that says nothing about this property, because of another fault in it."""

    expected: Expected
    got: Got


@dataclass(frozen=True)
class Property:
    """What must hold for every call. points count whole or not at all.

    finding(args, value) → what was expected and what came, or None. needs: the objects it is
    about; it is left out of a check that does not get them. hint: a question. smaller(call): inputs
    to try in place of a failing one. pictures(args, value): for the failing one. hidden: neither an
    input nor anything that the student's code could have put one into is shown to anyone.
    """

    name: str
    points: float
    hint: str
    calls: Sequence[Call]
    finding: Callable[[dict, object], Finding | Skip]
    needs: tuple[str, ...] = ()
    smaller: Callable[[Call], Iterator[Call]] | None = None
    pictures: Callable[[dict, object], Pictures] | None = None
    hidden: bool = False


def is_callable(name: str, thing: object) -> str:
    """The usual `accepts`: a function or a class."""
    return "" if callable(thing) else f"{name} must be a function or a class: pass {name} itself."


@dataclass(frozen=True)
class Exercise:
    """One exercise. gate(values): a remark when its points shall not count, else an empty text.

    accepts(name, object): a sentence when a student's object is of the wrong kind. decode(value):
    what the properties get in place of `run`'s plain data.
    """

    name: str
    run: Run
    properties: tuple[Property, ...]
    accepts: Callable[[str, object], str] = is_callable
    gate: Callable[[Sequence[object]], str] = lambda values: ""
    decode: Callable[[object], object] = lambda value: value
    limits: Limits = field(default_factory=Limits)

    @property
    def objects(self) -> tuple[str, ...]:
        """Names of what a student writes, in order."""
        return tuple(dict.fromkeys(name for prop in self.properties for name in prop.needs))

    def check(self, objects: Mapping[str, object]) -> CheckReport:
        """Check the student's objects; what they do wrong is in the report.

        Raises ValueError for an unknown name, none at all, or an object of the wrong kind.
        """
        self.expect(objects)
        properties = [prop for prop in self.properties if set(prop.needs) <= set(objects)]
        with sandbox(self.name, self.run, objects, self.limits) as box:
            return self._judge(box, properties, objects)

    def expect(self, objects: Mapping[str, object]) -> None:
        """Raise ValueError unless these are objects that this exercise is about."""
        unknown = set(objects) - set(self.objects)
        if unknown or not objects:
            names, got = " and ".join(self.objects), ", ".join(sorted(unknown)) or "nothing"
            raise ValueError(f"The check {self.name!r} is about {names}, got {got}.")
        for name, thing in objects.items():
            sentence = "" if isinstance(thing, FromCells) else self.accepts(name, thing)
            if sentence:
                raise ValueError(sentence)

    def _judge(
        self, box: Sandbox, properties: Sequence[Property], objects: Mapping[str, object]
    ) -> CheckReport:
        def run(args: Iterable[dict]) -> list[Outcome]:
            return [self._decoded(outcome) for outcome in box.run(args)]

        groups: list[Group] = []
        remark = ""
        # All that is public comes first, smaller inputs too: whatever the code keeps of a hidden
        # input has no way into an answer that is shown.
        for hidden in (False, True):
            part = [prop for prop in properties if prop.hidden is hidden]
            inputs = {call.text: call for prop in part for call in prop.calls}
            outcomes = dict(zip(inputs, run(call.args for call in inputs.values()), strict=True))
            if not hidden:
                answers = [one.value for one in outcomes.values() if one.error is None]
                remark = self.gate(answers)
            groups += [_judged(prop, outcomes, run, not remark) for prop in part]
        named = tuple(_named(group, objects) for group in groups)
        return CheckReport(self.name, named, f"{remark}\n{box.note}".strip())

    def _decoded(self, outcome: Outcome) -> Outcome:
        if outcome.error is not None:
            return outcome
        return replace(outcome, value=self.decode(outcome.value))


def _judged(prop: Property, outcomes: Mapping[str, Outcome], rerun: Rerun, counts: bool) -> Group:
    skipped: list[tuple[Call, Skip]] = []
    for call in prop.calls:
        found = _find(prop, call, outcomes[call.text])
        if isinstance(found, Skip):
            skipped.append((call, found))
        elif found is not None:
            return _failed(prop, call, outcomes[call.text], found, rerun)
    if len(skipped) * 2 > len(prop.calls):  # too few are left to tell
        call, skip = skipped[0]
        return _failed(prop, call, outcomes[call.text], (skip.expected, skip.got), rerun, False)
    points = prop.points if counts else 0
    return Group(prop.name, True, points, prop.points, _cases(prop), hidden=prop.hidden)


def _find(prop: Property, call: Call, outcome: Outcome) -> Finding | Skip:
    if outcome.error is not None:
        return NO_ANSWER, outcome.error
    return prop.finding(call.args, outcome.value)


def _failed(
    prop: Property, call: Call, outcome: Outcome, found: tuple[Expected, Got], rerun: Rerun,
    shrinks: bool = True,
) -> Group:  # fmt: skip
    count = len(prop.calls)
    note = "fails" if count == 1 else f"not in all {count} cases"
    if prop.hidden:
        return Group(
            prop.name, False, 0, prop.points, note, "(a hidden input)", "a right answer there too",
            _without_inputs(outcome), prop.hint, hidden=True,
        )  # fmt: skip
    if shrinks and prop.smaller is not None and not outcome.died:
        call, outcome, found = _shrunk(prop, call, outcome, found, rerun)
    expected, got = found
    pictures = ()
    if prop.pictures is not None and outcome.error is None:
        pictures = prop.pictures(call.args, outcome.value)
    return Group(
        prop.name, False, 0, prop.points, note, call.text, expected, got, prop.hint, pictures,
    )  # fmt: skip


def _without_inputs(outcome: Outcome) -> str:
    """What came, with no words of the student's: those could name an input."""
    if outcome.error is None:
        return "another answer"
    if outcome.died:
        return outcome.error
    kind = re.match(r"\w*", outcome.error)[0]
    return kind if hasattr(builtins, kind) else "no answer that can be used"


def _shrunk(
    prop: Property, call: Call, outcome: Outcome, found: tuple[Expected, Got], rerun: Rerun
) -> tuple[Call, Outcome, tuple[Expected, Got]]:
    """A smaller input that fails too."""
    tries = SHRINK_TRIES
    candidates = prop.smaller(call)
    while tries > 0 and (candidate := next(candidates, None)) is not None:
        tries -= 1
        [after] = rerun([candidate.args])
        finding = _find(prop, candidate, after)
        if after.died:
            break
        if finding is not None and not isinstance(finding, Skip):
            call, outcome, found = candidate, after, finding
            candidates = prop.smaller(call)
    return call, outcome, found


def _named(group: Group, objects: Mapping[str, object]) -> Group:
    text = group.failing_call
    for name, thing in objects.items():
        text = text.replace(f"{{{name}}}", getattr(thing, "__name__", name))
    return replace(group, failing_call=text)


def _cases(prop: Property) -> str:
    count = len(prop.calls)
    return f"{count} case" if count == 1 else f"{count} cases"


# ── exercises made of functions ─────────────────────────────────────────────────────────────


def calls(function: str, arguments: Iterable[tuple]) -> tuple[Call, ...]:
    """Calls of one function with plain positional arguments."""
    return tuple(
        Call(
            f"{function}({', '.join(map(repr, values))})", {"name": function, "args": list(values)}
        )
        for values in arguments
    )


def run_function(objects: Mapping[str, object], args: dict) -> object:
    """The `run` of such an exercise: the answer, and whether the arguments were changed by it."""
    before = repr(args["args"])
    value = objects[args["name"]](*args["args"])
    return {"value": value, "changed": repr(args["args"]) != before}


def equals(right: Callable[..., object], *, rel: float = 1e-9, abs: float = 1e-12) -> Callable:
    """A finding: the answer is what `right` gives for the same arguments, numbers within `rel`."""

    def finding(args: dict, answer: object) -> Finding:
        expected = right(*args["args"])
        if answer["changed"]:
            return "the arguments left as they were", "a changed argument"
        if same(expected, answer["value"], rel, abs):
            return None
        return show(expected), show(answer["value"])

    return finding


def same(expected: object, got: object, rel: float = 1e-9, abs: float = 1e-12) -> bool:
    """Equal as plain data: numbers within rel or abs, tuples like lists, True is not 1."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return expected == got or math.isclose(expected, got, rel_tol=rel, abs_tol=abs)
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(
            same(a, b, rel, abs) for a, b in zip(expected, got, strict=True)
        )
    if isinstance(expected, dict) and isinstance(got, dict):
        keys = {str(key): value for key, value in expected.items()}
        return keys.keys() == got.keys() and all(same(keys[k], got[k], rel, abs) for k in keys)
    return expected == got


def show(value: object) -> str:
    """A value as a report shows it: numbers with at most six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {show(item)}" for key, item in value.items()) + "}"
    return repr(value)
