"""Exercise 3 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_03 as public

SEED = 60317
HINT = "Which of the public properties breaks on longer lists?"
CASES = public.random_batches(SEED, 60, 60, 200)

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.property_("longer lists: finish steps", 1, HINT, CASES, public.finish_steps),
        public.property_("longer lists: waste", 1, HINT, CASES, public.dead_rows),
    ),
)
