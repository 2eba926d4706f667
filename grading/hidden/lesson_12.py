"""Exercise 12 with other draws, and the same lengths at other times."""

from __future__ import annotations

from dataclasses import replace

from grading.checks import lesson_12 as public

SEED = 71219

EXERCISE = replace(
    public.EXERCISE,
    properties=(
        public.arrival(
            "other draws", 1, "Which of the public properties breaks on other numbers?",
            public.random_draws(SEED, 60),
        ),
        public.served(
            "another minute: 95 % on 3 GPUs", 2, "How close to the limit were you before?",
            public.serves(0.95, 3, "poisson", SEED),
        ),
    ),
)  # fmt: skip
