"""Exercise 7 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_07 as public
from grading.exercise import Property, calls, equals

SEED = 70717
HINT = "Which of the public properties breaks on longer inputs?"
SCRIPTS = public.random_scripts(SEED, 60, 60)

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.script_property("longer scripts: owners", 1, HINT, SCRIPTS, public.one_owner),
        public.script_property("longer scripts: blocks", 1, HINT, SCRIPTS, public.exactly),
        Property(
            "longer queues", 1, HINT,
            calls(public.CONCURRENT, public.random_queues(SEED, 60, 60)),
            equals(public.max_concurrent), (public.CONCURRENT,),
        ),
    ),
)  # fmt: skip
