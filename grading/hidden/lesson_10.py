"""Exercise 10 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_10 as public

SEED = 58213

HINT = "Which of the public properties breaks on other inputs?"
EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.about(public.FRONT, 1, "more points", HINT, public.random_points(SEED, 60, 30)),
        public.about(public.BEST, 1, "other tables", HINT, public.random_rows(SEED, 60)),
        public.about(public.COST, 1, "other prices", HINT, public.random_prices(SEED, 60)),
    ),
)
