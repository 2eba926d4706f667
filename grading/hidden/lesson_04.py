"""Exercise 4 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_04 as public

SEED = 44029
HINT = "Which of the public properties breaks on longer lists?"
CASES = public.random_arrivals(SEED, 60, 60)

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.property_("longer lists: who leaves with whom", 1, HINT, CASES, public.each_once),
        public.property_("longer lists: when they leave", 1, HINT, CASES, public.right_batches),
    ),
)
