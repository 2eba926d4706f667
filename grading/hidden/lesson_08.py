"""Exercise 8 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_08 as public

SEED = 90481
HINT = "Which of the public properties breaks on longer lists?"

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.step_property(
            "many requests in a step", 1, HINT,
            public.random_steps(SEED, 60, 40), public.as_expected,
        ),
        public.run_property(
            "many requests, to the end", 1, HINT, public.random_runs(SEED, 24, 9)
        ),
    ),
)  # fmt: skip
