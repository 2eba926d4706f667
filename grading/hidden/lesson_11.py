"""Exercise 11 on other inputs."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_11 as public

SEED = 61127
AGAIN = "Which of the public properties breaks on other sizes?"

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.split(
            "other products, by columns", 1, AGAIN, public.COLUMN,
            public.random_products(SEED, 40),
        ),
        public.split(
            "other products, by rows", 1, AGAIN, public.ROW, public.random_products(SEED + 1, 40)
        ),
        public.bubble(
            "other pipelines", 1, AGAIN, [(s, m) for s in range(1, 9) for m in (1, 2, 3, 7, 32)]
        ),
        public.routing("other loads", 1, AGAIN, public.random_loads(SEED, 120)),
    ),
)  # fmt: skip
